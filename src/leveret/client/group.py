"""A consumer group on a server: the verbs of the embedded one, and a member that looks after itself."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from leveret.client import stream_calls as calls
from leveret.client.calls import Row
from leveret.client.message import RemoteRecord
from leveret.client.session import HasSession, Remote
from leveret.clock import SystemClock
from leveret.core.errors import BrokerClosed, NotFound, StaleGeneration
from leveret.core.membership import Assignment
from leveret.embedded.group import SESSION_S
from leveret.embedded.group_consumer import SIGNS_PER_SESSION, AsynchronousMember, MemberVerbs, ThreadedMember
from leveret.embedded.verbs import (
    Asynchronous,
    Threaded,
    attribute,
    finish,
    verb,
)

if TYPE_CHECKING:
    from leveret.client.broker import AsyncRemoteBroker, RemoteBroker

WAIT_S_MAX = 60  # of one request, as the server has it
REST_S = 1.0  # of a member without partitions, before it asks again: it takes over soon when another goes


class RemoteMember(MemberVerbs[RemoteRecord]):
    """What both clients do as a member: one request reads all its partitions, and is its sign of life."""

    def __init__(self, group: GroupVerbs, member: str | None, session_s: float) -> None:
        super().__init__(member, session_s)
        self._names = group.stream, group.name, self.member
        self._session = group.broker.session
        self._ask = self._session.ask
        self._clock = SystemClock()
        self._offsets: dict[int, int] = {}
        """Where to read on; the partition that was read last is last."""

    async def _fetch(self, max_records: int, wait: float) -> list[RemoteRecord]:
        until_ms = self._clock.now_ms() + round(wait * 1000)
        while True:
            left_s = (until_ms - self._clock.now_ms()) / 1000
            try:
                found = await self._poll(max_records, left_s)
            except StaleGeneration:
                await self._join()
                continue
            if found or left_s <= 0:
                return found
            if not self.partitions:
                await self._session.rest(min(left_s, REST_S, self._session_s / SIGNS_PER_SESSION))

    async def _poll(self, max_records: int, wait_s: float) -> list[RemoteRecord]:
        """Read what comes next, and give a sign of life; the wait may be shorter than was asked for."""
        wait_s = max(0, min(wait_s, self._session_s / SIGNS_PER_SESSION, WAIT_S_MAX))
        call = calls.poll(*self._names, self._assignment.generation, self._offsets, max_records, wait_s)
        polled = await self._ask(call)
        for partition in dict.fromkeys(record.partition for record in polled.records):
            del self._offsets[partition]  # those that gave none come first the next time
        self._offsets |= polled.offsets
        return polled.records

    async def _join(self) -> None:
        joined = await self._ask(calls.join(*self._names, self._session_s))
        self._assignment, self._offsets, self._done = joined.assignment, joined.offsets, {}

    async def _commit(self) -> None:
        await self._ask(calls.commit(*self._names, self._assignment.generation, self._done))

    async def _close(self) -> None:
        """Leave the group; what was not committed is read again by others."""
        with suppress(BrokerClosed, NotFound):
            await self._ask(calls.leave(*self._names))


class RemoteGroupConsumer(RemoteMember, ThreadedMember[RemoteRecord]):
    """One reader, from group.consumer(); for one thread at a time. See leveret.GroupConsumer."""

    def __init__(self, group: RemoteGroup, member: str | None, session_s: float) -> None:
        super().__init__(group, member, session_s)
        finish(self._join())


class AsyncRemoteGroupConsumer(RemoteMember, AsynchronousMember[RemoteRecord]):
    """The same for one task at a time: `async with group.consumer() as consumer`."""


class GroupVerbs(Remote):
    """What both clients do with a consumer group."""

    def __init__(self, broker: HasSession, stream: str, name: str) -> None:
        super().__init__(broker, name)
        self.stream = stream

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of stream {self.stream!r}>"

    async def _look(self) -> Row:
        return await self._ask(calls.describe_group(self.stream, self.name))

    # Members

    @verb
    async def join(self, member: str, *, session: float = SESSION_S) -> Assignment:
        """Come in, or learn what to read after a change; without a sign of life for `session` seconds it is out."""
        return (await self._ask(calls.join(self.stream, self.name, member, session))).assignment

    @verb
    async def heartbeat(self, member: str, generation: int) -> None:
        """Give a sign of life; StaleGeneration means: join again."""
        await self._ask(calls.heartbeat(self.stream, self.name, member, generation))

    @verb
    async def leave(self, member: str) -> None:
        """Go, so that others take over at once."""
        await self._ask(calls.leave(self.stream, self.name, member))

    @verb
    async def commit(self, member: str, generation: int, offsets: Mapping[int, int]) -> None:
        """Note durably which record of each partition is to be read next; StaleGeneration means: join again."""
        await self._ask(calls.commit(self.stream, self.name, member, generation, offsets))

    # Looking

    @attribute
    async def generation(self) -> int:
        """Which one it is in: each change of its members begins another."""
        return int((await self._look())["generation"])

    @attribute
    async def members(self) -> dict[str, tuple[int, ...]]:
        """Every member with its partitions."""
        return calls.members_of(await self._look())

    @attribute
    async def committed(self) -> dict[int, int]:
        """What was committed, by partition."""
        return calls.by_partition((await self._look())["offsets"])

    @verb
    async def position(self, partition: int) -> int:
        """The offset of the next record to read; the oldest one where nothing was committed, or it is gone."""
        return calls.by_partition((await self._look())["positions"])[partition]

    @verb
    async def lag(self) -> dict[int, int]:
        """How many records of each partition are yet to be read."""
        return calls.by_partition((await self._look())["lag"])

    # Operators

    @verb
    async def reset(self, to: Literal["earliest", "latest"] | datetime) -> dict[int, int]:
        """Go to the oldest record, after the newest one, or to a time; members have to join again."""
        return await self._ask(calls.reset(self.stream, self.name, to))

    @verb
    async def delete(self) -> None:
        """Forget the group, which must have no members."""
        await self._ask(calls.delete_group(self.stream, self.name))


class RemoteGroup(GroupVerbs, Threaded):
    """One group of readers, from stream.group(). See leveret.Group."""

    broker: RemoteBroker

    def consumer(self, member: str | None = None, *, session: float = SESSION_S) -> RemoteGroupConsumer:
        """A member that joins, reads its share and joins again after changes; close it, or use a `with` block."""
        return RemoteGroupConsumer(self, member, session)


class AsyncRemoteGroup(GroupVerbs, Asynchronous):
    """The same for asyncio; what are attributes there are verbs here."""

    broker: AsyncRemoteBroker

    def consumer(self, member: str | None = None, *, session: float = SESSION_S) -> AsyncRemoteGroupConsumer:
        """A member that joins, reads its share and joins again when the group changes; for an `async with` block."""
        return AsyncRemoteGroupConsumer(self, member, session)
