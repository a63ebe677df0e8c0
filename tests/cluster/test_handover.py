"""Messages that are not persistent go with their shard when that is planned, and are dropped otherwise."""

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import leveret
from leveret.cluster.shards import hosting
from leveret.cluster.shards.hosting import pack, unpack
from leveret.core import browse
from leveret.core.broker import Broker
from leveret.core.properties import Properties, content
from leveret.core.queue import Queue


def opened(path: Path) -> leveret.Broker:
    """A shard, as its next owner finds it."""
    broker = leveret.open(path, sync="never", spare_bytes=0)
    with broker.runtime as core:
        unpack(core)
    return broker


def publish(core: Broker, queue: Queue, body: bytes, *, persistent: bool, **options: Any) -> None:
    core.publish([queue], queue.route, *content(Properties(), body), persistent=persistent, **options)


def bodies(queue: Queue) -> list[bytes]:
    return [browse.read(held).body for held in browse.ready_after(queue, (), 100)[0]]


def core_of(broker: leveret.Broker, name: str = "q") -> Queue:
    return broker.queue(name).core


@pytest.fixture
def broker(tmp_path: Path) -> leveret.Broker:
    """A shard with messages of both kinds, some of which somebody holds."""
    broker = opened(tmp_path / "disk")
    queue = core_of(broker)
    with broker.runtime as core:
        for number in range(6):
            publish(core, queue, b"%d" % number, persistent=number % 2 == 0)
        publish(core, queue, b"later", persistent=False, due_ms=core.now_ms + 3_600_000)
        publish(core, core.declare_queue("/", "fleeting", durable=False), b"lost", persistent=True)
        queue.take(2)
    return broker


@pytest.mark.parametrize("is_replayed", [True, False])
def test_what_is_not_persistent_goes_with_a_shard_in_its_order(
    broker: leveret.Broker, tmp_path: Path, is_replayed: bool
) -> None:
    with broker.runtime as core:
        pack(core)
    broker.flush()
    copytree(tmp_path / "disk", tmp_path / "replayed")
    broker.close()
    again = opened(tmp_path / ("replayed" if is_replayed else "disk"))
    queue = core_of(again)
    assert bodies(queue) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [held.deliveries for held in browse.ready_after(queue, (), 3)[0]] == [1, 1, 0]
    assert queue.scheduled == 1
    with again.runtime as core:
        assert "fleeting" not in core.topology.vhost("/").queues
    again.close()


def test_it_is_for_the_next_owner_only_unless_that_hands_it_over_as_well(
    broker: leveret.Broker, tmp_path: Path
) -> None:
    for _ in range(3):
        with broker.runtime as core:
            pack(core)
        broker.close()
        broker = opened(tmp_path / "disk")
    queue = core_of(broker)
    assert len(bodies(queue)) == 6
    broker.close()
    for _ in range(2):
        broker = opened(tmp_path / "disk")
        queue = core_of(broker)
        assert (bodies(queue), queue.scheduled) == ([b"0", b"2", b"4"], 0)
        broker.close()


def test_a_restart_drops_it(broker: leveret.Broker, tmp_path: Path) -> None:
    broker.close()
    again = opened(tmp_path / "disk")
    assert bodies(core_of(again)) == [b"0", b"2", b"4"]
    again.close()


def test_only_so_much_is_kept_and_that_is_the_oldest(
    broker: leveret.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "KEPT_BYTES_MAX", 1)
    with broker.runtime as core:
        pack(core)
    broker.close()
    again = opened(tmp_path / "disk")
    assert bodies(core_of(again)) == [b"0", b"1", b"2", b"4"]
    again.close()
