"""The control socket, and the same verbs on a directory that no server has open."""

import json
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.core.errors import (
    DataLocked,
    InvalidArgument,
    LeveretError,
    NotFound,
    PreconditionFailed,
    TooMany,
    VhostNotFound,
)
from leveret.operations.operation import fits
from leveret.operations.perform import error_class
from leveret.operations.registry import OPERATIONS
from leveret.server import control
from leveret.server.control import REQUEST_BYTES_MAX, SOCKET_NAME, Operator, connect, listening_socket
from tests.durability.children import Child
from tests.server.control_world import HASH, SMALL, Served

FIRST_USER = {"name": "ada", "tags": ["administrator"], "password": "scrypt", "limits": {}}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A broker with a control socket."""
    running = Served(tmp_path / "data")
    yield running
    running.stop()


@pytest.fixture(params=["a server", "a directory"])
def operator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Operator]:
    """Somebody who does what is asked for, in both ways."""
    directory = tmp_path / "data"
    directory.mkdir()
    served = Served(directory) if request.param == "a server" else None
    try:
        with connect(str(directory), SMALL) as connected:
            if served is not None:
                connected.call("users.delete", name="guest", force=True)
            connected.call("users.add", name="ada", password_hash=HASH, tags=["administrator"])
            yield connected
    finally:
        if served is not None:
            served.stop()


def raw(directory: str) -> socket.socket:
    """A connection to the control socket."""
    connection = control.connected(directory)
    assert connection is not None
    return connection


def test_users_are_managed(operator: Operator) -> None:
    assert operator.call("users.list") == [FIRST_USER]
    bob = {"name": "bob", "tags": [], "password": "none", "limits": {}}
    assert operator.call("users.add", name="bob") == bob
    assert operator.call("users.tags", name="bob", tags=["monitoring"])["tags"] == ["monitoring"]
    assert operator.call("users.password", name="bob", password_hash=HASH)["password"] == "scrypt"
    assert operator.call("users.limits", name="bob", limits={"max-channels": 3})["limits"] == {"max-channels": 3}
    assert operator.call("users.delete", name="bob") is None
    with pytest.raises(PreconditionFailed, match="last administrator"):
        operator.call("users.delete", name="ada")
    assert operator.call("users.list") == [FIRST_USER]


def test_vhosts_are_managed(operator: Operator) -> None:
    operator.call("vhosts.add", name="team", description="ours", tags=["a"], default_queue_type="quorum")
    operator.call("vhosts.add", name="team", description="theirs")
    operator.call("vhosts.limits", name="team", limits={"max-queues": 2})
    operator.call("vhosts.trace", name="team", state="on")
    assert operator.call("vhosts.list")[1] == {
        "name": "team",
        "description": "theirs",
        "tags": ["a"],
        "default_queue_type": "quorum",
        "tracing": True,
        "queues": 0,
        "messages": 0,
        "limits": {"max-queues": 2},
    }
    assert operator.call("vhosts.trace", name="team", state="off")["tracing"] is False
    with pytest.raises(InvalidArgument, match="the firehose is turned on or off, not 'maybe'"):
        operator.call("vhosts.trace", name="team", state="maybe")
    operator.call("vhosts.delete", name="team")
    assert [row["name"] for row in operator.call("vhosts.list")] == ["/"]
    with pytest.raises(VhostNotFound):
        operator.call("vhosts.delete", name="team")
    with pytest.raises(InvalidArgument, match="empty"):
        operator.call("vhosts.add", name="")


def test_permissions_are_managed(operator: Operator) -> None:
    operator.call("vhosts.add", name="team")
    set_to = {"user": "ada", "vhost": "team", "configure": "", "write": "^a", "read": ".*"}
    assert operator.call("permissions.set", **set_to) == set_to
    operator.call("permissions.set", user="ada", vhost="/", configure="", write="", read="")
    assert operator.call("permissions.list", vhost="team") == [set_to]
    assert [row["vhost"] for row in operator.call("permissions.list", user="ada")] == ["/", "team"]
    assert operator.call("permissions.list", user="eve") == []
    operator.call("permissions.clear", user="ada", vhost="team")
    with pytest.raises(NotFound):
        operator.call("permissions.clear", user="ada", vhost="team")


def test_topic_permissions_are_managed(operator: Operator) -> None:
    for exchange in ("one", "two"):
        row = {"user": "ada", "vhost": "/", "exchange": exchange, "write": "^a", "read": ".*"}
        assert operator.call("topic-permissions.set", **row) == row
    operator.call("topic-permissions.clear", user="ada", vhost="/", exchange="one")
    assert [row["exchange"] for row in operator.call("topic-permissions.list", user="ada", vhost="/")] == ["two"]
    operator.call("topic-permissions.clear", user="ada", vhost="/")
    assert operator.call("topic-permissions.list") == []


def test_policies_are_managed(operator: Operator) -> None:
    operator.call("policies.set", vhost="/", name="p", pattern="^q", definition={"max-length": 3}, priority=2)
    operator.call("policies.set", vhost="/", name="p", pattern=".*", definition={"max-length": 9}, operator=True)
    listed = operator.call("policies.list", vhost="/")
    assert [(row["name"], row["operator"], row["definition"]) for row in listed] == [
        ("p", False, {"max-length": 3}),
        ("p", True, {"max-length": 9}),
    ]
    operator.call("policies.clear", vhost="/", name="p")
    assert [row["operator"] for row in operator.call("policies.list")] == [True]
    with pytest.raises(NotFound, match="no policy 'p'"):
        operator.call("policies.clear", vhost="/", name="p")


def test_status_counts(operator: Operator) -> None:
    status = operator.call("status")
    assert (status["users"], status["vhosts"], status["queues"], status["ready"]) == (1, 1, 0, 0)


def test_a_server_says_more_about_itself(served: Served) -> None:
    with connect(served.directory) as operator:
        assert operator.call("status")["pid"] == 4711


@pytest.mark.parametrize(
    ("verb", "arguments", "complaint"),
    [
        ("users.lst", {}, "did you mean 'users.list'"),
        ("nonsense", {}, "no verb"),
        ("users.add", {}, "missing a required argument: 'name'"),
        ("users.add", {"name": "bob", "shoes": 1}, "unexpected keyword argument 'shoes'"),
        ("users.add", {"name": 1}, "name of users.add is of another type than int"),
        ("users.add", {"name": "bob", "tags": "x"}, "tags of users.add is of another type than str"),
        ("users.add", {"name": "bob", "tags": [1]}, "list of names"),
        ("users.add", {"name": "bob", "password_hash": "plain"}, "set a new password"),
        ("users.limits", {"name": "ada", "limits": {"max-channels": "1"}}, "max-channels is a number"),
        ("vhosts.add", {"name": "v", "tags": [[]]}, "tag name is a string"),
        ("policies.set", {"vhost": "/", "name": "p", "pattern": ".", "definition": {}, "priority": True}, "priority"),
    ],
)
def test_bad_requests_are_refused(operator: Operator, verb: str, arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        operator.call(verb, **arguments)
    assert operator.call("users.list") == [FIRST_USER]


@pytest.mark.parametrize("line", [b"\n", b"{\n", b"[]\n", b"\xff\n", b"[" * 100_000 + b"\n", b'"users.list"\n'])
def test_lines_that_are_no_request_are_refused(served: Served, line: bytes) -> None:
    answer = served.answer(line)
    assert answer["error"] == "InvalidArgument"
    assert "JSON object" in answer["message"]


@pytest.mark.parametrize("line", [b"{}\n", b'{"verb": null}\n', b'{"verb": ["users.list"]}\n'])
def test_a_request_without_a_verb_is_refused(served: Served, line: bytes) -> None:
    assert "there is no verb" in served.answer(line)["message"]


def test_a_fault_of_ours_is_answered_and_the_socket_goes_on(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = replace(OPERATIONS["users.list"], handler=lambda context: 1 / 0)
    monkeypatch.setitem(OPERATIONS, "users.list", failing)
    with connect(served.directory) as operator:
        with pytest.raises(LeveretError, match="log says why"):
            operator.call("users.list")
        assert operator.call("status")["users"] == 1


def test_one_connection_asks_many_times(served: Served) -> None:
    with connect(served.directory) as operator:
        for number in range(50):
            operator.call("users.add", name=f"user-{number}")
        assert len(operator.call("users.list")) == 51


def test_a_line_that_is_too_long_ends_the_connection(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(served.directory) as operator, pytest.raises(PreconditionFailed, match="limit"):
        operator.call("users.add", name="x" * REQUEST_BYTES_MAX)
    with raw(served.directory) as connection, connection.makefile("rb") as answers:
        connection.sendall(b"x" * (REQUEST_BYTES_MAX + 1))
        assert b"send it in parts" in answers.readline()
        assert answers.read() == b""


def test_who_says_nothing_is_hung_up_on(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "REQUEST_S", 0.01)
    with raw(served.directory) as connection:
        assert connection.recv(1) == b""


def test_the_number_of_connections_is_limited(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CONNECTIONS_MAX", 1)
    with connect(served.directory) as operator:
        operator.call("status")
        with connect(served.directory) as second, pytest.raises(TooMany, match="try again"):
            second.call("status")
        assert operator.call("status")["users"] == 1


def test_a_server_that_hangs_up_is_told_from_one_that_refuses(served: Served) -> None:
    with connect(served.directory) as operator:
        operator.call("status")
        served._run(served.control.stop())
        with pytest.raises(PreconditionFailed, match="hung up"):
            operator.call("status")


def test_the_socket_is_for_its_owner_only_and_goes_with_the_server(tmp_path: Path) -> None:
    served = Served(tmp_path)
    path = tmp_path / SOCKET_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    served.stop()
    assert not path.exists()


def test_a_file_that_is_not_a_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / SOCKET_NAME).write_text("mine")
    with pytest.raises(PreconditionFailed, match="move it away"):
        listening_socket(str(tmp_path))
    assert (tmp_path / SOCKET_NAME).read_text() == "mine"


def test_a_long_path_does_not_matter(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 120)
    served = Served(directory)
    try:
        with connect(str(directory)) as operator:
            assert operator.call("status")["pid"] == 4711
    finally:
        served.stop()


def test_what_was_answered_survives_a_killed_server_and_its_socket_is_no_hindrance(tmp_path: Path) -> None:
    names = [f"user-{number}" for number in range(20)]
    with Child("tests.server.control_child", str(tmp_path)) as child:
        assert child.line() == "listening"
        with connect(str(tmp_path)) as operator:
            operator.call("vhosts.add", name="team")
            for name in names:
                operator.call("users.add", name=name, password_hash=HASH)
                operator.call("permissions.set", user=name, vhost="team", configure="", write="", read=name)
        child.kill()
    assert (tmp_path / SOCKET_NAME).exists()
    with connect(str(tmp_path), SMALL) as operator:
        assert [row["name"] for row in operator.call("users.list")] == sorted(names)
        assert {row["user"]: row["read"] for row in operator.call("permissions.list")} == {name: name for name in names}
    served = Served(tmp_path)
    try:
        with connect(str(tmp_path)) as operator:
            assert "pid" in operator.call("status")
    finally:
        served.stop()


def test_a_directory_that_another_program_has_open_is_refused(tmp_path: Path) -> None:
    with leveret.open(tmp_path, **SMALL), pytest.raises(DataLocked, match="does not listen"), connect(str(tmp_path)):
        pass


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no directory"), connect(str(tmp_path / "typo")):
        pass
    assert os.listdir(tmp_path) == []


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(NotFound, match="not the data directory"), connect(str(tmp_path)):
        pass
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_a_vhost_with_messages_goes_only_when_forced(served: Served) -> None:
    with served.broker.runtime as core:
        core.declare_vhost("team")
        queue = core.declare_queue("team", "q")
        core.send(queue, b"\0" * 14, 14)
    with connect(served.directory) as operator:
        with pytest.raises(PreconditionFailed, match="1 messages"):
            operator.call("vhosts.delete", name="team")
        operator.call("vhosts.delete", name="team", force=True)
        assert [row["name"] for row in operator.call("vhosts.list")] == ["/"]


def test_no_hash_leaves_the_server_in_a_list(served: Served) -> None:
    assert "scrypt$" not in json.dumps(served.answer(b'{"verb": "users.list"}\n'))


def test_refusals_keep_their_class_and_unknown_ones_are_refusals() -> None:
    assert error_class("VhostNotFound") is VhostNotFound
    assert error_class("FromTheFuture") is LeveretError
    assert error_class("__name__") is LeveretError


@pytest.mark.parametrize(
    ("value", "hint", "fit"),
    [(1, int, True), (True, int, False), (True, bool, True), (None, str | None, True), ([], list[str] | None, True)],
)
def test_values_are_compared_with_annotations(value: object, hint: Any, fit: bool) -> None:
    assert fits(value, hint) is fit
