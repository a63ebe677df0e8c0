"""A member of a consumer group that looks after itself: joins, reads its share, gives signs of life, joins again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from leveret.core.errors import BrokerClosed, NotFound, StaleGeneration
from leveret.core.membership import Assignment
from leveret.embedded.declare import milliseconds
from leveret.embedded.reading import READ_RECORDS, StreamReader
from leveret.embedded.records import StreamRecord
from leveret.runtime.waiters import ThreadWaiter

if TYPE_CHECKING:
    from leveret.embedded.group import Group

SIGNS_PER_SESSION = 3
"""How often a consumer that waits gives a sign of life within its session."""


class GroupConsumer:
    """One reader, from group.consumer(); for one thread at a time."""

    def __init__(self, group: Group, member: str, session: float) -> None:
        self.group = group
        self.member = member
        self._session = session
        self._readers: dict[int, StreamReader] = {}
        self._done: dict[int, int] = {}
        self._joined = Assignment(0, ())
        self._join()

    @property
    def partitions(self) -> tuple[int, ...]:
        """What it reads now."""
        return self._joined.partitions

    def poll(self, max_records: int = READ_RECORDS, *, wait: float = 0) -> list[StreamRecord]:
        """The next records of its partitions; when there are none yet, wait up to `wait` seconds.

        When the group has changed, what was not committed comes again, here or at another member.
        """
        found = self._fetch(max_records, wait)
        for record in found:
            self._done[record.partition] = record.offset + 1
        return found

    def commit(self) -> bool:
        """Note durably that all that it gave is done; False, and nothing is noted, when the group has changed."""
        try:
            if self._done:
                self.group.commit(self.member, self._joined.generation, self._done)
        except StaleGeneration:
            self._join()
            return False
        self._done = {}
        return True

    def __iter__(self) -> Iterator[StreamRecord]:
        with suppress(BrokerClosed):
            while True:
                found = self._fetch(READ_RECORDS, self._session)
                generation = self._joined.generation
                for record in found:
                    if self._joined.generation != generation:
                        break  # what is left was read under an assignment that has ended
                    self._done[record.partition] = record.offset + 1
                    yield record

    def _fetch(self, max_records: int, wait: float) -> list[StreamRecord]:
        """Read, waiting if need be, and stay in the group meanwhile."""
        runtime, stream = self.group.runtime, self.group.stream
        until_ms = runtime.clock.now_ms() + milliseconds("wait", wait)
        waiter = ThreadWaiter()
        while True:
            self._stay()
            found = self._read(max_records)
            now_ms = runtime.clock.now_ms()
            if found or now_ms >= until_ms:
                return found
            with runtime:
                runtime.waiters.join(stream.core, waiter)
            try:
                if all(reader.at_end for reader in self._readers.values()):
                    sign_ms = now_ms + milliseconds("session", self._session / SIGNS_PER_SESSION)
                    runtime.clock.wait(waiter.gate, min(until_ms, sign_ms))
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

    def _stay(self) -> None:
        """Give a sign of life; join again when the group has changed."""
        try:
            self.group.heartbeat(self.member, self._joined.generation)
        except StaleGeneration:
            self._join()

    def _join(self) -> None:
        """Learn what to read, and begin where the group is."""
        self._let_go()
        self._joined = self.group.join(self.member, session=self._session)
        for partition in self._joined.partitions:
            self._readers[partition] = self.group.stream.reader(partition, self.group.position(partition))

    def _let_go(self) -> None:
        """Forget what was read and not committed."""
        for reader in self._readers.values():
            reader.close()
        self._readers, self._done = {}, {}

    def close(self) -> None:
        """Leave the group; what was not committed is read again by others."""
        self._let_go()
        with suppress(BrokerClosed, NotFound):
            self.group.leave(self.member)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
