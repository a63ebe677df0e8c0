"""A consumer group on a server: the verbs of the embedded one, and a member that looks after itself."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from leveret.client.calls import ClientCall, Row, field_of, nothing, path_of, row_of
from leveret.client.message import RemoteRecord
from leveret.client.session import HasSession, Remote
from leveret.clock import SystemClock
from leveret.core.consumer_groups import Assignment
from leveret.core.errors import BrokerClosed, NotFound, StaleGeneration
from leveret.embedded.group import SESSION_S, SIGNS_PER_SESSION, AsynchronousMember, MemberVerbs, ThreadedMember
from leveret.http_client import Answer
from leveret.runtime.verbs import (
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


def _join(path: str, member: str, session_s: float) -> ClientCall[tuple[Assignment, dict[int, int]]]:
    """Come in; gives what to read, and from where on."""

    def read(answer: Answer) -> tuple[Assignment, dict[int, int]]:
        found = answer.json()
        return Assignment(found["generation"], tuple(found["partitions"])), _by_partition(found["offsets"])

    return ClientCall("POST", f"{path}/join", read, {"member": member, "session_seconds": session_s})


def _commit(path: str, member: str, generation: int, offsets: Mapping[int, int]) -> ClientCall[None]:
    """Note how far a member has read."""
    body = {"member": member, "generation": generation, "offsets": _named(offsets)}
    return ClientCall("POST", f"{path}/commit", nothing, body)


def _by_partition(told: Mapping[str, int]) -> dict[int, int]:
    """A number for each partition, from JSON."""
    return {int(partition): value for partition, value in told.items()}


def _named(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}


class RemoteMember(MemberVerbs[RemoteRecord]):
    """What both clients do as a member: one request reads all its partitions, and is its sign of life."""

    def __init__(self, group: GroupVerbs, member: str | None, session_s: float) -> None:
        super().__init__(member, session_s)
        self._path = path_of("streams", group.stream, "groups", group.name)
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
        body = {
            "member": self.member,
            "generation": self._assignment.generation,
            "offsets": _named(self._offsets),
            "max_records": max_records,
            "wait_seconds": wait_s,
            "encoding": "base64",
        }
        polled = await self._ask(ClientCall("POST", f"{self._path}/poll", row_of, body, wait_s=wait_s))
        records = [RemoteRecord(row) for row in polled["records"]]
        for partition in dict.fromkeys(record.partition for record in records):
            del self._offsets[partition]  # those that gave none come first the next time
        self._offsets |= _by_partition(polled["offsets"])
        return records

    async def _join(self) -> None:
        self._assignment, self._offsets = await self._ask(_join(self._path, self.member, self._session_s))
        self._done = {}

    async def _commit(self) -> None:
        await self._ask(_commit(self._path, self.member, self._assignment.generation, self._done))

    async def _close(self) -> None:
        """Leave the group; what was not committed is read again by others."""
        with suppress(BrokerClosed, NotFound):
            await self._ask(ClientCall("POST", f"{self._path}/leave", nothing, {"member": self.member}))


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

    def _path(self, *parts: str) -> str:
        return path_of("streams", self.stream, "groups", self.name, *parts)

    async def _look(self) -> Row:
        return await self._ask(ClientCall("GET", self._path(), row_of))

    # Members

    @verb
    async def join(self, member: str, *, session: float = SESSION_S) -> Assignment:
        """Come in, or learn what to read after a change; without a sign of life for `session` seconds it is out."""
        return (await self._ask(_join(self._path(), member, session)))[0]

    @verb
    async def heartbeat(self, member: str, generation: int) -> None:
        """Give a sign of life; StaleGeneration means: join again."""
        body = {"member": member, "generation": generation}
        await self._ask(ClientCall("POST", self._path("heartbeat"), nothing, body))

    @verb
    async def leave(self, member: str) -> None:
        """Go, so that others take over at once."""
        await self._ask(ClientCall("POST", self._path("leave"), nothing, {"member": member}))

    @verb
    async def commit(self, member: str, generation: int, offsets: Mapping[int, int]) -> None:
        """Note durably which record of each partition is to be read next; StaleGeneration means: join again."""
        await self._ask(_commit(self._path(), member, generation, offsets))

    # Looking

    @attribute
    async def generation(self) -> int:
        """Which one it is in: each change of its members begins another."""
        return int((await self._look())["generation"])

    @attribute
    async def members(self) -> dict[str, tuple[int, ...]]:
        """Every member with its partitions."""
        return {name: tuple(partitions) for name, partitions in (await self._look())["members"].items()}

    @attribute
    async def committed(self) -> dict[int, int]:
        """What was committed, by partition."""
        return _by_partition((await self._look())["offsets"])

    @verb
    async def position(self, partition: int) -> int:
        """The offset of the next record to read; the oldest one where nothing was committed, or it is gone."""
        return _by_partition((await self._look())["positions"])[partition]

    @verb
    async def lag(self) -> dict[int, int]:
        """How many records of each partition are yet to be read."""
        return _by_partition((await self._look())["lag"])

    # Operators

    @verb
    async def reset(self, to: Literal["earliest", "latest"] | datetime) -> dict[int, int]:
        """Go to the oldest record, after the newest one, or to a time; members have to join again."""
        body = {"timestamp": max(0.0, to.timestamp())} if isinstance(to, datetime) else {"to": to}
        return _by_partition(await self._ask(ClientCall("POST", self._path("reset"), field_of("offsets"), body)))

    @verb
    async def delete(self) -> None:
        """Forget the group, which must have no members."""
        await self._ask(ClientCall("DELETE", self._path(), nothing))


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
