"""Consumer groups: how far each group has read each partition of a stream, and who reads it now.

Offsets and generations are definitions of the core, so they survive restarts; members do not, they join again. An
offset that is committed is that of the next record to read.

Who is in a consumer group, and which partitions each member reads.

Every change of the members is a new generation. What a member does under an older one is refused: its partitions may
be another member's by now. It joins again to learn what it has. Partitions stay where they are as far as they can, and
no member has more than one partition more than another.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

from leveret.core.arguments import PARTITIONS_MAX
from leveret.core.broker import Broker
from leveret.core.definition_log import Kind
from leveret.core.errors import InvalidArgument, NotFound, PreconditionFailed, StaleGeneration, TooMany
from leveret.core.names import check_name, check_new_name

MEMBERS_MAX = 1_000
SESSION_MS = 30_000
SESSION_MS_MIN = 1_000
"""A shorter one ends by a pause of the garbage collector."""
SESSION_MS_MAX = 3_600_000
"""A longer one would leave the partitions of a dead member unread for too long."""


class Assignment(NamedTuple):
    """What a member reads, and under which generation."""

    generation: int
    partitions: tuple[int, ...]


class Member:
    """One reader, for as long as it gives signs of life."""

    __slots__ = ("deadline_ms", "partitions", "session_ms")

    def __init__(self, session_ms: int, now_ms: int) -> None:
        self.session_ms = session_ms
        self.deadline_ms = now_ms + session_ms
        self.partitions: list[int] = []


class Membership:
    """The members of one group; each partition belongs to exactly one of them if there are any."""

    def __init__(self, partitions: int, generation: int = 0) -> None:
        """There is no member; generations go on from an earlier one."""
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise InvalidArgument(f"a stream has 1 to {PARTITIONS_MAX} partitions, not {partitions}")
        self.partitions = partitions
        self.generation = generation
        self._members: dict[str, Member] = {}

    @property
    def members(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(member.partitions) for name, member in self._members.items()}

    def join(self, name: str, now_ms: int, session_ms: int = SESSION_MS) -> Assignment:
        """Come in, or stay in; a sign of life."""
        check_name("member", name)
        if not SESSION_MS_MIN <= session_ms <= SESSION_MS_MAX:
            raise InvalidArgument(f"a session is {SESSION_MS_MIN} to {SESSION_MS_MAX} ms, not {session_ms}")
        self.expire(now_ms)
        known = self._members.get(name)
        if known is None and len(self._members) >= MEMBERS_MAX:
            raise TooMany(f"the group has {MEMBERS_MAX} members: let some leave, or use another group")
        member = Member(session_ms, now_ms)
        self._members[name] = member
        if known is None:
            self.rebalance()
        else:
            member.partitions = known.partitions
        return Assignment(self.generation, tuple(member.partitions))

    def heartbeat(self, name: str, generation: int, now_ms: int) -> None:
        """Give a sign of life; refused when the assignment is an older one."""
        self.expire(now_ms)
        member = self._current(name, generation)
        member.deadline_ms = now_ms + member.session_ms

    def check_owner(self, name: str, generation: int, partitions: Iterable[int], now_ms: int) -> None:
        """Refuse what only the one may do who reads these partitions now."""
        self.expire(now_ms)
        foreign = sorted(set(partitions) - set(self._current(name, generation).partitions))
        if foreign:
            raise InvalidArgument(f"partition {foreign[0]} is not assigned to member '{name}': leave it out")

    def leave(self, name: str, now_ms: int) -> None:
        """Go; a client that is no member has left already."""
        self.expire(now_ms)
        if self._members.pop(name, None) is not None:
            self.rebalance()

    def expire(self, now_ms: int) -> list[str]:
        """Put out those who gave no sign of life for too long."""
        gone = [name for name, member in self._members.items() if member.deadline_ms <= now_ms]
        for name in gone:
            del self._members[name]
        if gone:
            self.rebalance()
        return gone

    def rebalance(self) -> None:
        """Begin a new generation: spread the partitions evenly, moving as few as possible."""
        self.generation += 1
        if not self._members:
            return
        share, extra = divmod(self.partitions, len(self._members))
        # Those who have most keep the one that is over: sorting is stable, so the older members come first.
        fullest = sorted(self._members.values(), key=lambda member: -len(member.partitions))
        quotas = [share + (place < extra) for place in range(len(fullest))]
        for member, quota in zip(fullest, quotas, strict=True):
            del member.partitions[quota:]
        held = {partition for member in fullest for partition in member.partitions}
        free = [partition for partition in range(self.partitions) if partition not in held]
        for member, quota in zip(fullest, quotas, strict=True):
            missing = quota - len(member.partitions)
            member.partitions = sorted(member.partitions + free[:missing])
            del free[:missing]

    def _current(self, name: str, generation: int) -> Member:
        """A member, if its assignment is still the one that counts."""
        member = self._members.get(name)
        if member is None or generation != self.generation:
            raise StaleGeneration(f"the group is in generation {self.generation}, not {generation}: join it again")
        return member


GROUPS_MAX = 10_000
"""Each has an offset for each partition in memory and in every checkpoint."""
OFFSET_MAX = (1 << 63) - 1

Key = tuple[str, str, str]
Target = Literal["earliest", "latest"] | int
"""Where a reset goes; a number is a time in ms."""


class Positions(Protocol):
    """What a group has to know about its stream."""

    def earliest(self, partition: int) -> int:
        """The offset of the oldest record."""

    def latest(self, partition: int) -> int:
        """The offset after the newest record."""

    def at(self, partition: int, timestamp_ms: int) -> int:
        """The offset of the first record of a time or later."""


class ConsumerGroup:
    """One group of readers of one stream."""

    def __init__(self, core: Broker, key: Key, partitions: int, generation: int = 0) -> None:
        self._core = core
        self.vhost, self.stream, self.name = key
        self.membership = Membership(partitions, generation)
        self.offsets: dict[int, int] = {}
        self._journaled = generation

    def join(self, member: str, now_ms: int, session_ms: int = SESSION_MS) -> Assignment:
        """Come in, or learn what to read after a change; a sign of life."""
        try:
            return self.membership.join(member, now_ms, session_ms)
        finally:
            self._keep_generation()

    def heartbeat(self, member: str, generation: int, now_ms: int) -> None:
        """Give a sign of life; StaleGeneration means: join again."""
        try:
            self.membership.heartbeat(member, generation, now_ms)
        finally:
            self._keep_generation()

    def leave(self, member: str, now_ms: int) -> None:
        """Go, so that others take over at once."""
        self.membership.leave(member, now_ms)
        self._keep_generation()

    def expire(self, now_ms: int) -> list[str]:
        """Put out those who gave no sign of life for too long."""
        gone = self.membership.expire(now_ms)
        self._keep_generation()
        return gone

    def commit(self, member: str, generation: int, offsets: Mapping[int, int], now_ms: int) -> None:
        """Note how far a member has read its partitions: all of them or, if one is refused, none."""
        for partition, offset in offsets.items():
            _check_offset(partition, offset)
        try:
            self.membership.check_owner(member, generation, offsets, now_ms)
        finally:
            self._keep_generation()
        for partition, offset in offsets.items():
            self._keep_offset(partition, offset)

    def position(self, partition: int, positions: Positions) -> int:
        """The offset of the next record to read; the oldest one where nothing was committed, or it is gone."""
        return max(self.offsets.get(partition, 0), positions.earliest(partition))

    def lag(self, positions: Positions) -> dict[int, int]:
        """How many records of each partition are yet to be read."""
        return {
            partition: max(0, positions.latest(partition) - self.position(partition, positions))
            for partition in range(self.membership.partitions)
        }

    def reset(self, positions: Positions, to: Target) -> dict[int, int]:
        """Go to the oldest record, after the newest one, or to a time in ms; members have to join again."""
        for partition in range(self.membership.partitions):
            if isinstance(to, str):
                offset = positions.earliest(partition) if to == "earliest" else positions.latest(partition)
            else:
                offset = positions.at(partition, to)
            self._keep_offset(partition, offset)
        self.membership.rebalance()
        self._keep_generation()
        return dict(self.offsets)

    def keep(self) -> None:
        self._journaled = self.membership.generation
        facts = {"partitions": self.membership.partitions, "generation": self._journaled}
        self._core.define(Kind.CONSUMER_GROUP, {**self._key(), **facts})

    def forget(self) -> None:
        """Journal that the group is gone."""
        for partition in self.offsets:
            self._core.undefine(Kind.GROUP_OFFSET, {**self._key(), "partition": partition})
        self._core.undefine(Kind.CONSUMER_GROUP, self._key())

    def _keep_generation(self) -> None:
        """Journal the generation if it has changed: after a restart there must not be an older one."""
        if self.membership.generation != self._journaled:
            self.keep()

    def _keep_offset(self, partition: int, offset: int) -> None:
        """Note an offset, in memory and in the journal."""
        if self.offsets.get(partition) != offset:
            self.offsets[partition] = offset
            self._core.define(Kind.GROUP_OFFSET, {**self._key(), "partition": partition, "offset": offset})

    def _key(self) -> dict[str, str]:
        return {"vhost": self.vhost, "stream": self.stream, "name": self.name}


class ConsumerGroups:
    """Every group, kept in the catalog of a core."""

    def __init__(self, core: Broker) -> None:
        self._core = core
        self._groups: dict[Key, ConsumerGroup] = {}
        for stored in core.catalog.of(Kind.CONSUMER_GROUP):
            key = (stored["vhost"], stored["stream"], stored["name"])
            self._groups[key] = ConsumerGroup(core, key, stored["partitions"], stored["generation"])
        for stored in core.catalog.of(Kind.GROUP_OFFSET):
            group = self._groups.get((stored["vhost"], stored["stream"], stored["name"]))
            if group is not None:  # a salvaged log may have lost it
                group.offsets[stored["partition"]] = stored["offset"]

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self._groups.values())

    def of(self, vhost: str, stream: str) -> list[ConsumerGroup]:
        """The groups of one stream, by name."""
        found = [each for each in self if (each.vhost, each.stream) == (vhost, stream)]
        return sorted(found, key=lambda each: each.name)

    def declare(self, vhost: str, stream: str, name: str, partitions: int) -> ConsumerGroup:
        """The group of that name, made if need be."""
        key = (self._core.topology.vhost(vhost).name, stream, name)
        group = self._groups.get(key)
        if group is not None:
            if group.membership.partitions != partitions:
                known = group.membership.partitions
                raise PreconditionFailed(f"group '{name}' reads {known} partitions, not {partitions}: delete it first")
            return group
        check_new_name("group", name)
        if len(self._groups) >= GROUPS_MAX:
            raise TooMany(f"there are {GROUPS_MAX} consumer groups: delete some")
        group = self._groups[key] = ConsumerGroup(self._core, key, partitions)
        group.keep()
        return group

    def get(self, vhost: str, stream: str, name: str) -> ConsumerGroup:
        group = self._groups.get((vhost, stream, name))
        if group is None:
            raise NotFound(f"stream '{stream}' in vhost '{vhost}' has no group '{name}': join it first")
        return group

    def delete(self, vhost: str, stream: str, name: str, now_ms: int) -> None:
        """Forget a group without members."""
        group = self.get(vhost, stream, name)
        group.expire(now_ms)
        if group.membership.members:
            raise PreconditionFailed(f"group '{name}' has members: let them leave first")
        group.forget()
        del self._groups[vhost, stream, name]

    def delete_stream(self, vhost: str, stream: str) -> None:
        for group in self.of(vhost, stream):
            group.forget()
            del self._groups[group.vhost, group.stream, group.name]

    def delete_vhost(self, vhost: str) -> None:
        """Forget every group of a virtual host that is gone; the core has dropped what it knew of them."""
        for key in [key for key in self._groups if key[0] == vhost]:
            del self._groups[key]

    def expire(self, now_ms: int) -> None:
        """Put out every member that gave no sign of life for too long."""
        for group in self:
            group.expire(now_ms)


def _check_offset(partition: int, offset: int) -> None:
    if not 0 <= offset <= OFFSET_MAX:
        raise InvalidArgument(f"the offset of partition {partition} is 0 to {OFFSET_MAX}, not {offset}")
