"""What the doctor says of a cluster: nothing of one that is well, a sentence for each mistake."""

import copy
from pathlib import Path
from typing import Any

import pytest

from leveret.cli import main
from leveret.cli.doctor.cluster import QUESTIONS, is_well, report
from leveret.storage.disk import LOCK_NAME

NAMES = ("a", "b", "c")
WELL: dict[str, Any] = {
    "cluster": "shop",
    "node": "a",
    "definitions": 7,
    "members": [
        {
            "node": name,
            "linked": "here" if name == "a" else "up",
            "unanswered": None,
            "draining": False,
            "shards": 1,
            "definitions": 7,
            "redis": "shared",
            "troubles": {"etcd": None, "postgresql": None, "redis": None, "definitions": None},
            "addresses": {"link": f"{name}.example:7000"},
        }
        for name in NAMES
    ],
    "groups": [
        {
            "group": 0,
            "shards": 3,
            "state": "reachable",
            "standbys": "ANY 1 (b)",
            "version": 15,
            "trouble": None,
            "url": "db",
        },
    ],
    "shards": [{"shard": number, "owner": name, "state": "active"} for number, name in enumerate(NAMES)],
    "nodes": {name: {"etcd": 3, "lease_s": 4, "tls": True, "clock_off_ms": 0} for name in NAMES},
    "etcd_members": 3,
    "doubts": [],
}
DOUBT = {"shard": "1", "node": "b", "version": 9, "queues": 2, "names": ["q", "r"], "messages": 5, "others": 1}
MISTAKES: dict[tuple[Any, ...], tuple[object, str, bool]] = {
    ("members", 1, "unanswered"): ("no route", "node b (b.example:7000) does not answer: no route; look", True),
    ("members", 2, "troubles", "etcd"): ("timed out", "node c has trouble with etcd: timed out", True),
    ("members", 2, "troubles", "definitions"): ("old", "node c has trouble with definitions: old", True),
    ("members", 2, "definitions"): (5, "node c is at version 5", True),
    ("doubts",): ([DOUBT], "the definitions are older than shard 1, and do not know 2 of its queues (q, r)", True),
    ("members", 1, "redis"): ("none", "nodes b have no Redis", False),
    ("members", 2, "redis"): ("local", "Redis does not answer node c", False),
    ("groups", 0, "state"): ("unreachable", "group 0 cannot be reached from node a", True),
    ("groups", 0, "standbys"): ("", "group 0 has its commits on one disk", False),
    ("shards", 1, "state"): ("vacant", "no node has shards 1", True),
    ("etcd_members",): (1, "etcd has 1 of 3 members", False),
    ("nodes", "b", "etcd"): (1, "node b knows one address of etcd", False),
    ("nodes", "b", "lease_s"): (5, "cluster_lease_s differs between nodes (4, 5 s)", False),
    ("nodes", "b", "tls"): (False, "links to node b (b.example:7000) are not encrypted", False),
    ("nodes", "c", "clock_off_ms"): (-2_500, "the clock of node c is 2.5 s behind that of node a", False),
}


def advice(told: dict[str, Any]) -> list[str]:
    return [sentence for question in QUESTIONS for sentence in question(told)]


def test_a_cluster_that_is_well_needs_nothing() -> None:
    assert advice(WELL) == []
    assert is_well(WELL)
    assert report({**WELL, "advice": []}).endswith("What to do:\n- nothing needs to be done")


@pytest.mark.parametrize("path", MISTAKES, ids=str)
def test_a_mistake_is_told(path: tuple[Any, ...]) -> None:
    value, sentence, urgent = MISTAKES[path]
    told = copy.deepcopy(WELL)
    place: Any = told
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    (found,) = advice(told)
    assert found.startswith(sentence)
    assert is_well(told) is not urgent


@pytest.mark.parametrize(("lease_s", "sentence"), [(60, "a dead node is missed after"), (1, "cluster_lease_s is 1 s")])
def test_a_lease_that_is_too_long_or_too_short_is_told(lease_s: int, sentence: str) -> None:
    told = copy.deepcopy(WELL)
    for facts in told["nodes"].values():
        facts["lease_s"] = lease_s
    (found,) = advice(told)
    assert found.startswith(sentence)


def test_links_on_one_machine_need_no_certificates() -> None:
    told = copy.deepcopy(WELL)
    told["nodes"]["b"]["tls"] = False
    for address in ("127.0.0.1:7000", "[::1]:7000", "localhost:7000"):
        told["members"][1]["addresses"]["link"] = address
        assert advice(told) == []


def test_a_node_that_does_not_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / LOCK_NAME).touch()
    assert main.main(["doctor", str(tmp_path)]) == 1
    assert "does not run: start it" in capsys.readouterr().err
