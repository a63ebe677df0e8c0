"""What a node knows of the cluster: its members, the owners of shards and who should follow them, as etcd told it.

What this node wrote itself is known before the watch tells it, and the watch may be behind: whatever is older than what
is known of a key is passed over.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from leveret.cluster.coordination.etcd import KeyEvent, KeyRange, KeyValue
from leveret.cluster.coordination.keys import EtcdKeys, NodeMember, Owner

Key = TypeVar("Key")
Value = TypeVar("Value")


class ClusterMembership:
    """The view of one node; sans-IO."""

    def __init__(self, keys: EtcdKeys, shards: int) -> None:
        self._keys = keys
        self._shards = shards
        self._revisions: Counter[tuple[str, str]] = Counter()
        self.known = False
        """Whether all keys were read at least once."""
        self.members: dict[str, NodeMember] = {}
        self.owners: dict[int, Owner] = {}
        self.successors: dict[int, str] = {}
        self.catalog_version = 0

    def reset(self, found: KeyRange) -> None:
        """All keys as they are at a revision."""
        self.known = True
        present = {key.key for key in found.keys}
        gone = [key for key in self._present() if key not in present]
        self.apply([KeyEvent(key, found.revision, None) for key in gone])
        self.apply([KeyEvent(key.key, key.changed, key) for key in found.keys])

    def _present(self) -> Iterable[str]:
        yield from map(self._keys.node, self.members)
        yield from map(self._keys.shard, self.owners)
        yield from map(self._keys.successor, self.successors)

    def apply(self, events: Iterable[KeyEvent]) -> None:
        """What happened to keys."""
        for event in events:
            which = self._keys.split(event.key)
            if event.revision >= self._revisions[which]:
                self._revisions[which] = event.revision
                self._take(*which, event)

    def wrote(self, shard: int, revision: int, owner: Owner | None) -> None:
        """This node has changed the key of a shard, or removed it."""
        key = self._keys.shard(shard)
        found = None
        if owner is not None:
            found = KeyValue(key, owner.to_value(), owner.revision, revision, owner.lease)
        self.apply([KeyEvent(key, revision, found)])

    def _take(self, kind: str, which: str, event: KeyEvent) -> None:
        key = event.found
        if kind == "node":
            _set(self.members, which, None if key is None else NodeMember.from_key(key, which))
        elif kind == "shard" and self._is_shard(which):
            _set(self.owners, int(which), None if key is None else Owner.from_key(key))
        elif kind == "successor" and self._is_shard(which):
            _set(self.successors, int(which), None if key is None else key.value)
        elif kind == "catalog" and key is not None and key.value.isdecimal():
            self.catalog_version = int(key.value)

    def _is_shard(self, which: str) -> bool:
        return which.isdecimal() and int(which) < self._shards

    @property
    def staying(self) -> list[str]:
        """The nodes that shards may be given to."""
        return [member.node for member in self.members.values() if not member.draining]


def _set(table: dict[Key, Value], key: Key, value: Value | None) -> None:
    """Put or remove."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
