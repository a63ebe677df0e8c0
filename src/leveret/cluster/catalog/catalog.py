"""The catalog of a node: the definitions of the whole cluster, changed by any node and followed by all.

    change(verb) --> the verb of the core is run on this node's copy: what it would journal is the change
                 --> appended to the log under the next version ---- taken: done
                        |--- another node was faster: undo, make its changes, run the verb again
                        '--- outcome unknown: undo, look whether the log has it, else run the verb again

So what a declaration means is decided by the core alone: equivalent or refused is what its verb says, on a copy that
has all that came before. Verbs that come while an append is under way go together into the next one.

The copy is a broker without messages. What a verb did to it can be seen before it is in the log; no client is told so
before it is. For how long it may be answered by is said in leveret.cluster.catalog.read_lease.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from leveret.cluster.catalog.changes import DefinitionChange
from leveret.cluster.catalog.log import CatalogLog, LogEntry, Snapshot
from leveret.cluster.catalog.read_lease import LEASE_S, RENEWALS, CatalogReader, ReaderWatch, ReadLease
from leveret.cluster.catalog.replica import BEGINNING, ChangeStep, Mark, Replica, VersionHistory
from leveret.cluster.coordination.placement import SHARDS
from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, StoreUnreachable, TooMany, Unreachable

READ_MAX = 500
BATCH_MAX = 200  # verbs in one entry
ATTEMPTS_MAX = 50  # each but the last lost against another node: one node always wins
UNKNOWN_MAX = 20  # attempts without an answer
PAUSE_S = 0.1
RENEWAL_S = 10.0  # how long a caller that needs the newest definitions waits for a log that does not answer
LEAVE_S = 2.0
SNAPSHOT_VERSIONS = 1_000  # how many versions a node that was away has to read at most

Verb = Callable[[Broker], Any]
Listener = Callable[[list[DefinitionChange]], None]
Answer = TypeVar("Answer")


class Wish(NamedTuple):
    """A verb, and who waits for its result."""

    verb: Verb
    done: asyncio.Future[Any]

    def give(self, result: Any) -> None:
        """Answer the caller, if it still waits."""
        if self.done.done():
            return
        if isinstance(result, Exception):
            self.done.set_exception(result)
        else:
            self.done.set_result(result)


class ClusterCatalog:
    """One node's copy of the catalog, and the way to change it."""

    def __init__(self, log: CatalogLog, node: str, shards: int = SHARDS, lease_s: float = LEASE_S) -> None:
        """Empty, and at version 0; catch_up reads the log, and `prove` says so to others."""
        self.replica = Replica(shards)
        self.reader = f"{node}:{uuid.uuid4().hex}"
        """Who answers by this copy."""
        self.read_lease = ReadLease(lease_s)
        self.watch = ReaderWatch(self.read_lease)
        self.on_renewal: Callable[[], None] = lambda: None
        """Told whenever the copy may be answered by for some more time."""
        self.listeners: list[Listener] = []
        """Told about every change once it is in the log, in the order of the log."""
        self.on_resync: Callable[[list[DefinitionChange]], None] = lambda changes: None
        """Told instead what is different after the copy went to another place of the log: no node decided it."""
        self.log = log
        self._node = node
        self._turn = asyncio.Lock()
        self._wishes: list[Wish] = []
        self._committing: asyncio.Task[None] | None = None
        self._hinted = asyncio.Event()
        self._proofs = asyncio.Condition()
        self._beats = 0

    @property
    def version(self) -> int:
        return self.replica.history.newest.version

    # Changing

    async def change(self, verb: Verb) -> Any:
        """Run a verb of the core for the whole cluster; give its result, or raise its refusal.

        It may be run several times, so it does nothing but call the broker that it gets, and what it returns is no
        part of that.
        """
        loop = asyncio.get_running_loop()
        wish = Wish(verb, loop.create_future())
        self._wishes.append(wish)
        if self._committing is None or self._committing.done():
            self._committing = loop.create_task(self._commit_all())
        return await wish.done

    async def _commit_all(self) -> None:
        """Commit what is wished for, a batch at a time; a task of its own, so that a cancelled caller does not
        cancel it.
        """
        while self._wishes:
            async with self._turn:
                wishes, self._wishes = self._wishes[:BATCH_MAX], self._wishes[BATCH_MAX:]
                failure: Exception = BrokerClosed("the catalog was closed: the change may have been made, or not")
                try:
                    await self._commit_parts(wishes)
                except Exception as error:  # whatever it is, others wait for their turn
                    failure = error
                finally:
                    for wish in wishes:
                        wish.give(failure)

    async def _commit_parts(self, wishes: list[Wish]) -> None:
        """Commit verbs together or, if that is too much at once, each for itself."""
        try:
            await self._commit(wishes)
        except TooMany as refusal:
            if len(wishes) == 1:
                wishes[0].give(refusal)
                return
            for wish in wishes:
                await self._commit_parts([wish])

    async def _commit(self, wishes: list[Wish]) -> None:
        """Run verbs until what they do is in the log."""
        unknown = 0
        tried: dict[str, list[Any]] = {}
        for _ in range(ATTEMPTS_MAX):
            results, steps = self._run(wishes)
            entry = LogEntry(self.version + 1, f"{self._node}:{uuid.uuid4().hex}", [step.change for step in steps])
            appended = False
            try:
                appended = not steps or await self.log.append(entry)
            except Unreachable:
                unknown += 1
                if unknown > UNKNOWN_MAX:
                    raise
            finally:
                if not appended:
                    self.replica.undo(steps)
            if appended and steps:
                await self._appended(entry)
            tried[entry.writer] = results
            # Also an earlier attempt, whose outcome was unknown, may turn out to be there.
            found = {entry.writer} if appended else tried.keys() & await self._settle(may_be_pending=unknown > 0)
            if found:
                for wish, result in zip(wishes, tried[found.pop()], strict=True):
                    wish.give(result)
                return
        raise Unreachable(f"other nodes changed the catalog {ATTEMPTS_MAX} times meanwhile: try again")

    async def _settle(self, may_be_pending: bool) -> set[str]:
        """Make what is in the log; give who wrote it. `doubtful`: an entry may be under way."""
        try:
            if may_be_pending:
                await _answer(self.log.barrier, UNKNOWN_MAX)  # what the log has then it keeps, and nothing comes late
            return await self._read_on(UNKNOWN_MAX)
        except Unreachable as silence:
            raise Unreachable(f"{silence}: the change may have been made, or not") from silence

    def _run(self, wishes: list[Wish]) -> tuple[list[Any], list[ChangeStep]]:
        """Run verbs on the copy; a refused one has no effect."""
        results: list[Any] = []
        steps: list[ChangeStep] = []
        for wish in wishes:
            try:
                result, taken = self.replica.run(wish.verb)
            except Exception as refusal:
                result, taken = refusal, []
            results.append(result)
            steps += taken
        return results, steps

    async def _appended(self, entry: LogEntry) -> None:
        self._reached(entry.version, entry.writer, entry.changes)
        if entry.version % SNAPSHOT_VERSIONS == 0:
            with suppress(Unreachable, TooMany):  # the next one will do, or the log grows: the change is made
                await self.log.compact(Snapshot(entry.version, entry.writer, self.replica.changes()))

    def _reached(self, version: int, writer: str, changes: list[DefinitionChange]) -> None:
        self.replica.history.reach(Mark(version, writer))
        for listener in self.listeners:
            listener(changes)

    # Following

    def hint(self, version: int) -> None:
        """There may be a newer version."""
        if version > self.version:
            self._hinted.set()

    def look(self) -> None:
        """A caller needs to know soon whether there is a newer version."""
        self._hinted.set()

    async def follow(self) -> None:
        """Make the changes of others, and prove it, for ever; a hint makes it quick."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.read_lease.lease_s / RENEWALS):
                    await self._hinted.wait()
            self._hinted.clear()
            try:
                await self.renew_lease()
            except Unreachable:  # the next look may be answered
                await asyncio.sleep(PAUSE_S)

    async def renew_lease(self) -> None:
        """Make all changes that are in the log now, so that the copy may be answered by for a while."""
        async with self._turn:
            asked_us, before = self.read_lease.now_us(), self.version
            await self._renew_row()
            await self._read_on()
            if self.version != before:
                await self._renew_row()  # so that no node waits for this one any longer
        self.read_lease.renew(asked_us)
        self.on_renewal()
        async with self._proofs:
            self._proofs.notify_all()

    async def _renew_row(self) -> None:
        self._beats += 1
        self.watch.look(await self.log.renew_row(CatalogReader(self.reader, self.version, self._beats)))

    async def lease_renewed(self) -> None:
        """Return when the copy may be answered by."""
        self.look()
        try:
            async with asyncio.timeout(RENEWAL_S), self._proofs:
                await self._proofs.wait_for(lambda: self.read_lease.is_valid)
        except TimeoutError:
            raise StoreUnreachable(
                "the database that has the definitions does not answer, and they may have changed: try again"
            ) from None

    async def catch_up(self, then: Callable[[], None] = lambda: None) -> None:
        """Make all changes that are in the log now; then do something while the copy has nothing but those."""
        async with self._turn:
            await self._read_on()
            then()

    async def _read_on(self, attempts: int = 1) -> set[str]:
        """Make the changes that are in the log; give who wrote them."""
        writers: set[str] = set()
        while True:
            entries = await _answer(partial(self.log.read, max(1, self.version), READ_MAX), attempts)
            if not self._continues(entries):
                writers |= await self._begin_anew(attempts)
                continue
            for entry in [each for each in entries if each.version > self.version]:
                self.replica.make(entry.changes)
                self._reached(entry.version, entry.writer, entry.changes)
                writers.add(entry.writer)
            if len(entries) < READ_MAX:
                return writers

    def _continues(self, entries: list[LogEntry]) -> bool:
        """Whether entries go on from the one that this node has last.

        Not when that one was removed, or, after a failover that lost what was never acknowledged, is another.
        """
        if not self.version:
            return not entries or entries[0].version == 1
        return bool(entries) and (entries[0].version, entries[0].writer) == self.replica.history.newest

    async def _begin_anew(self, attempts: int) -> set[str]:
        """Be what the newest snapshot and all entries after it make; give who wrote these.

        No listener is told of anything in between: what is missing only there would be removed, and made again empty.
        """
        found = await _answer(self.log.snapshot, attempts) or Snapshot(*BEGINNING, [])
        copy, history, writers = Replica(self.replica.placements.shards), VersionHistory(Mark(*found[:2])), set[str]()
        copy.become(found.changes)
        while entries := await _answer(partial(self.log.read, history.newest.version + 1, READ_MAX), attempts):
            if entries[0].version != history.newest.version + 1:
                return set()  # another snapshot has taken the place of what comes first
            for version, writer, changes in entries:
                copy.make(changes)
                history.reach(Mark(version, writer))
                writers.add(writer)
        different = self.replica.become(copy.changes())
        self.replica.history = history
        self.on_resync(different)
        return writers

    async def close(self) -> None:
        """Commit nothing more, and release every node that waits for this copy."""
        if self._committing is not None:
            self._committing.cancel()
            with suppress(asyncio.CancelledError):
                await self._committing
        left, self._wishes = self._wishes, []
        for wish in left:
            wish.give(BrokerClosed("the catalog was closed: the change was not made"))
        if self._beats:
            with suppress(Unreachable, TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self.log.forget(CatalogReader(self.reader, self.version, self._beats))


async def _answer(question: Callable[[], Awaitable[Answer]], attempts: int) -> Answer:
    """What the log answers, at one of so many attempts: after a failover each of its sessions loses one."""
    for _ in range(attempts - 1):
        with suppress(Unreachable):
            return await question()
        await asyncio.sleep(PAUSE_S)
    return await question()
