"""What the nodes of a cluster stand on, and what can happen to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from tests.machine import Machine

if TYPE_CHECKING:
    from tests.jepsen.world import World

Faults = dict[str, Callable[["World"], None]]
"""Each lets something happen and be over, and raises when it did not happen."""


class Footing(Protocol):
    """PostgreSQL, etcd and what else there is."""

    nodes: dict[str, Machine]
    """Where each node runs."""
    faults: Faults
    left_out: dict[str, str]
    """Faults that cannot happen here, and why."""

    def store(self, schema: str) -> str:
        """An empty schema, and where it is reached."""

    @property
    def groups(self) -> Sequence[str]:
        """Databases that get their share of the shards at once, beside the store."""

    @property
    def etcd(self) -> str:
        """Where etcd is reached."""

    @property
    def flags(self) -> list[str]:
        """What nodes are told beside that."""
