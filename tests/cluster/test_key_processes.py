"""Real nodes on a real PostgreSQL: the encryption key of all shards is rotated."""

from pathlib import Path
from typing import Any

from leveret.storage.encryption import MasterKeys
from tests.cluster.processes import Nodes
from tests.cluster.test_web_processes import ask
from tests.storage.journal.old_store import key_file
from tests.waiting import wait_until

OLD, NEW = b"o" * 32, b"n" * 32
QUEUES = [f"q{number}" for number in range(8)]  # some in every shard


def rotated(nodes: Nodes) -> dict[str, Any]:
    nodes.operate("b", "journal.rotate-key")
    return wait_until(
        lambda: found if (found := nodes.operate("a", "journal.rotation-status"))["state"] != "running" else None
    )


def test_the_key_of_all_shards_is_rotated(nodes: Nodes, tmp_path: Path) -> None:
    keys = key_file(tmp_path / "keys", OLD)
    nodes.use("--encryption-key-file", keys)
    nodes.start("a", "b")
    for name in QUEUES:
        ask(nodes, "b", f"PUT /queues/{name}", {})
        ask(nodes, "b", f"POST /queues/{name}/messages", {"payload": name})
    for name in ("a", "b"):
        nodes.stop(name)
    key_file(tmp_path / "keys", NEW, OLD)
    nodes.start("a", "b")
    old = MasterKeys(OLD).writing.hex()
    state = rotated(nodes)
    assert (state["state"], state["removable"], list(state["needed"])) == ("done", [], [old])
    assert "segments of history" in state["needed"][old]
    nodes.use("--history-bytes", "0")
    for name in ("a", "b"):
        nodes.stop(name)
    nodes.start("a", "b")
    state = rotated(nodes)
    assert (state["state"], state["removable"], state["needed"]) == ("done", [old], {})
    for name in ("a", "b"):
        nodes.stop(name)
    key_file(tmp_path / "keys", NEW)
    nodes.start("a", "b")
    for name in QUEUES:
        (message,) = ask(nodes, "a", f"POST /queues/{name}/dequeue", {})["messages"]
        assert message["payload"] == name
