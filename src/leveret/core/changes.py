"""Changes of definitions as values: they can be applied at once, or later, and as often as it takes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

from leveret.core.broker import Broker
from leveret.core.exchanges import Exchange
from leveret.core.names import RESERVED_PREFIX
from leveret.core.queue import Queue

T = TypeVar("T")


class Change(ABC, Generic[T]):
    """One verb of the broker with its arguments."""

    vhost: str

    @abstractmethod
    def apply(self, core: Broker) -> T:
        """Do it; raises what the verb refuses."""


class Tracked(Change[T]):
    """A change, and whether it changed anything: declaring what is there again does not."""

    __slots__ = ("change", "changed", "vhost")

    def __init__(self, change: Change[T]) -> None:
        self.change = change
        self.vhost = change.vhost
        self.changed = False

    def apply(self, core: Broker) -> T:
        """Apply the change; the last time counts."""
        vhost = core.topology.vhost(self.vhost)
        before = vhost.generation
        result = self.change.apply(core)
        self.changed = vhost.generation != before
        return result


@dataclass(frozen=True, slots=True)
class DeclareQueue(Change[Queue]):
    """A queue, made if need be."""

    vhost: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    durable: bool = True
    auto_delete: bool = False
    owner: object = None
    server_named: bool = False

    def apply(self, core: Broker) -> Queue:
        return core.declare_queue(**_arguments(self))


@dataclass(frozen=True, slots=True)
class DeleteQueue(Change[int]):
    """No queue of that name; gives the number of messages that waited in it."""

    vhost: str
    name: str
    owner: object = None

    def apply(self, core: Broker) -> int:
        """See Broker.delete_queue; a missing one is no error, nor is one that is not this owner's."""
        queue = core.topology.vhost(self.vhost).queues.get(self.name)
        if queue is None or self.owner not in (None, queue.owner):
            return 0
        return core.delete_queue(queue)


@dataclass(frozen=True, slots=True)
class RenewQueue(Change[Queue]):
    """A queue in the place of one that is only defined: what led to it, and is not there any more, goes with it."""

    vhost: str
    gone: Queue
    arguments: Mapping[str, Any] = field(default_factory=dict)
    durable: bool = True
    auto_delete: bool = False

    def apply(self, core: Broker) -> Queue:
        """See Broker.declare_queue; one that another client has declared meanwhile stays."""
        name, owner = self.gone.name, self.gone.owner
        if not self.gone.deleted:
            core.delete_queue(self.gone)
        is_given = name.startswith(RESERVED_PREFIX)
        return DeclareQueue(
            self.vhost, name, self.arguments, self.durable, self.auto_delete, owner, server_named=is_given
        ).apply(core)


@dataclass(frozen=True, slots=True)
class DeclareExchange(Change[Exchange]):
    """An exchange, made if need be."""

    vhost: str
    name: str
    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, core: Broker) -> Exchange:
        return core.declare_exchange(**_arguments(self))


@dataclass(frozen=True, slots=True)
class DeleteExchange(Change[None]):
    """No exchange of that name."""

    vhost: str
    name: str
    if_unused: bool = False

    def apply(self, core: Broker) -> None:
        core.delete_exchange(**_arguments(self))


@dataclass(frozen=True, slots=True)
class Bind(Change[None]):
    """A queue or an exchange gets messages of an exchange."""

    vhost: str
    source: str
    destination: str
    key: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    destination_type: str = "queue"

    def apply(self, core: Broker) -> None:
        core.bind(**_arguments(self))


@dataclass(frozen=True, slots=True)
class Unbind(Bind):
    """It gets them no more."""

    def apply(self, core: Broker) -> None:
        core.unbind(**_arguments(self))


def _arguments(change: Any) -> dict[str, Any]:
    """What a change says, as its verb takes it: they have the same names."""
    return {each.name: getattr(change, each.name) for each in fields(change)}
