"""Whether databases answer: asked now and then, and nobody waits for one that hangs."""

import asyncio
import threading

import pytest

from leveret.cluster import operations
from leveret.cluster.operations import GroupStates
from leveret.cluster.shards.groups import GroupFacts, ShardGroup
from leveret.core.errors import StoreUnreachable
from tests.waiting import PATIENCE_S

FACTS = GroupFacts(15, "ANY 1 (b)", "shop", 0, 32)
released = threading.Event()
GROUPS = {0: ShardGroup(0, "good"), 1: ShardGroup(1, "away"), 2: ShardGroup(2, "hangs")}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    urls: list[str] = []

    def facts_of(url: str) -> GroupFacts:
        urls.append(url)
        if url == "away":
            raise StoreUnreachable("connection refused")
        if url == "hangs":
            released.wait()
        return FACTS

    monkeypatch.setattr(operations, "facts_of", facts_of)
    monkeypatch.setattr(operations, "CURRENT_S", PATIENCE_S)
    released.clear()
    return urls


def test_each_is_told_as_far_as_it_is_known(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    known = {number: GROUPS[number] for number in (0, 1)}

    async def look() -> list[dict[int, str]]:
        states = GroupStates(lambda: known)
        await states.look()
        known[2] = GROUPS[2]
        monkeypatch.setattr(operations, "WAIT_S", 0.05)
        found = [{number: state.word for number, state in (await states.look()).items()} for _ in range(2)]
        assert (await states.look())[1].trouble == "connection refused"
        released.set()
        await states.close()
        return found

    first = {0: "reachable", 1: "unreachable", 2: "unknown"}
    assert asyncio.run(look()) == [first, {**first, 2: "unreachable"}]
    assert sorted(asked) == ["away", "good", "hangs"]


def test_they_are_asked_again_after_a_while(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "CURRENT_S", -1.0)

    async def look() -> None:
        states = GroupStates(lambda: {0: GROUPS[0]})
        await states.look()
        await states.look()

    asyncio.run(look())
    assert asked == ["good", "good"]
