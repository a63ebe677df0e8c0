"""A member of a consumer group on a server that looks after itself; for threads, and for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from leveret.client.member import Enrolled, RemoteMember
from leveret.client.record import RemoteRecord
from leveret.core.errors import BrokerClosed, NotFound, StaleGeneration
from leveret.embedded.reading import READ_RECORDS

if TYPE_CHECKING:
    from leveret.client.abroker import AsyncRemoteBroker
    from leveret.client.broker import RemoteBroker


class RemoteGroupConsumer(Enrolled):
    """One reader, from group.consumer(); for one thread at a time. See leveret.GroupConsumer."""

    def __init__(self, broker: RemoteBroker, member: RemoteMember) -> None:
        super().__init__(member)
        self._broker = broker
        self._join()

    def poll(self, max_records: int = READ_RECORDS, *, wait: float = 0) -> list[RemoteRecord]:
        """The next records of its partitions; when there are none yet, wait up to `wait` seconds.

        When the group has changed, what was not committed comes again, here or at another member.
        """
        return [self._member.give(record) for record in self._fetch(max_records, wait)]

    def commit(self) -> bool:
        """Note durably that all that it gave is done; False when the group has changed: then it is not noted."""
        try:
            if self._member.done:
                self._broker.run(self._member.commit())
        except StaleGeneration:
            self._join()
            return False
        self._member.done = {}
        return True

    def __iter__(self) -> Iterator[RemoteRecord]:
        with suppress(BrokerClosed):
            while True:
                found = self._fetch(READ_RECORDS, self._member.session_s)
                assignment = self._member.assignment
                for record in found:
                    if self._member.assignment is not assignment:
                        break  # what is left was read under an assignment that has ended
                    yield self._member.give(record)

    def _fetch(self, max_records: int, wait: float) -> list[RemoteRecord]:
        """Read, waiting if need be; join again when the group has changed."""
        clock = self._broker.clock
        until_ms = clock.now_ms() + round(wait * 1000)
        while True:
            left_s = (until_ms - clock.now_ms()) / 1000
            try:
                found = self._member.take(self._broker.run(self._member.poll(max_records, left_s)))
            except StaleGeneration:
                self._join()
                continue
            if found or left_s <= 0:
                return found
            if not self.partitions:
                self._broker.rest(min(left_s, self._member.rest_s))

    def _join(self) -> None:
        """Learn what to read, and begin where the group is."""
        self._member.learn(self._broker.run(self._member.join()))

    def close(self) -> None:
        """Leave the group; what was not committed is read again by others."""
        with suppress(BrokerClosed, NotFound):
            self._broker.run(self._member.leave())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncRemoteGroupConsumer(Enrolled):
    """The same for one task at a time: `async with group.consumer() as consumer`."""

    def __init__(self, broker: AsyncRemoteBroker, member: RemoteMember) -> None:
        super().__init__(member)
        self._broker = broker

    async def poll(self, max_records: int = READ_RECORDS, *, wait: float = 0) -> list[RemoteRecord]:
        """The next records of its partitions; when there are none yet, wait up to `wait` seconds."""
        return [self._member.give(record) for record in await self._fetch(max_records, wait)]

    async def commit(self) -> bool:
        """Note durably that all that it gave is done; False when the group has changed: then it is not noted."""
        try:
            if self._member.done:
                await self._broker.run(self._member.commit())
        except StaleGeneration:
            await self._join()
            return False
        self._member.done = {}
        return True

    async def __aiter__(self) -> AsyncIterator[RemoteRecord]:
        with suppress(BrokerClosed):
            while True:
                found = await self._fetch(READ_RECORDS, self._member.session_s)
                assignment = self._member.assignment
                for record in found:
                    if self._member.assignment is not assignment:
                        break  # what is left was read under an assignment that has ended
                    yield self._member.give(record)

    async def _fetch(self, max_records: int, wait: float) -> list[RemoteRecord]:
        """Read, waiting if need be; join again when the group has changed."""
        clock = self._broker.clock
        until_ms = clock.now_ms() + round(wait * 1000)
        while True:
            left_s = (until_ms - clock.now_ms()) / 1000
            try:
                found = self._member.take(await self._broker.run(self._member.poll(max_records, left_s)))
            except StaleGeneration:
                await self._join()
                continue
            if found or left_s <= 0:
                return found
            if not self.partitions:
                await self._broker.rest(min(left_s, self._member.rest_s))

    async def _join(self) -> None:
        """Learn what to read, and begin where the group is."""
        self._member.learn(await self._broker.run(self._member.join()))

    async def close(self) -> None:
        """Leave the group; what was not committed is read again by others."""
        with suppress(BrokerClosed, NotFound):
            await self._broker.run(self._member.leave())

    async def __aenter__(self) -> Self:
        await self._join()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
