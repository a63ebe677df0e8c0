"""Who is in a consumer group, and which partitions each member reads.

Every change of the members is a new generation. What a member does under an older one is refused: its partitions may
be another member's by now. It joins again to learn what it has. Partitions stay where they are as far as they can, and
no member has more than one partition more than another.
"""

from collections.abc import Iterable
from typing import NamedTuple

from leveret.core.arguments import PARTITIONS_MAX
from leveret.core.errors import InvalidArgument, StaleGeneration, TooMany
from leveret.core.names import check_name

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
