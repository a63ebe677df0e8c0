"""Every key that a cluster has in etcd.

    /leveret/CLUSTER/node/NODE         a member: where it can be reached, whether it is leaving        with its lease
    /leveret/CLUSTER/shard/N           the owner of shard N: node, and its epoch once it is active     with its lease
    /leveret/CLUSTER/successor/N       who should be next: the owner let go and says who may come      with its lease
    /leveret/CLUSTER/catalog           the version of the catalog, a hint to look

    epoch = base << 40 | revision at which the key of the shard came into being

Values are JSON. Nothing here is needed for safety: the owner is the node whose epoch the compare-and-append accepts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leveret.cluster.coordination.etcd import KeyValue
from leveret.core.errors import InvalidArgument
from leveret.core.names import check_name

REVISION_BITS = 40
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
        """As etcd keeps it."""
        return json.dumps({"addresses": dict(self.addresses), "draining": self.draining})

    @classmethod
    def from_key(cls, key: KeyValue, node: str) -> "NodeMember":
        """The reverse."""
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
        """As etcd keeps it."""
        return json.dumps({"node": self.node, "epoch": self.epoch})

    @classmethod
    def from_key(cls, key: KeyValue) -> "Owner":
        """The reverse."""
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
        """That of a member."""
        return f"{self.prefix}node/{node}"

    def shard(self, shard: int) -> str:
        """That of an owner."""
        return f"{self.prefix}shard/{shard}"

    def successor(self, shard: int) -> str:
        """That of a hint."""
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
