"""Whether this node reaches the databases of its cluster, and what they are; they are asked when somebody looks.

Nobody waits for a database that hangs: what was known of it before is told, or that nothing is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from leveret.cluster.shard_groups import Facts, Group, facts_of
from leveret.core.errors import LeveretError

FRESH_S = 5.0  # for which an answer is not asked for again: pages look all the time
WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a group."""

    asked_s: float = 0.0
    facts: Facts | None = None
    trouble: str | None = None

    @property
    def word(self) -> str:
        """The state in a word."""
        if self.trouble is not None:
            return "unreachable"
        return "unknown" if self.facts is None else "reachable"


class GroupStates:
    """The groups as one node sees them."""

    def __init__(self, known: Callable[[], Mapping[int, Group]]) -> None:
        """Nobody was asked yet; `known` gives the groups that there are."""
        self._known = known
        self._states: dict[int, State] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Ask nobody any more."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> dict[int, State]:
        """What is known of each group, after those were asked of whom it is not known since a moment ago."""
        now_s = asyncio.get_running_loop().time()
        known = self._known()
        for number, group in known.items():
            state = self._states.get(number)
            if number not in self._asking and (state is None or now_s - state.asked_s > FRESH_S):
                self._asking[number] = asyncio.create_task(self._ask(group, now_s))
        if self._asking:
            await asyncio.wait(self._asking.values(), timeout=WAIT_S)
        return {number: self._states.get(number, State()) for number in known}

    async def _ask(self, group: Group, now_s: float) -> None:
        try:
            self._states[group.number] = State(now_s, await asyncio.to_thread(facts_of, group.url))
        except LeveretError as error:
            self._states[group.number] = State(now_s, trouble=str(error))
        finally:
            del self._asking[group.number]
