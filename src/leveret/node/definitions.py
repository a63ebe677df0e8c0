"""The definitions of the cluster on one node: changes are written down, then applied in the order of the log.

change -> append at the next version -> [somebody was faster: catch up, try again] -> apply here -> the others apply it
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from leveret.core.changes import Change, DeclareExchange, DeclareQueue, from_dict, to_dict
from leveret.core.errors import LeveretError
from leveret.node.changelog import ChangeLog, Entry
from leveret.node.replica import Replica
from leveret.telemetry.logs import Log

FOLLOW_S = 1.0

T = TypeVar("T")
Done = Callable[[Any], None]
LOG = Log("node")


class Definitions:
    """What this node knows, and how it changes."""

    def __init__(
        self,
        log: ChangeLog,
        replica: Replica,
        applied: Callable[[Change[Any], str | None], None],
        told: Callable[[int], Awaitable[None]],
    ) -> None:
        """Know nothing yet; `applied` hears of each change and its shard, `told` makes other nodes know a version."""
        self.version = 0
        self._log = log
        self._replica = replica
        self._applied = applied
        self._told = told
        self._wanted: asyncio.Queue[tuple[Change[Any], Done]] = asyncio.Queue()
        self._hint = asyncio.Event()
        self._reading = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Learn what there is, and follow from now on."""
        await self.catch_up()
        self._tasks = [asyncio.create_task(self._change()), asyncio.create_task(self._follow())]

    async def stop(self) -> None:
        """Follow no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def change(self, change: Change[T], done: Callable[[T | Exception], None]) -> None:
        """Change something on every node, then say what came of it."""
        self._wanted.put_nowait((change, done))

    def hint(self) -> None:
        """Somebody has appended something."""
        self._hint.set()

    async def catch_up(self, version: int = 0) -> None:
        """Apply what others have appended; at least up to a version."""
        while True:
            async with self._reading:
                entries = await self._log.read(self.version)
                for entry in entries:
                    self._apply(entry)
            if not entries and self.version >= version:
                return

    async def _follow(self) -> None:
        """Apply what others append, soon after they did."""
        while True:
            try:
                async with asyncio.timeout(FOLLOW_S):
                    await self._hint.wait()
            except TimeoutError:
                pass
            self._hint.clear()
            try:
                await self.catch_up()
            except LeveretError as error:
                LOG.warning("changes not read", reason=error)

    async def _change(self) -> None:
        """Write down what this node wants changed, one after the other."""
        while True:
            change, done = await self._wanted.get()
            try:
                result = await self._write(change)
            except LeveretError as error:
                result = error
            done(result)

    async def _write(self, change: Change[Any]) -> Any:
        """Append a change where nobody else has; give what came of it here."""
        payload = json.dumps(to_dict(change)).encode()
        while True:
            await self.catch_up()
            if self._is_known(change):
                return self._replica.apply(change)
            async with self._reading:
                entry = Entry(self.version + 1, payload)
                if not await self._log.append(entry):
                    continue
                result = self._apply(entry)
            if not isinstance(result, LeveretError):
                await self._told(entry.version)
            return result

    def _is_known(self, change: Change[Any]) -> bool:
        """Whether a change changes nothing: what is declared again is only compared."""
        vhost = self._replica.core.topology.vhosts.get(change.vhost)
        if vhost is None:
            return False
        if isinstance(change, DeclareQueue):
            return change.name in vhost.queues
        return isinstance(change, DeclareExchange) and change.name in vhost.exchanges

    def _apply(self, entry: Entry) -> Any:
        """Do what was written down; what is refused is refused on every node."""
        change = from_dict(json.loads(entry.payload))
        home = self._replica.home(change)
        self.version = entry.version
        try:
            result = self._replica.apply(change)
        except LeveretError as error:
            return error
        self._applied(change, home)
        return result
