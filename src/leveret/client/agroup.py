"""A consumer group on a server, for asyncio; see group.py."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from leveret.client import stream_calls as calls
from leveret.client.calls import Row
from leveret.client.group_consumer import AsyncRemoteGroupConsumer
from leveret.client.member import RemoteMember
from leveret.core.membership import Assignment
from leveret.embedded.group import SESSION_S

if TYPE_CHECKING:
    from leveret.client.abroker import AsyncRemoteBroker


class AsyncRemoteGroup:
    """One group of readers, from stream.group(). See leveret.Group; what are attributes there are verbs here."""

    def __init__(self, broker: AsyncRemoteBroker, stream: str, name: str) -> None:
        self.name = name
        self._broker = broker
        self._stream = stream

    def __repr__(self) -> str:
        return f"<AsyncRemoteGroup {self.name!r} of stream {self._stream!r}>"

    async def _look(self) -> Row:
        return await self._broker.run(calls.describe_group(self._stream, self.name))

    # Members

    async def join(self, member: str, *, session: float = SESSION_S) -> Assignment:
        """Come in, or learn what to read after a change; without a sign of life for `session` seconds it is out."""
        return (await self._broker.run(calls.join(self._stream, self.name, member, session))).assignment

    async def heartbeat(self, member: str, generation: int) -> None:
        """Give a sign of life; StaleGeneration means: join again."""
        await self._broker.run(calls.heartbeat(self._stream, self.name, member, generation))

    async def leave(self, member: str) -> None:
        """Go, so that others take over at once."""
        await self._broker.run(calls.leave(self._stream, self.name, member))

    async def commit(self, member: str, generation: int, offsets: Mapping[int, int]) -> None:
        """Note durably which record of each partition is to be read next; StaleGeneration means: join again."""
        await self._broker.run(calls.commit(self._stream, self.name, member, generation, offsets))

    def consumer(self, member: str | None = None, *, session: float = SESSION_S) -> AsyncRemoteGroupConsumer:
        """A member that joins, reads its share and joins again when the group changes; for an `async with` block."""
        return AsyncRemoteGroupConsumer(self._broker, RemoteMember(self._stream, self.name, member, session))

    # Looking

    async def generation(self) -> int:
        """Which one it is in: each change of its members begins another."""
        return int((await self._look())["generation"])

    async def members(self) -> dict[str, tuple[int, ...]]:
        """Every member with its partitions."""
        return calls.members_of(await self._look())

    async def committed(self) -> dict[int, int]:
        """What was committed, by partition."""
        return calls.by_partition((await self._look())["offsets"])

    async def position(self, partition: int) -> int:
        """The offset of the next record to read; the oldest one where nothing was committed, or it is gone."""
        return calls.by_partition((await self._look())["positions"])[partition]

    async def lag(self) -> dict[int, int]:
        """How many records of each partition are yet to be read."""
        return calls.by_partition((await self._look())["lag"])

    # Operators

    async def reset(self, to: Literal["earliest", "latest"] | datetime) -> dict[int, int]:
        """Go to the oldest record, after the newest one, or to a time; members have to join again."""
        return await self._broker.run(calls.reset(self._stream, self.name, to))

    async def delete(self) -> None:
        """Forget the group, which must have no members."""
        await self._broker.run(calls.delete_group(self._stream, self.name))
