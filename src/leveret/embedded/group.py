"""A consumer group as its users see it: members share the partitions of a stream; the group knows how far it is.

with clicks.group("billing").consumer() as consumer:
    for record in consumer:
        ...
        consumer.commit()       # everything up to this record is done, also after a restart
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from leveret.core.consumer_groups import ConsumerGroup
from leveret.core.errors import InvalidArgument, NotFound
from leveret.core.membership import SESSION_MS, Assignment
from leveret.embedded.group_consumer import AsyncGroupConsumer, GroupConsumer
from leveret.runtime.declare import milliseconds
from leveret.runtime.verbs import Durable, durably, twin
from leveret.storage.stream.starts import start_named

if TYPE_CHECKING:
    from leveret.embedded.stream import Stream

SESSION_S = SESSION_MS / 1000


class Group:
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

    def aconsumer(self, member: str | None = None, *, session: float = SESSION_S) -> AsyncGroupConsumer:
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

    ajoin = twin(join)
    acommit = twin(commit)
    areset = twin(reset)
    adelete = twin(delete)
