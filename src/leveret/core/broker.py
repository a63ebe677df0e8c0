"""The broker: the verbs on queues, exchanges, bindings and policies, each journaled as a definition.

Messages have their verbs in publish.pyx (in), queue.pyx and dispatch.pyx (out) and browse.pyx (looking).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from leveret.core import browse, deadletter
from leveret.core.arguments import ARGUMENTS, check_argument, check_equivalent, check_property, delay_ms, sent_delay_ms
from leveret.core.dead_lettering import Callbacks, DeadLetters
from leveret.core.definition_log import OF_VHOST, REMOVED, DefinitionLog, Kind, dumps
from leveret.core.engine import Engine
from leveret.core.errors import AccessRefused, PreconditionFailed, ResourceLocked, TooMany
from leveret.core.exchanges import Exchange
from leveret.core.held import Held
from leveret.core.names import INTERNAL_VHOST, check_new_name, described
from leveret.core.policy import Policy
from leveret.core.ports import UNROUTABLE, Journal
from leveret.core.properties import Properties, content
from leveret.core.publish import Publisher, route_of
from leveret.core.queue import Queue
from leveret.core.queue_types import STREAM, Lifetime, check_delete, check_lifetime, check_server_named, typed
from leveret.core.reservations import Reservations
from leveret.core.restore import Restorer
from leveret.core.streams import NoStreams
from leveret.core.tally import Counted, Tally
from leveret.core.timers import Alarm
from leveret.core.topology import Removed, Topology, Vhost, VhostDetails

QUEUES_MAX = 1_000_000  # each costs memory for as long as it exists
HOUR_MS = 3_600_000


def next_hour_ms(now_ms: int) -> int:
    """When the next hour begins."""
    return (now_ms // HOUR_MS + 1) * HOUR_MS


class Published(NamedTuple):
    """What became of a message: its number (0: no queue has it), whether it was routed, whether a queue refused it."""

    seq: int
    routed: bool
    refused: bool


class Broker:
    """Every operation of the broker; single-threaded, and `tick` tells it the time.

    `engine` has numbers, time and journal, `publisher` puts messages into queues, `dead_letters` publishes them again,
    `log` journals definitions, and `restorer` is what a journal is read back into.
    """

    def __init__(self, journal: Journal, tag: int = 0, *, restorer_class: type[Restorer] = Restorer) -> None:
        """Start empty; a durable journal replays into it."""
        self.topology = Topology()
        self.engine = Engine(journal, tag)
        self.publisher = Publisher(self.engine)
        self.dead_letters = DeadLetters(self.publisher, self.topology)
        self.engine.callbacks = Callbacks(self.dead_letters, self._delete_unused)
        self.restorer = restorer_class(self.engine)
        self.log = self.restorer.definitions = DefinitionLog(self.restorer, self.topology, self._check_strategy)
        self.restorer.on_recovered = self._recovered
        self.engine.name_consumer = self.log.define_consumer
        self.journal = journal
        self.queues = self.restorer.queues
        self.catalog, self.kinds = self.log.catalog, self.log.kinds
        self.define, self.undefine = self.log.define, self.log.undefine
        self.tick, self.take_dirty = self.engine.tick, self.engine.take_dirty
        self.send, self.send_many, self.publish = self.publisher.send, self.publisher.send_many, self.publisher.publish
        self.streams = NoStreams()
        self.reservations = Reservations(self)
        self.counted = Counted()
        self._hourly = Alarm(self.engine.timers, self._count_hourly)
        self.departed: defaultdict[str, Tally] = defaultdict(Tally)  # what deleted queues have counted, by their type
        self.leaving = False  # to be opened elsewhere: no queue goes because its consumers do
        self.gone: Callable[[Queue], None] | None = None  # called with every queue that is deleted
        self.away: deadletter.Away | None = None  # has what is moved to queues of other brokers
        self.kept: Callable[[Queue, int], Held | None] | None = None  # gives what is kept for old receipts
        self.falls_back: Callable[[Queue], None] | None = None  # called with queues that cannot hold dead letters

    @property
    def now_ms(self) -> int:
        """The latest time seen."""
        return self.engine.now_ms

    @property
    def tag(self) -> int:
        """The broker's part of message ids."""
        return self.engine.tag

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do next."""
        return self.engine.next_deadline_ms

    # -- queues

    def declare_queue(
        self,
        vhost: str,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        durable: bool = True,
        auto_delete: bool = False,
        owner: object = None,
        server_named: bool = False,
        created_ms: int = 0,
    ) -> Queue:
        """The queue of that name, made if need be; refuse if it exists otherwise.

        `server_named`: the name is not a client's choice, and may be of the reserved ones. `created_ms`: when it was
        declared, if that was not now.
        """
        virtual_host = self.topology.vhost(vhost)
        existing: Queue | None = virtual_host.queues.get(name)
        lasting = durable and owner is None and not auto_delete
        arguments = typed(virtual_host.details.default_queue_type, existing, arguments, lasting=lasting)
        if existing is not None:
            self.check_owner(existing, owner)
            where = described("queue", name, vhost)
            check_property("durable", where, durable and owner is None, existing.durable)
            check_property("auto_delete", where, auto_delete, existing.auto_delete)
            check_equivalent(existing.arguments or {}, arguments or {}, name, vhost)
            existing.use()
            return existing
        check_server_named(arguments) if server_named else check_new_name("queue", name)
        if len(self.queues) >= QUEUES_MAX:
            raise TooMany(f"there are {QUEUES_MAX} queues: delete some")
        kind = self.kinds.of(arguments, name, vhost)
        check_lifetime(kind.queue_type, Lifetime(durable, auto_delete, owner is not None), name, vhost)
        self.log.last_queue_id += 1
        queue = Queue(
            self.engine, self.log.last_queue_id, virtual_host.name, name,
            kind.policy_in(virtual_host, name), kind.arguments,
            durable=durable and owner is None, auto_delete=auto_delete, owner=owner,
        )  # fmt: skip
        queue.created_ms = created_ms or self.now_ms
        if kind.queue_type == STREAM:
            queue.recorder = self.streams.recorder_of(queue)
        self._add_queue(virtual_host, queue)
        return queue

    def check_owner(self, queue: Queue, owner: object) -> None:
        """Refuse to declare an exclusive queue of another connection, or one's own as not exclusive."""
        if queue.owner is not owner:
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked {described('queue', queue.name, queue.vhost)}. It could be "
                "originally declared on another connection or the exclusive property value does not match that of the "
                "original declaration."
            )

    def delete_queue(self, queue: Queue, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue with everything in it; give the number of ready messages that it had."""
        check_delete(queue, if_unused, if_empty)
        where = described("queue", queue.name, queue.vhost)
        if if_unused and queue.consumers:
            raise PreconditionFailed(f"{where} in use")
        if if_empty and queue.depth:
            raise PreconditionFailed(f"{where} not empty")
        count = queue.depth
        if queue.recorder is None:
            browse.purge(queue, True)
            self.reservations.delete_queue(queue)
        if queue.durable or self.log.is_copy:
            self.journal.defined(
                Kind.QUEUE | REMOVED, dumps({"id": queue.id, "vhost": queue.vhost, "name": queue.name})
            )
        if self.catalog.get(Kind.QUEUE_DETAILS, vhost=queue.vhost, name=queue.name):
            self.undefine(Kind.QUEUE_DETAILS, {"vhost": queue.vhost, "name": queue.name})
        self._forget(self.topology.vhost(queue.vhost).remove_queue(queue), queue.vhost)
        self._drop_queue(queue)
        if self.journal.history:
            self.counted.note_queue(self.engine, queue)
        if queue.recorder is not None:
            self.streams.drop(queue)
        return count

    def change_queue(self, queue: Queue, arguments: Mapping[str, Any]) -> None:
        """Give a queue other arguments; those that no policy can set must stay as they are."""
        where = described("queue", queue.name, queue.vhost)
        for row in ARGUMENTS.values():
            if not row.by_policy and not row.changeable:
                check_argument(row.name, where, arguments, queue.arguments or {})
        kind = self.kinds.of(arguments, queue.name, queue.vhost)
        queue.change(kind.arguments, kind.policy_in(self.topology.vhost(queue.vhost), queue.name))
        queue.enforce()
        self.log.define_queue(queue)
        self._check_strategy(queue)
        self.dead_letters.retry_soon()

    def pause_queue(self, queue: Queue, paused: bool) -> None:
        """Stop or resume handing out messages of a queue, also after a restart."""
        if queue.paused != paused:
            queue.pause(paused)
            self.log.define_queue(queue)

    def nack(self, queue: Queue, held: Held, lease: int, wait_ms: int | None = None, random: float = 0.0) -> None:
        """Give a message back; without `wait_ms` after the backoff of its queue."""
        if wait_ms is None:
            wait_ms = delay_ms(queue.policy.backoff, held.deliveries, random)
        queue.nack(held, lease, wait_ms)

    # -- exchanges, bindings, policies

    def declare_vhost(self, name: str, details: VhostDetails | None = None) -> Vhost:
        """The virtual host of that name, made if need be; `details` take the place of those that it has."""
        known = name in self.topology.vhosts
        virtual_host = self.topology.add_vhost(name)
        if not known or details not in (None, virtual_host.details):
            virtual_host.details = details or virtual_host.details
            self.define(Kind.VHOST, virtual_host.to_dict())
        return virtual_host

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with everything in it, and all that is said about it."""
        if name == "/":
            raise AccessRefused("vhost '/' is always there: delete what is in it instead")
        virtual_host = self.topology.vhost(name)
        for queue in list(virtual_host.queues.values()):
            self.delete_queue(queue)
        for exchange in [each for each in virtual_host.exchanges if each and not each.startswith("amq.")]:
            self.delete_exchange(name, exchange)
        for policy in [*virtual_host.policies.values(), *virtual_host.operator_policies.values()]:
            self.delete_policy(name, policy.name, policy.operator)
        for kind in OF_VHOST:
            for definition in [each for each in self.catalog.of(kind) if each["vhost"] == name]:
                self.undefine(kind, definition)
        self.topology.remove_vhost(name)
        self.undefine(Kind.VHOST, {"name": name})

    def declare_exchange(
        self,
        vhost: str,
        name: str,
        type: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> Exchange:
        """The exchange of that name, made if need be; refuse if it exists otherwise."""
        virtual_host = self.topology.vhost(vhost)
        known = name in virtual_host.exchanges
        exchange = virtual_host.declare_exchange(name, type, durable, auto_delete, internal, arguments)
        if (durable or self.log.is_copy) and not known:
            self.define(Kind.EXCHANGE, {"vhost": virtual_host.name, **exchange.to_dict()})
        return exchange

    def delete_exchange(self, vhost: str, name: str, if_unused: bool = False) -> None:
        self._forget(self.topology.vhost(vhost).delete_exchange(name, if_unused), vhost)

    def bind(
        self,
        vhost: str,
        source: str,
        destination: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        destination_type: str = "queue",
    ) -> None:
        virtual_host = self.topology.vhost(vhost)
        binding = virtual_host.bind(source, destination, key, arguments, destination_type)
        if binding is None:
            return
        self.dead_letters.retry_soon()
        if self.log.is_copy or (virtual_host.exchange(source).durable and binding.destination.durable):
            self.define(Kind.BINDING, {"vhost": vhost, **binding.to_dict()})

    def unbind(
        self,
        vhost: str,
        source: str,
        destination: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        destination_type: str = "queue",
    ) -> None:
        """Remove a binding; a missing one is no error."""
        self._forget(self.topology.vhost(vhost).unbind(source, destination, key, arguments, destination_type), vhost)

    def set_policy(self, vhost: str, policy: Policy) -> None:
        """Add or replace a policy, and give every queue the settings that it now has."""
        virtual_host = self.topology.vhost(vhost)
        virtual_host.set_policy(policy)
        self.define(Kind.POLICY, {"vhost": vhost, **policy.to_dict()})
        self.log.apply_policies(virtual_host)
        self._enforce_limits(virtual_host)
        self.dead_letters.retry_soon()

    def delete_policy(self, vhost: str, name: str, operator: bool = False) -> None:
        """Remove a policy; a missing one is no error."""
        virtual_host = self.topology.vhost(vhost)
        removed = virtual_host.delete_policy(name, operator)
        if removed is not None:
            self.undefine(Kind.POLICY, {"vhost": vhost, "name": name, "operator": operator})
            self.log.apply_policies(virtual_host)
            self._enforce_limits(virtual_host)
            self.dead_letters.retry_soon()

    # -- publishing through an exchange

    def publish_through(
        self, vhost: str, exchange: str, routing_key: str, properties: Properties, body: bytes, **options: Any
    ) -> Published:
        """Route a message by an exchange and publish it; `options` are those of Publisher.publish."""
        queues = self.route_through(vhost, exchange, routing_key, properties)
        if not queues:
            self.engine.refused(UNROUTABLE, len(body), exchange)
            return Published(0, routed=False, refused=False)
        seq = self.publish_routed(queues, exchange, routing_key, properties, body, **options)
        return Published(seq, routed=True, refused=seq == 0)

    def route_through(self, vhost: str, exchange: str, routing_key: str, properties: Properties) -> list[Queue]:
        """The queues that an exchange gives a message to; the list is shared: do not change it."""
        headers = properties.headers
        keys = deadletter.all_keys(properties, routing_key) if headers else [routing_key]
        virtual_host = self.topology.vhost(vhost)
        virtual_host.open_exchange(exchange)
        return virtual_host.route(exchange, keys, headers, properties)

    def publish_routed(
        self, queues: list[Queue], exchange: str, routing_key: str, properties: Properties, body: bytes, **options: Any
    ) -> int:
        """Publish a message to the queues that its exchange gave; 0 when one of them refused."""
        headers = properties.headers
        if headers and "BCC" in headers:
            properties = replace(properties, headers={name: value for name, value in headers.items() if name != "BCC"})
        if headers and self.topology.vhost(queues[0].vhost).exchanges[exchange].delays and not options.get("due_ms"):
            options["due_ms"] = self.now_ms + sent_delay_ms(headers.get("x-delay", 0))
        wire, header_len = content(properties, body)
        return self.publish(queues, route_of(exchange, routing_key), wire, header_len, **options)

    def _recovered(self) -> None:
        """What needs all queues, after a replay."""
        self.reservations.restore()
        self.dead_letters.find_held(self.queues)
        if self.journal.history:
            self.journal.started(self.engine.last_seq, self.counted.begin(self.engine))
            self._hourly.set(next_hour_ms(self.now_ms))

    def count(self) -> None:
        """Note for history what the queues have counted since it was noted last."""
        if self.journal.history:
            self.counted.note(self.engine, self.queues.values())

    def _count_hourly(self, now_ms: int) -> None:
        self.count()
        self._hourly.set(next_hour_ms(now_ms))

    def _delete_unused(self, queue: Queue) -> None:
        """Delete a queue that expired or whose last consumer left; a copy of definitions does not see consumers.

        One of which messages are reserved does not expire.
        """
        if self.log.is_copy or self.leaving:
            return
        if not queue.auto_delete and any(group.current is not None for group in self.reservations.of(queue)):
            queue.use()
            queue.apply(queue.policy)  # which sets the time of the next look
        else:
            self.delete_queue(queue)

    # -- what goes along with the verbs

    def _forget(self, removed: Removed, vhost: str) -> None:
        """Journal what a removal took with it."""
        for binding in removed.bindings:
            self.undefine(Kind.BINDING, {"vhost": vhost, **binding.to_dict()})
        for exchange in removed.exchanges:
            self.undefine(Kind.EXCHANGE, {"vhost": vhost, "name": exchange.name})

    def _add_queue(self, virtual_host: Vhost, queue: Queue) -> None:
        self.queues[queue.id] = queue
        virtual_host.add_queue(queue)
        self.dead_letters.retry_soon()
        self.log.define_queue(queue)
        self._check_strategy(queue)

    def _check_strategy(self, queue: Queue) -> None:
        """Tell of a queue that asks for at-least-once dead-lettering and drops its oldest messages: not both."""
        asks = queue.policy.dead_letter_strategy == "at-least-once" and queue.policy.dead_letter_exchange is not None
        if asks and not queue.policy.holds_dead_letters and self.falls_back is not None:
            self.falls_back(queue)

    def _drop_queue(self, queue: Queue) -> None:
        del self.queues[queue.id]
        if queue.vhost != INTERNAL_VHOST:
            self.departed[queue.policy.queue_type].keep(queue)
        queue.retire()
        for consumer in queue.consumers or []:
            consumer.cancelled()
        if self.gone is not None:
            self.gone(queue)

    def _enforce_limits(self, virtual_host: Vhost) -> None:
        for queue in virtual_host.queues.values():
            queue.enforce()
