"""A cluster as those see it who look for mistakes: how its nodes were set up, what their clocks say, how many etcds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leveret.core.errors import LeveretError

if TYPE_CHECKING:
    from leveret.clock import Clock
    from leveret.cluster.joined import JoinedNode

EXAMINE = "examine"

Row = dict[str, Any]


class ClusterExamination:
    """What one node finds out about its cluster."""

    def __init__(self, joined: JoinedNode, clock: Clock) -> None:
        self._joined = joined
        self._clock = clock
        joined.node.questions[EXAMINE] = self._facts

    async def look(self) -> Row:
        """Facts of each node that answers, with how far its clock is off at least, and how many members etcd has."""
        began_ms = self._clock.now_ms()
        told: dict[str, Row] = await self._joined.node.ask_all(EXAMINE)
        ended_ms = self._clock.now_ms()
        nodes = {self._joined.node.name: self._facts(), **told}
        for facts in nodes.values():
            now_ms = facts.pop("now_ms")
            # It was asked in between: whatever is in between is no difference.
            facts["clock_off_ms"] = min(0, now_ms - began_ms) + max(0, now_ms - ended_ms)
        return {"nodes": nodes, "etcd_members": await self._etcd_members()}

    def _facts(self) -> Row:
        """How this node was set up."""
        place = self._joined.place
        told = {"etcd": len(place.etcd), "lease_s": place.ttl_s, "tls": place.tls is not None}
        return {**told, "now_ms": self._clock.now_ms()}

    async def _etcd_members(self) -> int | None:
        """How many etcds decide together; None: they do not say."""
        try:
            return await self._joined.etcd.member_count()
        except LeveretError:
            return None
