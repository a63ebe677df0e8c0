"""Whether this node reaches the databases of its cluster, and what they are; they are asked when an operator looks.

One that hangs is waited for once, for a moment; as long as it has not answered, every other request is told that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from leveret.cluster.shards.groups import GroupFacts, ShardGroup, facts_of
from leveret.core.errors import LeveretError

CURRENT_S = 5.0  # for which an answer is not asked for again: pages look all the time
WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class GroupState:
    """What is known of a group."""

    asked_s: float = float("-inf")
    facts: GroupFacts | None = None
    trouble: str | None = None

    @property
    def word(self) -> str:
        """The state in a word."""
        if self.trouble is not None:
            return "unreachable"
        return "unknown" if self.facts is None else "reachable"


class GroupStates:
    """The groups as one node sees them."""

    def __init__(self, known: Callable[[], Mapping[int, ShardGroup]]) -> None:
        """No database was asked yet; `known` gives the groups that there are."""
        self._known = known
        self._states: dict[int, GroupState] = {}
        self._asking: dict[int, tuple[asyncio.Task[None], float]] = {}
        """Those that have not answered yet, and since when."""

    async def close(self) -> None:
        """Ask no database any more."""
        tasks = [task for task, _ in self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> dict[int, GroupState]:
        """What is known of each group, after those were asked of whom it is not known since a moment ago."""
        now_s, known = asyncio.get_running_loop().time(), self._known()
        silent = {number: f"no answer for {now_s - since_s:.0f} s" for number, (_, since_s) in self._asking.items()}
        asked = []
        for number, group in known.items():
            if number not in self._asking and now_s - self._states.get(number, GroupState()).asked_s > CURRENT_S:
                asked.append(asyncio.create_task(self._ask(group, now_s)))
                self._asking[number] = asked[-1], now_s
        if asked:
            await asyncio.wait(asked, timeout=WAIT_S)
        return {number: self._state_of(number, silent) for number in known}

    def _state_of(self, number: int, silent: Mapping[int, str]) -> GroupState:
        if number in silent and number in self._asking:
            return GroupState(trouble=silent[number])
        return self._states.get(number, GroupState())

    async def _ask(self, group: ShardGroup, now_s: float) -> None:
        try:
            self._states[group.number] = GroupState(now_s, await asyncio.to_thread(facts_of, group.url))
        except LeveretError as error:
            self._states[group.number] = GroupState(now_s, trouble=str(error))
        finally:
            del self._asking[group.number]
