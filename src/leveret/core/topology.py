"""Virtual hosts: which exchanges, queues and bindings exist, and the route of a message through them.

Topology -- Vhost -- exchanges -- bindings --> queues, exchanges
                  -- queues (opaque: anything hashable with a name)
                  -- policies, operator policies
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from leveret.core.arguments import QUEUE_TYPES, check_argument, check_property, type_name
from leveret.core.errors import (
    AccessRefused,
    ExchangeNotFound,
    InvalidArgument,
    PreconditionFailed,
    QueueNotFound,
    TooMany,
    VhostNotFound,
)
from leveret.core.exchanges import (
    DECLARED,
    Binding,
    DefaultExchange,
    Exchange,
    LocalRandomExchange,
    check_type,
    new_exchange,
)
from leveret.core.jsonable import canonical
from leveret.core.names import RESERVED_PREFIX, SortedNames, check_key, check_name, check_new_name, described
from leveret.core.policy import ALTERNATE_EXCHANGE, Policy, alternate_exchange
from leveret.core.routing import walk
from leveret.core.switch import Switch

# Definitions live in memory and in every checkpoint: without these one client could fill both.
VHOSTS_MAX = 10_000
EXCHANGES_MAX = 100_000
BINDINGS_MAX = 1_000_000
POLICIES_MAX = 1_000
DESCRIPTION_CHARS_MAX = 1_000
TAGS_MAX = 100
ROUTES_MAX = 10_000  # routing keys are chosen by clients; a full cache is cleared

TRACE_EXCHANGE = "amq.rabbitmq.trace"
_PREDECLARED = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
    TRACE_EXCHANGE: "topic",
}


class Removed(NamedTuple):
    """What went: bindings, and the exchanges that were asked to go or deleted themselves with their last binding."""

    bindings: list[Binding]
    exchanges: list[Exchange]


@dataclass(frozen=True, slots=True)
class VhostDetails:
    """What is said about a virtual host; the type is for queues that last and are declared without one."""

    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str | None = None
    tracing: bool = False

    def __post_init__(self) -> None:
        """Refuse what could not be kept or would fail at each declaration."""
        if not isinstance(self.description, str) or len(self.description) > DESCRIPTION_CHARS_MAX:
            raise InvalidArgument(f"the description of a vhost is text of at most {DESCRIPTION_CHARS_MAX} characters")
        if len(self.tags) > TAGS_MAX:
            raise InvalidArgument(f"{len(self.tags)} tags of a vhost: the limit is {TAGS_MAX}")
        for tag in self.tags:
            check_name("tag", tag)
        if self.default_queue_type not in (None, *QUEUE_TYPES):
            raise InvalidArgument(f"the default queue type is one of {', '.join(QUEUE_TYPES)}")
        if not isinstance(self.tracing, bool):
            raise InvalidArgument("tracing of a vhost is true or false")

    def to_dict(self) -> dict[str, Any]:
        """What differs from the default, fit for JSON."""
        return {name: value for name, value in {**asdict(self), "tags": list(self.tags)}.items() if value}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "VhostDetails":
        known = {each.name: stored[each.name] for each in fields(cls) if each.name in stored}
        return cls(**{**known, "tags": tuple(known.get("tags", ()))})


class Vhost:
    """One name space of exchanges and queues; `generation` changes whenever a route may have."""

    def __init__(self, name: str = "/", is_local: Callable[[Any], bool] = lambda queue: True) -> None:
        """Start with the exchanges that always exist; `is_local` tells which queues are on this node of a cluster."""
        check_name("vhost", name)
        self._is_local = is_local
        self.name = name
        self.generation = 0
        self.firehose = Switch()
        """Whether what clients publish and get is copied to the exchange for that: see
        leveret.protocols.amqp.firehose.
        """
        self.details = VhostDetails()
        self.queues: dict[str, Any] = {}
        self.queue_names = SortedNames(self.queues)
        self.exchanges: dict[str, Exchange] = {"": DefaultExchange(self.queues)}
        self.exchanges |= {reserved: new_exchange(reserved, type) for reserved, type in _PREDECLARED.items()}
        self.exchanges[TRACE_EXCHANGE].internal = True
        self.policies: dict[str, Policy] = {}
        self.operator_policies: dict[str, Policy] = {}
        self._incoming: dict[Any, dict[Binding, None]] = {}
        self._binding_count = 0
        self._routes: dict[tuple[str, str], list[Any]] = {}

    @property
    def details(self) -> VhostDetails:
        return self._details

    @details.setter
    def details(self, details: VhostDetails) -> None:
        self._details = details
        if self.firehose.on is not details.tracing:
            self.firehose.on = details.tracing
            self.generation += 1  # a publish that is traced takes another way

    def to_dict(self) -> dict[str, Any]:
        """The definition, fit for JSON; what is inside has definitions of its own."""
        return {"name": self.name, **self.details.to_dict()}

    def exchange(self, name: str) -> Exchange:
        found = self.exchanges.get(name)
        if found is None:
            raise ExchangeNotFound(f"no {described('exchange', name, self.name)}")
        return found

    def queue(self, name: str) -> Any:
        found = self.queues.get(name)
        if found is None:
            raise QueueNotFound(f"no {described('queue', name, self.name)}")
        return found

    def bindings(self) -> Iterator[Binding]:
        """All bindings, exchange by exchange; not those to the default exchange, which are implied."""
        return (binding for exchange in self.exchanges.values() for binding in exchange.bindings.values())

    def bindings_of(self, destination: Any) -> list[Binding]:
        """The bindings that lead to a queue or exchange."""
        return list(self._incoming.get(destination, ()))

    def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> Exchange:
        """The exchange of that name, made if need be; refuse if it exists otherwise."""
        _refuse_default(name)
        check_type(type)
        declared = (name, type, durable, auto_delete, internal)
        if name in self.exchanges:
            self._check_equivalent(self.exchanges[name], declared, arguments or {})
            return self.exchanges[name]
        check_new_name("exchange", name)
        return self.restore_exchange(*declared, arguments or {})

    def restore_exchange(
        self, name: str, type: str, durable: bool, auto_delete: bool, internal: bool, arguments: Mapping[str, Any]
    ) -> Exchange:
        """Add an exchange whose name was checked when it was declared."""
        if len(self.exchanges) >= EXCHANGES_MAX:
            raise TooMany(f"vhost '{self.name}' has {EXCHANGES_MAX} exchanges: delete some")
        canonical(arguments)
        alternate = arguments.get(ALTERNATE_EXCHANGE, "")
        if not isinstance(alternate, str):
            raise InvalidArgument(
                f"invalid type '{type_name(alternate)}' for arg '{ALTERNATE_EXCHANGE}' "
                f"in {described('exchange', name, self.name)}"
            )
        exchange = new_exchange(name, type, durable, auto_delete, internal, arguments)
        exchange.alternate = alternate_exchange(exchange.arguments, name, self.policies.values())
        if isinstance(exchange, LocalRandomExchange):
            exchange.is_local = self._is_local
        self.exchanges[name] = exchange
        self._changed()
        return exchange

    def delete_exchange(self, name: str, if_unused: bool = False) -> Removed:
        """Remove an exchange and its bindings; a missing one is no error."""
        _refuse_default(name)
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefused(f"deletion of system {described('exchange', name, self.name)} not allowed")
        exchange = self.exchanges.get(name)
        if exchange is None:
            return Removed([], [])
        if if_unused and exchange.bindings:
            raise PreconditionFailed(f"{described('exchange', name, self.name)} in use")
        return self._remove([exchange])

    def add_queue(self, queue: Any) -> None:
        """Make a queue reachable through the default exchange; the caller has checked its name."""
        check_name("queue", queue.name)
        if queue.name not in self.queues:
            self.queue_names.add(queue.name)
        self.queues[queue.name] = queue
        self.generation += 1

    def remove_queue(self, queue: Any) -> Removed:
        """Forget a queue and the bindings that lead to it."""
        del self.queues[queue.name]
        self.queue_names.remove(queue.name)
        self.generation += 1
        return self._remove_bindings(self.bindings_of(queue))

    def bind(
        self,
        source: str,
        destination: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        destination_type: str = "queue",
    ) -> Binding | None:
        """Bind a queue or exchange to an exchange; None when it is bound so already."""
        exchange, target = self._ends(source, destination, destination_type)
        check_key(key)
        if self._binding_count >= BINDINGS_MAX:
            raise TooMany(f"vhost '{self.name}' has {BINDINGS_MAX} bindings: remove some")
        binding = exchange.bind(target, key, arguments)
        if binding is not None:
            self._incoming.setdefault(target, {})[binding] = None
            self._binding_count += 1
            self._changed()
        return binding

    def unbind(
        self,
        source: str,
        destination: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        destination_type: str = "queue",
    ) -> Removed:
        try:
            exchange, target = self._ends(source, destination, destination_type)
        except (ExchangeNotFound, QueueNotFound):
            return Removed([], [])
        binding = exchange.unbind(target, key, arguments)
        return self._remove_bindings([] if binding is None else [binding])

    def set_policy(self, policy: Policy) -> None:
        """Add or replace a policy; the caller gives queues their new settings."""
        policies = self.operator_policies if policy.operator else self.policies
        if policy.name not in policies and len(policies) >= POLICIES_MAX:
            raise TooMany(f"vhost '{self.name}' has {POLICIES_MAX} policies: delete some")
        policies[policy.name] = policy
        self._refresh_alternates()

    def delete_policy(self, name: str, operator: bool = False) -> Policy | None:
        """Remove a policy; None when there was none."""
        removed = (self.operator_policies if operator else self.policies).pop(name, None)
        self._refresh_alternates()
        return removed

    def route(
        self,
        exchange: str,
        keys: Sequence[str],
        headers: Mapping[str, Any] | None = None,
        properties: object = None,
    ) -> list[Any]:
        """The queues of a message, each once, in binding order; the list is shared: do not change it."""
        if len(keys) == 1:
            remembered = self._routes.get((exchange, keys[0]))
            if remembered is not None:
                return remembered
        source = self.exchange(exchange)
        for key in keys:
            check_key(key)
        queues, cacheable = walk(source, self.exchanges, keys, headers, properties)
        if cacheable and len(keys) == 1:
            self._remember(exchange, keys[0], queues)
        return queues

    def open_exchange(self, name: str) -> Exchange:
        """The exchange of that name; one that takes messages of exchanges and dead letters only is refused."""
        found = self.exchange(name)
        if found.internal:
            raise AccessRefused(f"cannot publish to internal {described('exchange', name, self.name)}")
        return found

    def _remember(self, exchange: str, key: str, queues: list[Any]) -> None:
        """Keep a route until the topology changes."""
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        self._routes[exchange, key] = queues

    def _changed(self) -> None:
        """Forget all routes."""
        self.generation += 1
        self._routes.clear()

    def _ends(self, source: str, destination: str, destination_type: str) -> tuple[Exchange, Any]:
        """Both ends of a binding; the default exchange can be neither."""
        _refuse_default(source)
        if destination_type != "exchange":
            return self.exchange(source), self.queue(destination)
        _refuse_default(destination)
        return self.exchange(source), self.exchange(destination)

    def _check_equivalent(
        self, current: Exchange, declared: Sequence[str | bool], arguments: Mapping[str, Any]
    ) -> None:
        """Refuse to redeclare an exchange as another one."""
        where = described("exchange", current.name, self.name)
        for name, value in zip(DECLARED, declared, strict=True):
            check_property(name, where, value, getattr(current, name))
        for argument in current.compared:
            check_argument(argument, where, arguments, current.arguments)

    def _remove_bindings(self, bindings: list[Binding]) -> Removed:
        """Take bindings out; auto-delete exchanges go with their last one, and so on from them."""
        emptied = self._detach(bindings)
        also = self._remove(emptied)
        return Removed(bindings + also.bindings, also.exchanges)

    def _remove(self, exchanges: list[Exchange]) -> Removed:
        """Take exchanges out, with their bindings on both sides."""
        removed = Removed([], [])
        pending = list(exchanges)
        while pending:
            exchange = pending.pop()
            if self.exchanges.pop(exchange.name, None) is None:
                continue
            bindings = list(dict.fromkeys([*exchange.bindings.values(), *self.bindings_of(exchange)]))
            removed.exchanges.append(exchange)
            removed.bindings.extend(bindings)
            pending += self._detach(bindings)
            self._changed()
        return removed

    def _detach(self, bindings: list[Binding]) -> list[Exchange]:
        """Undo bindings at both ends; return the auto-delete exchanges that lost their last one."""
        emptied: dict[Exchange, None] = {}
        for binding in bindings:
            incoming = self._incoming[binding.destination]
            del incoming[binding]
            if not incoming:
                del self._incoming[binding.destination]
            self._binding_count -= 1
            source = self.exchanges.get(binding.source)
            if source is None:
                continue
            source.unbind(binding.destination, binding.key, binding.arguments)
            if source.auto_delete and not source.bindings:
                emptied[source] = None
        if bindings:
            self._changed()
        return list(emptied)

    def _refresh_alternates(self) -> None:
        """Give each exchange but the default one the alternate that arguments and policies now name."""
        for exchange in self.exchanges.values():
            if exchange.name:
                policies = self.policies.values()
                exchange.alternate = alternate_exchange(exchange.arguments, exchange.name, policies)
        self._changed()


class Topology:
    """The virtual hosts of a broker, "/" among them from the start."""

    def __init__(self) -> None:
        self.has_locally: Callable[[str, str], bool] = lambda vhost, queue: True
        """Whether this node of a cluster has the queue of that virtual host and name."""
        self.vhosts: dict[str, Vhost] = {}
        self.add_vhost("/")

    def vhost(self, name: str) -> Vhost:
        found = self.vhosts.get(name)
        if found is None:
            raise VhostNotFound(f"vhost {name} not found")
        return found

    def add_vhost(self, name: str) -> Vhost:
        """The virtual host of that name, made if need be."""
        if name not in self.vhosts:
            if len(self.vhosts) >= VHOSTS_MAX:
                raise TooMany(f"there are {VHOSTS_MAX} vhosts: delete some")
            self.vhosts[name] = Vhost(name, lambda queue: self.has_locally(name, queue.name))
        return self.vhosts[name]

    def remove_vhost(self, name: str) -> Vhost:
        """Forget a virtual host; the caller takes care of its queues."""
        removed = self.vhost(name)
        del self.vhosts[name]
        return removed


def _refuse_default(exchange: str) -> None:
    """Refuse to change what is fixed."""
    if not exchange:
        raise AccessRefused("operation not permitted on the default exchange")
