"""How a node finds out about the clocks of others, and about an etcd that does not say how many it is."""

import asyncio
from types import SimpleNamespace
from typing import Any

import leveret
from leveret.cluster.operations import EXAMINE, ClusterExamination
from leveret.core.errors import AccessRefused

ROUND_TRIP_S = 2


class Asked:
    """A node whose question takes two seconds, and the others with their clocks."""

    def __init__(self, clock: leveret.ManualClock, **clocks_ms: int) -> None:
        self.name = "a"
        self.questions: dict[str, Any] = {}
        self._clock = clock
        self._clocks_ms = clocks_ms

    async def ask_all(self, question: str) -> dict[str, Any]:
        assert question in self.questions
        told = {name: {"now_ms": self._clock.now_ms() + off_ms} for name, off_ms in self._clocks_ms.items()}
        self._clock.advance(ROUND_TRIP_S)
        return told


async def refuse() -> int:
    raise AccessRefused("only root may ask")


def test_only_what_the_round_trip_does_not_explain_is_a_difference() -> None:
    clock = leveret.ManualClock()
    node = Asked(clock, b=1_500, c=5_000, d=-300)
    place = SimpleNamespace(etcd=("one",), ttl_s=4, tls=None)
    joined: Any = SimpleNamespace(node=node, place=place, etcd=SimpleNamespace(member_count=refuse))
    found = asyncio.run(ClusterExamination(joined, clock).look())
    assert {name: facts["clock_off_ms"] for name, facts in found["nodes"].items()} == {
        "a": 0,
        "b": 0,
        "c": 3_000,
        "d": -300,
    }
    assert found["nodes"]["a"] == {"etcd": 1, "lease_s": 4, "tls": False, "clock_off_ms": 0}
    assert found["etcd_members"] is None
    assert list(node.questions) == [EXAMINE]
