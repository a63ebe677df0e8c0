"""A move as its node sees it: closed by whom and when, and what becomes of it."""

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from typing import Any, ClassVar, cast

import pytest

from leveret.cluster.shards import moving
from leveret.cluster.shards.groups import ShardGroup, ShardGroups, ShardLocation
from leveret.cluster.shards.moving import Moving
from leveret.core.errors import (
    Fenced,
    LeveretError,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
    StoreUnreachable,
    Unreachable,
)
from leveret.embedded.broker import Broker
from tests.waiting import PATIENCE_S

GROUPS = [ShardGroup(0, "zero"), ShardGroup(1, "one")]
SHARD, EPOCH = 3, 10


class FakeGroups:
    """Groups in memory, of which one shard may be claimed."""

    def __init__(self, origin: ShardGroup | None = None) -> None:
        self.shard_id: ShardLocation | None = ShardLocation(GROUPS[0], origin)
        self.switches = True

    def all(self) -> list[ShardGroup]:
        return GROUPS

    def catalog_database(self) -> int:
        return 0

    def claim(self, shard: int, epoch: int) -> ShardLocation | None:
        return self.shard_id

    def switch(self, shard: int, epoch: int, target: int) -> bool:
        return self.switches

    def close(self) -> None: ...


class FakeCopy:
    """A copy that is made when it may be."""

    go = threading.Event()
    done: ClassVar[list[str]] = []

    def __init__(self, *place: object) -> None: ...

    def begin(self) -> None:
        self.done.append("begin")

    def copy_ahead(self) -> None:
        self.go.wait(PATIENCE_S)
        self.done.append("copy_ahead")

    def finish(self) -> None:
        self.go.wait(PATIENCE_S)
        self.done.append("finish")

    def cancel(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "ShardCopy", FakeCopy)
    FakeCopy.go.set()
    FakeCopy.done.clear()


def played(groups: FakeGroups, play: Callable[[Moving], Any]) -> None:
    """Let a node that has taken the shard over do something."""

    async def main() -> None:
        node = Moving("a", cast(ShardGroups, groups), lambda url, shard, epoch: cast(Broker, url))
        node.retake = lambda shard: cast(None, asyncio.ensure_future(node.closed(shard, EPOCH)))
        await asyncio.to_thread(node.open_at, SHARD, EPOCH)
        await asyncio.sleep(0)
        try:
            await play(node)
        finally:
            await node.close()

    asyncio.run(main())


def test_a_shard_is_finished_when_it_is_closed() -> None:
    async def play(node: Moving) -> None:
        assert node.group_of(SHARD) == 0
        await node.move(SHARD, 1)
        assert FakeCopy.done == ["begin", "copy_ahead", "finish"]
        assert node.group_of(SHARD) is None

    played(FakeGroups(), play)


def test_a_shard_that_goes_to_another_node_meanwhile_is_not_moved() -> None:
    async def play(node: Moving) -> None:
        FakeCopy.go.clear()
        move = asyncio.create_task(node.move(SHARD, 1))
        while "begin" not in FakeCopy.done:
            await asyncio.sleep(0)
        with pytest.raises(ResourceLocked, match="moves shard"):
            await node.move(SHARD, 1)
        await node.closed(SHARD, EPOCH)
        FakeCopy.go.set()
        with pytest.raises(Unreachable, match="moved to another node meanwhile"):
            await move
        assert "finish" not in FakeCopy.done

    played(FakeGroups(), play)


def test_a_move_that_does_not_count_is_an_error() -> None:
    groups = FakeGroups()
    groups.switches = False

    async def play(node: Moving) -> None:
        with pytest.raises(Fenced, match="another owner"):
            await node.move(SHARD, 1)

    played(groups, play)


def test_a_move_that_breaks_is_over_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(copy: FakeCopy) -> None:
        raise ValueError("nobody thought of that")

    async def play(node: Moving) -> None:
        monkeypatch.setattr(FakeCopy, "finish", finish)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ValueError, match="nobody thought"):
                await node.move(SHARD, 1)
        assert not node._moves

    played(FakeGroups(), play)


def test_a_shard_is_closed_though_nobody_waits_for_its_move_any_more() -> None:
    async def play(node: Moving) -> None:
        node.retake = lambda shard: None
        move = asyncio.create_task(node.move(SHARD, 1))
        while not (SHARD in node._moves and node._moves[SHARD].prepared):
            await asyncio.sleep(0)
        FakeCopy.go.clear()
        closing = asyncio.create_task(node.closed(SHARD, EPOCH))
        for _ in range(5):
            await asyncio.sleep(0)  # now it waits for the end of the move
        move.cancel()
        await asyncio.sleep(0)
        FakeCopy.go.set()
        await closing

    played(FakeGroups(), play)


def test_a_move_that_fails_twice_complains_once(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[str] = []
    # Who keeps records keeps what they are about, and nobody complains about that.
    monkeypatch.setattr(logging.getLogger("leveret.node"), "disabled", True)

    def copy_ahead(copy: FakeCopy) -> None:
        copy.go.wait(10)
        raise StoreUnreachable("a database does not answer")

    async def fail(node: Moving) -> None:
        move = asyncio.create_task(node.move(SHARD, 1))
        while "begin" not in FakeCopy.done:
            await asyncio.sleep(0)
        await node.closed(SHARD, EPOCH)
        FakeCopy.go.set()
        await asyncio.wait([move])
        assert isinstance(move.exception(), StoreUnreachable)

    async def play(node: Moving) -> None:
        monkeypatch.setattr(FakeCopy, "copy_ahead", copy_ahead)
        FakeCopy.go.clear()
        asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about["message"]))
        await fail(node)
        gc.collect()
        assert complaints == []

    played(FakeGroups(), play)


@pytest.mark.parametrize(
    ("shard", "group", "refusal"),
    [(SHARD, 7, NotFound), (SHARD + 1, 1, Unreachable), (SHARD, 0, PreconditionFailed)],
)
def test_what_cannot_be_moved_is_refused(shard: int, group: int, refusal: type[LeveretError]) -> None:
    async def play(node: Moving) -> None:
        with pytest.raises(refusal):
            await node.move(shard, group)

    played(FakeGroups(), play)


def test_what_the_move_before_left_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "sweep", lambda *place: FakeCopy.go.wait(PATIENCE_S))
    FakeCopy.go.clear()

    async def play(node: Moving) -> None:
        with pytest.raises(ResourceLocked, match="left in group 1"):
            await node.move(SHARD, 1)
        FakeCopy.go.set()

    played(FakeGroups(GROUPS[1]), play)


def test_a_shard_that_was_claimed_by_somebody_newer_is_not_opened() -> None:
    groups = FakeGroups()

    async def play(node: Moving) -> None:
        groups.shard_id = None
        with pytest.raises(Fenced, match="higher epoch"):
            await asyncio.to_thread(node.open_at, SHARD, EPOCH)

    played(groups, play)
