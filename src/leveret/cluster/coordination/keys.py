"""Every key that a cluster has in etcd, and what a node knows by them.

    /leveret/CLUSTER/node/NODE         a member: where it can be reached, whether it is leaving        with its lease
    /leveret/CLUSTER/shard/N           the owner of shard N: node, and its epoch once it is active     with its lease
    /leveret/CLUSTER/successor/N       who should be next: the owner let go and says who may come      with its lease
    /leveret/CLUSTER/catalog           the version of the catalog, a hint to look

    epoch = base << 40 | revision at which the key of the shard came into being

Values are JSON. Nothing here is needed for safety: the owner is the node whose epoch the compare-and-append accepts.
What a node wrote itself is known before the watch tells it, and the watch may be behind: whatever is older than what is
known of a key is passed over.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leveret.cluster.coordination.etcd import KeyEvent, KeyRange, KeyValue
from leveret.core.errors import InvalidArgument
from leveret.core.names import check_name
from leveret.protocols.net.addresses import host_and_port

REVISION_BITS = 40
LINK = "link"  # the address of a member that other nodes connect to
BASE_MAX = (1 << 22) - 1  # so that an epoch is a bigint of SQL


def epoch_of(base: int, revision: int) -> int:
    """The epoch of an owner; `base` is raised by hand when an etcd was restored from a backup and counts anew."""
    if not 0 <= base <= BASE_MAX or not 0 < revision < 1 << REVISION_BITS:
        raise InvalidArgument(f"no epoch of base {base} and revision {revision}")
    return base << REVISION_BITS | revision


@dataclass(frozen=True, slots=True)
class NodeMember:
    """A node that lives."""

    node: str
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Where it listens, by protocol."""
    draining: bool = False
    lease: int = 0

    def to_value(self) -> str:
        return json.dumps({"addresses": dict(self.addresses), "draining": self.draining})

    @classmethod
    def from_key(cls, key: KeyValue, node: str) -> "NodeMember":
        told = _object(key.value)
        addresses = told.get("addresses")
        known = {str(name): str(where) for name, where in addresses.items()} if isinstance(addresses, dict) else {}
        return cls(node, known, bool(told.get("draining")), key.lease)


@dataclass(frozen=True, slots=True)
class Owner:
    """The node that has, or is about to have, a shard; its epoch is 0 until it is active."""

    node: str
    revision: int
    lease: int
    epoch: int = 0

    def to_value(self) -> str:
        return json.dumps({"node": self.node, "epoch": self.epoch})

    @classmethod
    def from_key(cls, key: KeyValue) -> "Owner":
        told = _object(key.value)
        epoch = told.get("epoch")
        return cls(str(told.get("node", "")), key.created, key.lease, epoch if isinstance(epoch, int) else 0)


class EtcdKeys:
    """The keys of one cluster."""

    def __init__(self, cluster: str) -> None:
        check_name("cluster", cluster)
        if "/" in cluster:
            raise InvalidArgument(f"the name of a cluster has no slash: '{cluster}'")
        self.prefix = f"/leveret/{cluster}/"
        self.catalog = f"{self.prefix}catalog"

    def node(self, node: str) -> str:
        return f"{self.prefix}node/{node}"

    def shard(self, shard: int) -> str:
        return f"{self.prefix}shard/{shard}"

    def successor(self, shard: int) -> str:
        return f"{self.prefix}successor/{shard}"

    def split(self, key: str) -> tuple[str, str]:
        """What a key is about: its kind, and which one."""
        kind, _, which = key.removeprefix(self.prefix).partition("/")
        return kind, which


def check_node(node: str) -> str:
    """A name that a node can have."""
    check_name("node", node)
    if "/" in node:
        raise InvalidArgument(f"the name of a node has no slash: '{node}'")
    return node


def _object(value: str) -> dict[str, Any]:
    """A value of ours; any other value there is ignored."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


Key = TypeVar("Key")
Value = TypeVar("Value")


class ClusterMembership:
    """The view of one node, sans-IO; Owners of leveret.cluster.rpc.peers says what some methods do."""

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

    def owner_of(self, shard_id: str) -> str | None:
        owner = self.owners.get(int(shard_id))
        return owner.node if owner is not None and owner.epoch else None

    def address_of(self, node: str) -> tuple[str, int] | None:
        member = self.members.get(node)
        return None if member is None else host_and_port(member.addresses.get(LINK, ""))

    def nodes(self) -> list[str]:
        return list(self.members)

    @property
    def staying(self) -> list[str]:
        """The nodes that shards may be given to."""
        return [member.node for member in self.members.values() if not member.draining]


def _set(table: dict[Key, Value], key: Key, value: Value | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
