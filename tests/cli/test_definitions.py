"""Files of definitions: RabbitMQ's are understood, and what is exported comes back the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from leveret.cli import definitions, main
from leveret.core.definition_log import Kind
from leveret.core.errors import InvalidArgument
from leveret.operations import definitions as sections
from leveret.security.passwords import verify
from leveret.security.users import User
from leveret.server.control import connect
from tests.server.control_world import SMALL, Served

SHA256 = "rabbit_password_hashing_sha256"
DOCUMENTED = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"  # of "test12"
EXPORTED: dict[str, Any] = {
    "rabbit_version": "4.1.0",
    "rabbitmq_version": "4.1.0",
    "product_name": "RabbitMQ",
    "users": [
        {
            "name": "ada",
            "password_hash": DOCUMENTED,
            "hashing_algorithm": SHA256,
            "tags": ["administrator"],
            "limits": {},
        },
        {"name": "old", "password_hash": DOCUMENTED, "hashing_algorithm": SHA256, "tags": "monitoring,king"},
        {"name": "bad", "password_hash": "???", "hashing_algorithm": SHA256, "tags": []},
    ],
    "vhosts": [
        {"name": "/"},
        {
            "name": "team",
            "description": "",
            "metadata": {"description": "ours", "tags": ["a"], "default_queue_type": "undefined"},
        },
    ],
    "permissions": [{"user": "ada", "vhost": "team", "configure": ".*", "write": ".*", "read": ".*"}],
    "topic_permissions": [{"user": "ada", "vhost": "team", "exchange": "logs", "write": "^a", "read": ".*"}],
    "parameters": [
        {"component": "vhost-limits", "vhost": "team", "name": "limits", "value": {"max-queues": 9}},
        {
            "component": "operator_policy",
            "vhost": "team",
            "name": "cap",
            "value": {"pattern": ".*", "apply-to": "queues", "definition": {"max-length": 100}, "priority": 0},
        },
        {"component": "shovel", "vhost": "team", "name": "s", "value": {}},
    ],
    "global_parameters": [{"name": "cluster_name", "value": "rabbit@host"}],
    "shovels": [{"name": "s"}],
    "policies": [
        {
            "vhost": "team",
            "name": "p",
            "pattern": "^q",
            "apply-to": "queues",
            "definition": {"max-length": 5},
            "priority": 1,
        },
        {
            "vhost": "team",
            "name": "ha",
            "pattern": ".*",
            "apply-to": "all",
            "definition": {"colour": "blue"},
            "priority": 0,
        },
    ],
    "queues": [
        {"name": "q", "vhost": "team", "durable": True, "auto_delete": False, "arguments": {"x-queue-type": "quorum"}},
        {"name": "typed", "vhost": "team", "type": "quorum", "durable": True, "auto_delete": False, "arguments": {}},
        {
            "name": "stream",
            "vhost": "team",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "stream"},
        },
        {"name": "lost", "vhost": "nowhere", "durable": True, "auto_delete": False, "arguments": {}},
    ],
    "exchanges": [
        {
            "name": "logs",
            "vhost": "team",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        }
    ],
    "bindings": [
        {
            "source": "logs",
            "vhost": "team",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {},
        }
    ],
}
SKIPPED = [
    "users: name 'bad': the password hash cannot be read",
    "parameters: component 'shovel', name 's', vhost 'team': parameters of shovel mean nothing here",
    "policies: name 'ha', vhost 'team': 'colour' is not a recognised policy setting",
    "queues: name 'lost', vhost 'nowhere': vhost nowhere not found",
    "shovels: there is no such thing in Leveret",
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """No room is reserved on the disk."""
    for name, value in SMALL.items():
        monkeypatch.setenv(f"LEVERET_{name.upper()}", str(value))


def written(path: Path, document: Any) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def leveret(*words: object, data: Path) -> int:
    data.mkdir(exist_ok=True)
    return main.main([*map(str, words), "--data", str(data)])


def test_passwords_of_users_are_hashed_before_they_are_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    users = [
        {"name": "ada", "password": "lovelace", "hashing_algorithm": SHA256, "tags": ["management"]},
        {"name": "old", "password_hash": DOCUMENTED, "tags": []},
        {"name": "both", "password": "lovelace", "password_hash": DOCUMENTED, "tags": []},
        {"name": "none", "password": "", "tags": []},
        {"name": "long", "password": "x" * 1_025, "tags": []},
        {"name": "short", "password": "byron", "tags": []},
    ]
    path = written(tmp_path / "users.json", {"users": users})
    assert leveret("definitions", "import", path, data=tmp_path / "data") == 0
    told = capsys.readouterr()
    assert [line.split("'")[1] for line in told.err.splitlines()] == ["both", "long", "short"]
    assert "at least 8 characters" in told.err
    assert not {"lovelace", "byron"} & set(told.err.split("'"))
    assert leveret("definitions", "export", data=tmp_path / "data") == 0
    found = {row["name"]: User.from_dict(row) for row in json.loads(capsys.readouterr().out)["users"]}
    assert verify(found["ada"].password_hash, "lovelace")
    assert verify(found["old"].password_hash, "test12")
    assert found["none"].password_hash == ""
    assert not {"both", "long", "short"} & found.keys()


def test_a_file_of_rabbitmq_is_merged_and_what_is_left_out_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "rabbit.json", EXPORTED)
    assert leveret("definitions", "import", path, data=tmp_path / "data") == 0
    output = capsys.readouterr()
    assert [line.split() for line in output.out.splitlines()] == [
        ["section", "imported", "skipped"],
        ["vhosts", "2", "0"],
        ["users", "2", "1"],
        ["permissions", "1", "0"],
        ["topic_permissions", "1", "0"],
        ["parameters", "2", "1"],
        ["global_parameters", "1", "0"],
        ["policies", "1", "1"],
        ["exchanges", "1", "0"],
        ["queues", "3", "1"],
        ["bindings", "1", "0"],
        ["queue_details", "0", "0"],
        ["alert_rules", "0", "0"],
        ["alert_receivers", "0", "0"],
    ]
    told = output.err.splitlines()
    assert len(told) == len(SKIPPED)
    for line, beginning in zip(told, SKIPPED, strict=True):
        assert line.startswith(f"skipped {beginning.rstrip()}")


def test_what_was_imported_is_there(tmp_path: Path) -> None:
    served = Served(tmp_path / "data")
    try:
        path = written(tmp_path / "rabbit.json", EXPORTED)
        assert leveret("definitions", "import", path, data=tmp_path / "data") == 0
        login = served.access.users.check("ada", "test12", "192.0.2.1", 0)
        assert login.user is not None
        assert login.rehash
        assert served.access.users.get("old").tags == {"monitoring"}
        home = served.context.core.topology.vhost("team")
        assert home.details.description == "ours"
        assert home.queue("q").policy.max_length == 5
        assert [home.queue(name).policy.queue_type for name in ("q", "typed", "stream")] == [
            "quorum",
            "quorum",
            "stream",
        ]
        assert [queue.name for queue in home.route("logs", ["a.b"])] == ["q"]
        assert served.access.vhost_limits("team").queues_max == 9
        assert served.access.permissions.may_enter("ada", "team")
    finally:
        served.stop()


def test_an_export_comes_back_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "rabbit.json", EXPORTED)
    leveret("definitions", "import", path, data=tmp_path / "one")
    leveret("users", "add", "new", "--no-password", data=tmp_path / "one")
    leveret("definitions", "export", tmp_path / "first.json", data=tmp_path / "one")
    leveret("definitions", "import", tmp_path / "first.json", data=tmp_path / "two")
    capsys.readouterr()
    leveret("definitions", "export", data=tmp_path / "two")
    first = json.loads((tmp_path / "first.json").read_text())
    assert json.loads(capsys.readouterr().out) == first
    assert first["users"][0] == EXPORTED["users"][0]
    assert first["bindings"] == EXPORTED["bindings"]
    assert [row["component"] for row in first["parameters"]] == ["vhost-limits", "operator_policy"]


def test_importing_twice_changes_nothing_but_conflicts_are_left_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "one.json", {"queues": [{"name": "q", "arguments": {"x-max-length": 1}}]})
    for _ in range(2):
        assert leveret("definitions", "import", path, "--json", data=tmp_path / "data") == 0
        rows = json.loads(capsys.readouterr().out)["sections"]
        assert [row for row in rows if row["imported"]] == [{"section": "queues", "imported": 1, "skipped": []}]
    other = written(tmp_path / "two.json", {"queues": [{"name": "q", "arguments": {"x-max-length": 2}}]})
    leveret("definitions", "import", other, "--json", data=tmp_path / "data")
    (skipped,) = [row["skipped"] for row in json.loads(capsys.readouterr().out)["sections"] if row["skipped"]]
    assert "inequivalent arg 'x-max-length'" in skipped[0]["reason"]


def test_objects_without_a_vhost_go_where_they_are_told(tmp_path: Path) -> None:
    path = written(tmp_path / "one.json", {"vhosts": [{"name": "team"}], "queues": [{"name": "q"}]})
    leveret("definitions", "import", path, "--vhost", "team", data=tmp_path / "data")
    with connect(str(tmp_path / "data"), SMALL) as operator:
        (queue,) = operator.call("definitions.export", section="queues")["objects"]
    assert queue["vhost"] == "team"


@pytest.mark.parametrize(
    ("section", "row", "reason"),
    [
        ("queues", 1, "not an object"),
        ("queues", {}, "has no name"),
        ("queues", {"name": 1}, "its name is of the type int, not str"),
        ("queues", {"name": "q", "durable": "yes"}, "its durable is of the type str, not bool"),
        ("queues", {"name": "q", "arguments": []}, "its arguments is of the type list"),
        ("queues", {"name": "q", "arguments": {"a": {"$bytes": 1}}}, "invalid arguments"),
        ("exchanges", {"name": "x", "type": "square"}, "square"),
        ("exchanges", {"name": "amq.mine", "type": "direct"}, "reserved"),
        ("vhosts", {"name": "v", "metadata": {"tags": "a"}}, "its tags is of the type str"),
        ("vhosts", {"name": "v", "default_queue_type": "square"}, "default queue type"),
        ("users", {"name": "u", "limits": {"max-shoes": 1}}, "limits of a user"),
        ("users", {"name": "u", "tags": [1]}, "list of names"),
        ("policies", {"name": "p", "pattern": ".*"}, "has no definition"),
        ("parameters", {"component": "vhost-limits", "value": {"max-queues": "1"}}, "max-queues is a number"),
        ("bindings", {"source": "x", "destination": "q", "routing_key": ""}, "has no destination_type"),
    ],
)
def test_objects_that_cannot_be_understood_are_left_out(tmp_path: Path, section: str, row: Any, reason: str) -> None:
    with connect(str(tmp_path), SMALL) as operator:
        became = operator.call("definitions.import", section=section, objects=[row, row])
    assert became["imported"] == 0
    assert [reason in each["reason"] for each in became["skipped"]] == [True, True]


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "is not an object"),
        ('{"queues": {}}', "queues is not a list"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_files_that_are_something_else_are_refused(
    tmp_path: Path, document: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "other.json", document)
    assert leveret("definitions", "import", path, data=tmp_path / "data") == 1
    assert complaint in capsys.readouterr().err


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(definitions, "FILE_BYTES_MAX", 10)
    path = written(tmp_path / "large.json", EXPORTED)
    assert leveret("definitions", "import", path, data=tmp_path / "data") == 1
    assert "split it" in capsys.readouterr().err


def test_large_files_are_sent_and_fetched_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(definitions, "PART_CHARS_MAX", 100)
    monkeypatch.setattr(sections, "OBJECTS_MAX", 7)
    names = [f"queue-{number:02}" for number in range(21)]
    path = written(tmp_path / "many.json", {"queues": [{"name": name} for name in names]})
    served = Served(tmp_path / "data")
    try:
        leveret("definitions", "import", path, data=tmp_path / "data")
        capsys.readouterr()
        leveret("definitions", "export", data=tmp_path / "data")
    finally:
        served.stop()
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["queues"]] == names


def test_queues_of_connections_are_not_exported(tmp_path: Path) -> None:
    served = Served(tmp_path)
    try:
        with served.broker.runtime as core:
            core.declare_queue("/", "mine", owner=object())
            core.bind("/", "amq.fanout", "mine")
        with connect(str(tmp_path)) as operator:
            for section in ("queues", "bindings", "exchanges"):
                assert operator.call("definitions.export", section=section)["objects"] == []
    finally:
        served.stop()


def test_unknown_sections_are_refused(tmp_path: Path) -> None:
    with connect(str(tmp_path), SMALL) as operator:
        with pytest.raises(InvalidArgument, match="there is no section 'shoes'"):
            operator.call("definitions.import", section="shoes", objects=[])
        with pytest.raises(InvalidArgument, match="there is no section 'shoes'"):
            operator.call("definitions.export", section="shoes")


def test_users_keep_their_kind_of_hash_through_the_journal(tmp_path: Path) -> None:
    with connect(str(tmp_path), SMALL) as operator:
        operator.call("definitions.import", section="users", objects=EXPORTED["users"][:1])
    served = Served(tmp_path)
    try:
        (stored,) = served.context.core.catalog.of(Kind.USER)
        assert User.from_dict(stored).password_hash == f"{SHA256}${DOCUMENTED}"
    finally:
        served.stop()
