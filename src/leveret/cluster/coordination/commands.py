"""What ownership.py asks for; each is answered by the method of the same noun."""

from typing import NamedTuple


class Campaign(NamedTuple):
    """Create the key of a shard; `epoch` is that of an active owner who has lost its key, or 0."""

    shard: int
    epoch: int


class TakeOver(NamedTuple):
    """Raise the epoch of a shard in its journal, if it is lower, and read the journal."""

    shard: int
    epoch: int


class Announce(NamedTuple):
    """Write into the key of a shard that its owner is active."""

    shard: int
    revision: int
    epoch: int


class CheckEpoch(NamedTuple):
    """Look whether the journal of a shard still has this epoch."""

    shard: int
    epoch: int


class DrainShard(NamedTuple):
    """Take nothing more for a shard, finish what was taken, write a checkpoint, let go of it."""

    shard: int


class Drop(NamedTuple):
    """Forget a shard: another node has it."""

    shard: int


class Release(NamedTuple):
    """Remove the key of a shard, and say who should be next."""

    shard: int
    revision: int
    successor: str


Command = Campaign | TakeOver | Announce | CheckEpoch | DrainShard | Drop | Release
