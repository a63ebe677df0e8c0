"""Who knows what was decided: a change is answered when no node answers by anything older.

leveret.cluster.catalog.read_lease says why that is so. Nodes that are linked are told, and say so at once when they
have it; of others the log says how far they are. Those who say nothing are waited for as long as they may answer by
what they had.

A caller that is told of a version that this node has not looks into the log: once for all who ask meanwhile, as all
clients of another node may do after each change there.

A node that stood still, or cannot ask the database, does not know what others have changed. Until it does its clients
wait (StaleClients): it lets no client in, refuses nothing as unknown or forbidden, and delivers nothing.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection

from leveret.clock import US_PER_S
from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.catalog.read_lease import CatalogReader
from leveret.cluster.proxy.connection import ProxyConnection
from leveret.core.errors import Unreachable
from leveret.observability.logs import Log
from leveret.protocols.amqp.hub import Hub

LOOK_S = 0.25  # between looks at how far those are who are not linked

LOG = Log("node")

Answers = Collection["asyncio.Future[bytes | None]"]
Tell = Callable[[bytes], Answers]
"""Tells all nodes that are linked; each answers with the name of its reader when it knows."""
Then = Callable[[bool], None]


class Propagation:
    """What all nodes know, as far as this one has seen to it."""

    def __init__(self, catalog: ClusterCatalog, tell: Tell) -> None:
        self._catalog = catalog
        self._tell = tell
        self._turn = asyncio.Lock()
        self._applied_everywhere = 0
        self._curious: list[tuple[int, Then]] = []
        self._looking: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def knows(self, version: int, then: Then) -> bool:
        """Whether this node has a version of the definitions; if not, `then` whether it has it after another look."""
        if version <= self._catalog.version:
            return True
        self._curious.append((version, then))
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return False

    async def _look(self) -> None:
        while self._curious:
            curious, self._curious = self._curious, []
            is_known = await self._reaches(max(version for version, _ in curious))
            for _, then in curious:
                asyncio.get_running_loop().call_soon(then, is_known)

    async def _reaches(self, version: int) -> bool:
        """Whether this node has a version, after a look if need be."""
        try:
            if version > self._catalog.version:
                await self._catalog.catch_up()
        except Exception as error:
            LOG.warning("definitions not looked up", version=version, reason=error)
            return False
        return True

    async def wait_until_applied(self, version: int, announce: Callable[[int], None]) -> None:
        """Return when no node answers by definitions that are older than a version that is in the log."""
        async with self._turn:  # a caller that waits here is served by the next round, which is one for all of them
            if version > self._applied_everywhere:
                newest = self._catalog.version
                announce(newest)
                await self._all_know(newest)
                self._applied_everywhere = newest

    def resync(self) -> None:
        """The definitions went to another place of their log: what has a number now is not what had it before."""
        self._applied_everywhere = 0

    async def _all_know(self, version: int) -> None:
        answers = self._tell(json.dumps({"version": version, "reader": True}).encode())
        read_lease = self._catalog.read_lease
        until_us = read_lease.now_us() + int(read_lease.expiry_s * US_PER_S)
        # Not for longer, whichever nodes there are: what was known before is too old by then, and who beats later
        # reads first.
        while read_lease.now_us() < until_us:
            rows = await self._readers()
            if rows is None:
                await asyncio.sleep(LOOK_S)
            elif await self._is_known(version, rows, answers):
                return

    async def _is_known(self, version: int, rows: list[CatalogReader], answers: Answers) -> bool:
        """Whether none of these answers by what was before; asked again with every answer that comes meanwhile."""
        while True:
            behind = self._behind(rows, version, answers)
            silent = [each for each in behind if self._catalog.watch.is_silent(each)]
            if len(silent) == len(behind):
                await self._forget(silent)
                return True
            if not await _next(answers):
                return False

    async def _readers(self) -> list[CatalogReader] | None:
        """Who answers by a copy, this node too; None: the log does not answer."""
        try:
            rows = await self._catalog.log.readers()
        except Unreachable:
            return None
        self._catalog.watch.look(rows)
        return rows

    def _behind(self, rows: list[CatalogReader], version: int, answers: Answers) -> list[CatalogReader]:
        """Those who may not have a version."""
        told = {each.result() for each in answers if each.done()}
        known = {self._catalog.reader, *(name.decode(errors="replace") for name in told if name)}
        return [each for each in rows if each.version < version and each.name not in known]

    async def _forget(self, silent: list[CatalogReader]) -> None:
        """Wait no more for those who have said nothing for so long that they do not answer by what they had."""
        for each in silent:
            LOG.warning("node does not follow", reader=each.name, definitions=each.version)
            try:
                await self._catalog.log.forget(each)
            except Unreachable:
                return


async def _next(answers: Answers) -> bool:
    """Wait for the next answer, but not for long; whether one came."""
    pending = [each for each in answers if not each.done()]
    if not pending:
        await asyncio.sleep(LOOK_S)
        return False
    done, _ = await asyncio.wait(pending, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


class StaleClients:
    """Those of one node."""

    def __init__(self, catalog: ClusterCatalog, hub: Hub) -> None:
        """Hold the clients of a hub while the copy of the catalog may not be answered by."""
        self._catalog = catalog
        self._hub = hub
        self._waiting: set[ProxyConnection] = set()
        self._told = False
        catalog.on_renewal = self._end

    @property
    def none(self) -> bool:
        """Whether clients may be answered by the definitions that this node has."""
        return self._catalog.read_lease.is_valid

    def wait(self) -> Awaitable[None] | None:
        """What returns when requests may be answered; None: they may now."""
        return None if self.none else self._catalog.lease_renewed()

    def hold(self, connection: ProxyConnection) -> None:
        """Hear a client again when there are no stale definitions any more."""
        self._waiting.add(connection)
        self._catalog.look()

    def look(self) -> None:
        """Hold those as well who say nothing, and may be given something."""
        if self.none:
            return
        if not self._told:
            self._told = True
            LOG.warning("definitions may be old", advice="clients wait for the database that has them")
        present = [each for each in self._hub.connections if isinstance(each, ProxyConnection)]
        self._waiting.intersection_update(present)  # others have gone meanwhile
        for connection in present:
            if not connection.is_stale:
                self._hub.finish(connection, connection.pause_stale)

    def _end(self) -> None:
        """This node has the newest definitions."""
        waiting, self._waiting = self._waiting, set()
        for connection in waiting:
            self._hub.finish(connection, connection.resume_fresh)
        if self._told:
            self._told = False
            LOG.info("definitions are the newest")
