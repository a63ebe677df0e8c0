"""A consumer group as its users see it: members share the partitions of a stream; the group knows how far it is.

with clicks.group("billing").consumer() as consumer:
    for record in consumer:
        ...
        consumer.commit()       # everything up to this record is done, also after a restart
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Generic, Literal, Protocol, Self, TypeVar

from leveret.core.consumer_groups import SESSION_MS, Assignment, ConsumerGroup
from leveret.core.errors import BrokerClosed, InvalidArgument, NotFound, StaleGeneration
from leveret.runtime.declare import milliseconds
from leveret.runtime.reading import READ_RECORDS, StreamReader, StreamRecord
from leveret.runtime.verbs import (
    AsynchronousBlock,
    Closable,
    Durable,
    OldTwins,
    ThreadedBlock,
    drain,
    durably,
    finish,
    twin,
    verb,
)
from leveret.runtime.waiters import TaskWaiter, ThreadWaiter
from leveret.storage.stream.reader import start_named

if TYPE_CHECKING:
    from leveret.embedded.stream import Stream

SESSION_S = SESSION_MS / 1000
SIGNS_PER_SESSION = 3
"""How often a consumer that waits gives a sign of life within its session."""


class Placed(Protocol):
    """A record."""

    @property
    def partition(self) -> int:
        """Where it is."""

    @property
    def offset(self) -> int:
        """Its number there."""


R = TypeVar("R", bound=Placed)


class MemberVerbs(Closable, ABC, Generic[R]):
    """What every such member does: here and in the clients, for threads and for asyncio."""

    def __init__(self, member: str | None, session_s: float) -> None:
        self.member = member or f"member-{secrets.token_hex(8)}"
        self._session_s = session_s
        self._assignment = Assignment(0, ())
        self._done: dict[int, int] = {}
        """What to commit: the offset after the last record that was given, by partition."""

    @property
    def partitions(self) -> tuple[int, ...]:
        """What it reads now."""
        return self._assignment.partitions

    @verb
    async def poll(self, max_records: int = READ_RECORDS, *, wait: float = 0) -> list[R]:
        """The next records of its partitions; when there are none yet, wait up to `wait` seconds.

        When the group has changed, records that were not committed are read again, here or by another member.
        """
        return [self._give(record) for record in await self._fetch(max_records, wait)]

    @verb
    async def commit(self) -> bool:
        """Note durably that all that it gave is done; False, and nothing is noted, when the group has changed."""
        try:
            if self._done:
                await self._commit()
        except StaleGeneration:
            await self._join()
            return False
        self._done = {}
        return True

    async def _records(self) -> AsyncGenerator[R, None]:
        """Record after record, for as long as the broker is open."""
        with suppress(BrokerClosed):
            while True:
                found = await self._fetch(READ_RECORDS, self._session_s)
                assignment = self._assignment
                for record in found:
                    if self._assignment is not assignment:
                        break  # what is left was read under an assignment that has ended
                    yield self._give(record)

    def _give(self, record: R) -> R:
        """Count a record as done with the next commit."""
        self._done[record.partition] = record.offset + 1
        return record

    @abstractmethod
    async def _fetch(self, max_records: int, wait: float) -> list[R]:
        """Read, waiting if need be, and stay in the group meanwhile."""

    @abstractmethod
    async def _join(self) -> None:
        """Learn what to read, and begin where the group is; records that were not committed are read again."""

    @abstractmethod
    async def _commit(self) -> None:
        """Note what is done."""


class ThreadedMember(MemberVerbs[R], ThreadedBlock):
    """For one thread at a time."""

    def __iter__(self) -> Iterator[R]:
        return drain(self._records())


class AsynchronousMember(MemberVerbs[R], AsynchronousBlock):
    """For one task at a time, and `async with`, which joins."""

    async def __aenter__(self) -> Self:
        await self._join()
        return self

    def __aiter__(self) -> AsyncIterator[R]:
        return self._records()


class LocalMember(MemberVerbs[StreamRecord]):
    """A member in the process of the broker."""

    _new_waiter: type[ThreadWaiter | TaskWaiter]

    def __init__(self, group: Group, member: str | None, session_s: float) -> None:
        super().__init__(member, session_s)
        self.group = group
        self._readers: dict[int, StreamReader] = {}

    async def _fetch(self, max_records: int, wait: float) -> list[StreamRecord]:
        runtime, stream = self.group.runtime, self.group.stream
        until_ms = runtime.clock.now_ms() + milliseconds("wait", wait)
        waiter = self._new_waiter()
        while True:
            await self._stay()
            found = self._read(max_records)
            now_ms = runtime.clock.now_ms()
            if found or now_ms >= until_ms:
                return found
            with runtime:
                runtime.waiters.join(stream.core, waiter)
            try:
                if all(reader.at_end for reader in self._readers.values()):
                    sign_ms = now_ms + milliseconds("session", self._session_s / SIGNS_PER_SESSION)
                    await waiter.wait(runtime.clock, min(until_ms, sign_ms))
            finally:
                with runtime.lock:
                    runtime.waiters.leave(stream.anyway, waiter)

    def _read(self, max_records: int) -> list[StreamRecord]:
        """What there is now; the partition that was read last comes last the next time."""
        found: list[StreamRecord] = []
        for partition, reader in list(self._readers.items()):
            if len(found) < max_records:
                records = reader.read(max_records - len(found))
                if records:
                    self._readers[partition] = self._readers.pop(partition)
                    found += records
        return found

    async def _stay(self) -> None:
        """Give a sign of life; join again when the group has changed."""
        try:
            self.group.heartbeat(self.member, self._assignment.generation)
        except StaleGeneration:
            await self._join()

    async def _join(self) -> None:
        self._let_go()
        self._assignment = await self._assigned()
        for partition in self.partitions:
            self._readers[partition] = self.group.stream.reader(partition, self.group.position(partition))

    @abstractmethod
    async def _assigned(self) -> Assignment:
        """Join, and learn what to read."""

    def _let_go(self) -> None:
        """Forget what was read and not committed."""
        for reader in self._readers.values():
            reader.close()
        self._readers, self._done = {}, {}

    async def _close(self) -> None:
        """Leave the group; what was not committed is read again by others."""
        self._let_go()
        with suppress(BrokerClosed, NotFound):
            self.group.leave(self.member)


class GroupConsumer(LocalMember, ThreadedMember[StreamRecord]):
    """One reader, from group.consumer(); for one thread at a time."""

    _new_waiter = ThreadWaiter

    def __init__(self, group: Group, member: str | None, session_s: float) -> None:
        super().__init__(group, member, session_s)
        finish(self._join())

    async def _assigned(self) -> Assignment:
        return self.group.join(self.member, session=self._session_s)

    async def _commit(self) -> None:
        self.group.commit(self.member, self._assignment.generation, self._done)


class AsyncGroupConsumer(LocalMember, AsynchronousMember[StreamRecord]):
    """The same for one task at a time: `async with group.consumer() as consumer`."""

    _new_waiter = TaskWaiter

    async def _assigned(self) -> Assignment:
        return await self.group._ajoin(self.member, session=self._session_s)

    async def _commit(self) -> None:
        await self.group._acommit(self.member, self._assignment.generation, self._done)


class Group(OldTwins):
    """One group of readers, from stream.group(); the verbs of a member, and what operators ask."""

    __slots__ = ("_group", "runtime", "stream")

    def __init__(self, stream: Stream, group: ConsumerGroup) -> None:
        self.stream = stream
        self.runtime = stream.runtime
        self._group = group

    def __repr__(self) -> str:
        return f"<Group {self.name!r} of stream {self.stream.name!r}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._group.name

    @property
    def generation(self) -> int:
        """Which one it is in: each change of its members begins another."""
        return self._group.membership.generation

    @property
    def members(self) -> dict[str, tuple[int, ...]]:
        """Every member with its partitions."""
        with self.runtime:
            return self._current.membership.members

    @property
    def _current(self) -> ConsumerGroup:
        """The group in the core, if it still exists; only for use under the lock."""
        known = self.runtime.streams.groups.get(self._group.vhost, self._group.stream, self._group.name)
        if known is not self._group:
            raise NotFound(f"group '{self.name}' was deleted: join it again with stream.group()")
        return known

    # Members

    @durably
    def join(self, member: str, *, session: float = SESSION_S) -> Durable[Assignment]:
        """Come in, or learn what to read after a change; without a sign of life for `session` seconds it is out."""
        with self.runtime as core:
            assignment = self._current.join(member, core.now_ms, milliseconds("session", session))
            return self.runtime.commit(), assignment

    def heartbeat(self, member: str, generation: int) -> None:
        """Give a sign of life; StaleGeneration means: join again."""
        with self.runtime as core:
            self._current.heartbeat(member, generation, core.now_ms)

    def leave(self, member: str) -> None:
        """Go, so that others take over at once."""
        with self.runtime as core:
            self._current.leave(member, core.now_ms)

    @durably
    def commit(self, member: str, generation: int, offsets: Mapping[int, int]) -> Durable[None]:
        """Note durably which record of each partition is to be read next; StaleGeneration means: join again."""
        with self.runtime as core:
            self._current.commit(member, generation, offsets, core.now_ms)
            return self.runtime.commit(), None

    def position(self, partition: int) -> int:
        """The offset of the next record to read; the oldest one where nothing was committed, or it is gone."""
        with self.runtime:
            return self._current.position(self.stream.check_partition(partition), self.stream.recorder)

    @property
    def committed(self) -> dict[int, int]:
        """What was committed, by partition."""
        with self.runtime:
            return dict(self._current.offsets)

    def consumer(self, member: str | None = None, *, session: float = SESSION_S) -> GroupConsumer:
        """A member that joins, reads its share, and joins again after a change; close it, or use a `with` block."""
        return GroupConsumer(self, member, session)

    def _aconsumer(self, member: str | None = None, *, session: float = SESSION_S) -> AsyncGroupConsumer:
        """The same for asyncio, for an `async with` block."""
        return AsyncGroupConsumer(self, member, session)

    # Operators

    def lag(self) -> dict[int, int]:
        """How many records of each partition are yet to be read."""
        with self.runtime:
            return self._current.lag(self.stream.recorder)

    @durably
    def reset(self, to: Literal["earliest", "latest"] | datetime) -> Durable[dict[int, int]]:
        """Go to the oldest record, after the newest one, or to a time; members have to join again."""
        if to not in ("earliest", "latest") and not isinstance(to, datetime):
            raise InvalidArgument(f"a group is reset to earliest, latest or a datetime, not {to!r}")
        target = start_named(to).value if isinstance(to, datetime) else to
        with self.runtime:
            offsets = self._current.reset(self.stream.recorder, target)
            return self.runtime.commit(), offsets

    @durably
    def delete(self) -> Durable[None]:
        """Forget the group, which must have no members."""
        with self.runtime as core:
            self._current.expire(core.now_ms)
            self.runtime.streams.groups.delete(self._group.vhost, self._group.stream, self.name, core.now_ms)
            return self.runtime.commit(), None

    # The same for asyncio

    _ajoin = twin(join)
    _acommit = twin(commit)
    _areset = twin(reset)
    _adelete = twin(delete)
