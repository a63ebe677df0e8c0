"""Which shard a queue is in, and which node should have a shard: the same answer on every node, without asking anybody.

Both are hashes that must never change: a queue is placed once, and its shard is written into its definition.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leveret.core.arguments import DEAD_LETTER_EXCHANGE, DEAD_LETTER_KEY
from leveret.core.errors import InvalidArgument
from leveret.core.names import companion_of

SHARDS = 32
SHARDS_MAX = 1024  # each costs its owner a connection and a replay

LOCAL = "@"  # and the name of a node: the home of the queues that live and die with its connections

Name = tuple[str, str]
"""A queue: its virtual host and its name."""


def stable_hash(*parts: str) -> int:
    """64 bits of some texts, the same on every machine; lengths keep ("a", "bc") from ("ab", "c")."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def shard_id_of_owner(owner: str) -> str:
    """Where the queues of a connection are; it is named by its node and a number, as in "a/7"."""
    return LOCAL + owner.rpartition("/")[0]


def preference(shard: int, nodes: Iterable[str]) -> list[str]:
    """Nodes for a shard, the best first; when one goes, the others keep their order."""
    return sorted(nodes, key=lambda node: (stable_hash("node", node, str(shard)), node), reverse=True)


def assignment(shards: int, nodes: Sequence[str]) -> dict[int, str]:
    """The node that should have each shard: the best one that has not its fair share already.

    Without that limit a hash over so few shards gives one node twice as many as another.
    """
    room = dict.fromkeys(sorted(nodes), -(-shards // max(1, len(nodes))))
    found: dict[int, str] = {}
    for shard in range(shards) if room else ():
        found[shard] = next(node for node in preference(shard, room) if room[node])
        room[found[shard]] -= 1
    return found


def dead_letter_target(arguments: Mapping[str, Any] | None) -> str | None:
    """The one queue that these arguments send dead letters to; None when an exchange decides."""
    if not arguments or arguments.get(DEAD_LETTER_EXCHANGE) != "":
        return None
    return arguments.get(DEAD_LETTER_KEY)


class Placements:
    """The shard of every queue, and of those that are about to be declared.

    A queue and the one that takes its dead letters are in one shard if the two are all there is: a dead letter is then
    one frame. A queue that takes those of many would draw all of them into one shard, so only the first follows. What
    workers of a queue have done is remembered beside it: a message is acknowledged and remembered in one frame.
    """

    def __init__(self, shards: int = SHARDS) -> None:
        if not 1 <= shards <= SHARDS_MAX:
            raise InvalidArgument(f"{shards} shards: from 1 to {SHARDS_MAX} are possible")
        self.shards = shards
        self._shards: dict[Name, int] = {}
        self._targets: dict[Name, str] = {}
        self._sources: dict[Name, dict[str, None]] = {}

    def choose(self, vhost: str, name: str, arguments: Mapping[str, Any] | None) -> int:
        """Where a new queue should be."""
        for source in self._sources.get((vhost, name), ()):
            return self._shards[vhost, source]
        target = dead_letter_target(arguments)
        if target is not None and (vhost, target) in self._shards and not self._sources.get((vhost, target)):
            return self._shards[vhost, target]
        companion = companion_of(name)
        known = None if companion is None else self._shards.get((vhost, companion))
        return stable_hash("queue", vhost, companion or name) % self.shards if known is None else known

    def put(self, vhost: str, name: str, arguments: Mapping[str, Any] | None, shard: int) -> None:
        if not 0 <= shard < self.shards:
            raise InvalidArgument(f"queue '{name}' in shard {shard}: this cluster has {self.shards}")
        self.drop(vhost, name)
        self._shards[vhost, name] = shard
        target = dead_letter_target(arguments)
        if target is not None:
            self._targets[vhost, name] = target
            self._sources.setdefault((vhost, target), {})[name] = None

    def drop(self, vhost: str, name: str) -> None:
        self._shards.pop((vhost, name), None)
        target = self._targets.pop((vhost, name), None)
        if target is not None:
            sources = self._sources[vhost, target]
            del sources[name]
            if not sources:
                del self._sources[vhost, target]
