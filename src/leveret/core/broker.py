"""The broker: the verbs on queues, exchanges, bindings and policies, each journaled as a definition.

Messages have their verbs in publish.pyx (in), queue.pyx and dispatch.pyx (out) and browse.pyx (looking).
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core import browse, deadletter
from leveret.core.arguments import ARGUMENTS, check_equivalent, sent_delay_ms
from leveret.core.backoff import delay_ms
from leveret.core.catalog import OF_VHOST, REMOVED, Catalog, Kind, dumps, key_of
from leveret.core.declared import Kinds
from leveret.core.definitions import restore_binding, restore_exchange, restore_policy
from leveret.core.equivalence import check_argument, check_property
from leveret.core.errors import AccessRefused, PreconditionFailed, ResourceLocked, TooMany
from leveret.core.exchanges import Exchange
from leveret.core.held import Held
from leveret.core.jsonable import decode
from leveret.core.names import check_new_name, described
from leveret.core.policy import Policy
from leveret.core.ports import Journal
from leveret.core.properties import Properties, content
from leveret.core.publish import Publisher, route_of
from leveret.core.queue import Queue
from leveret.core.queue_types import STREAM, Lifetime, check_delete, check_lifetime, check_server_named, typed
from leveret.core.reservations import Reservations
from leveret.core.restore import waiting_numbers
from leveret.core.streams import NoStreams
from leveret.core.tally import Tally
from leveret.core.topology import Removed, Topology, Vhost, VhostDetails

if TYPE_CHECKING:
    from leveret.core.streams import Streams

QUEUES_MAX = 1_000_000  # each costs memory for as long as it exists
RECOVERED = "leveret.recovered."  # and the number of a queue whose name was lost
RECOVERED_ARGUMENTS = {"x-max-priority": 255}  # its messages keep the priorities that they had


class Published(NamedTuple):
    """What became of a message: its number (0: no queue has it), whether it was routed, whether a queue refused it."""

    seq: int
    routed: bool
    refused: bool


class Broker(Publisher):
    """Every verb of the broker; single-threaded, and `advance` tells it the time."""

    def __init__(self, journal: Journal, tag: int = 0) -> None:
        """Start empty; a durable journal replays into it."""
        super().__init__(journal, tag)
        self.topology = Topology()
        self.catalog = Catalog()
        self.kinds = Kinds()
        self.streams: Streams = NoStreams()
        self.reservations = Reservations(self)
        self.last_queue_id = 0
        self.departed: defaultdict[str, Tally] = defaultdict(Tally)  # what deleted queues have counted, by their type
        self.is_copy = False  # of the definitions of others: also what does not last is journaled, and nothing expires
        self.leaving = False  # to be opened elsewhere: no queue goes because its consumers do
        self.gone: Callable[[Queue], None] | None = None  # is told of every queue that is deleted
        self.outbox: deadletter.Outbox | None = None  # has the dead letters for queues of other brokers
        self.away: deadletter.Away | None = None  # has what is moved to queues of other brokers
        self.kept: Callable[[Queue, int], Held | None] | None = None  # gives what is kept for old receipts
        self.salvage = False  # whether queues that lost their definition are kept under another name

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
    ) -> Queue:
        """The queue of that name, made if need be; refuse if it exists otherwise.

        `server_named`: the name is not a client's choice, and may be of the reserved ones.
        """
        home = self.topology.vhost(vhost)
        existing: Queue | None = home.queues.get(name)
        lasting = durable and owner is None and not auto_delete
        arguments = typed(home.details.default_queue_type, existing, arguments, lasting=lasting)
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
        self.last_queue_id += 1
        queue = Queue(
            self, self.last_queue_id, home.name, name, kind.policy_in(home, name), kind.arguments,
            durable=durable and owner is None, auto_delete=auto_delete, owner=owner,
        )  # fmt: skip
        if kind.queue_type == STREAM:
            queue.recorder = self.streams.recorder_of(queue)
        self._add_queue(home, queue)
        return queue

    def check_use(self, queue: Queue, user: object) -> None:
        """Refuse the use of somebody else's exclusive queue."""
        if queue.owner is not None:
            self.check_owner(queue, user)

    def check_owner(self, queue: Queue, owner: object) -> None:
        """Refuse to declare somebody else's exclusive queue, or one's own as if it were everybody's."""
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
        if queue.durable or self.is_copy:
            self.journal.defined(
                Kind.QUEUE | REMOVED, dumps({"id": queue.id, "vhost": queue.vhost, "name": queue.name})
            )
        if self.catalog.get(Kind.QUEUE_DETAILS, vhost=queue.vhost, name=queue.name):
            self.undefine(Kind.QUEUE_DETAILS, {"vhost": queue.vhost, "name": queue.name})
        self._forget(self.topology.vhost(queue.vhost).remove_queue(queue), queue.vhost)
        self._drop_queue(queue)
        if queue.recorder is not None:
            self.streams.drop(queue)
        return count

    def change_queue(self, queue: Queue, arguments: Mapping[str, Any]) -> None:
        """Give a queue other arguments; those that no policy can set must stay as they are."""
        where = described("queue", queue.name, queue.vhost)
        for row in ARGUMENTS.values():
            if not row.by_policy:
                check_argument(row.name, where, arguments, queue.arguments or {})
        kind = self.kinds.of(arguments, queue.name, queue.vhost)
        queue.change(kind.arguments, kind.policy_in(self.topology.vhost(queue.vhost), queue.name))
        queue.enforce()
        self._define_queue(queue)

    def pause_queue(self, queue: Queue, paused: bool) -> None:
        """Stop or resume handing out messages of a queue, also after a restart."""
        if queue.paused != paused:
            queue.pause(paused)
            self._define_queue(queue)

    def nack(self, queue: Queue, held: Held, lease: int, wait_ms: int | None = None, random: float = 0.0) -> None:
        """Give a message back; without `wait_ms` after the backoff of its queue."""
        if wait_ms is None:
            wait_ms = delay_ms(queue.policy.backoff, held.deliveries, random)
        queue.nack(held, lease, wait_ms)

    # -- exchanges, bindings, policies

    def declare_vhost(self, name: str, details: VhostDetails | None = None) -> Vhost:
        """The virtual host of that name, made if need be; `details` take the place of those that it has."""
        known = name in self.topology.vhosts
        home = self.topology.add_vhost(name)
        if not known or details not in (None, home.details):
            home.details = details or home.details
            self.define(Kind.VHOST, home.to_dict())
        return home

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with everything in it, and all that is said about it."""
        if name == "/":
            raise AccessRefused("vhost '/' is always there: delete what is in it instead")
        home = self.topology.vhost(name)
        for queue in list(home.queues.values()):
            self.delete_queue(queue)
        for exchange in [each for each in home.exchanges if each and not each.startswith("amq.")]:
            self.delete_exchange(name, exchange)
        for policy in [*home.policies.values(), *home.operator_policies.values()]:
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
        home = self.topology.vhost(vhost)
        known = name in home.exchanges
        exchange = home.declare_exchange(name, type, durable, auto_delete, internal, arguments)
        if (durable or self.is_copy) and not known:
            self.define(Kind.EXCHANGE, {"vhost": home.name, **exchange.to_dict()})
        return exchange

    def delete_exchange(self, vhost: str, name: str, if_unused: bool = False) -> None:
        """Delete an exchange and its bindings."""
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
        """Bind a queue or exchange to an exchange."""
        home = self.topology.vhost(vhost)
        binding = home.bind(source, destination, key, arguments, destination_type)
        if binding is None:
            return
        if self.is_copy or (home.exchange(source).durable and binding.destination.durable):
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
        home = self.topology.vhost(vhost)
        home.set_policy(policy)
        self.define(Kind.POLICY, {"vhost": vhost, **policy.to_dict()})
        self._apply_policies(home)
        self._enforce_limits(home)

    def delete_policy(self, vhost: str, name: str, operator: bool = False) -> None:
        """Remove a policy; a missing one is no error."""
        home = self.topology.vhost(vhost)
        removed = home.delete_policy(name, operator)
        if removed is not None:
            self.undefine(Kind.POLICY, {"vhost": vhost, "name": name, "operator": operator})
            self._apply_policies(home)
            self._enforce_limits(home)

    # -- publishing through an exchange

    def publish_through(
        self, vhost: str, exchange: str, routing_key: str, properties: Properties, body: bytes, **options: Any
    ) -> Published:
        """Route a message by an exchange and publish it; `options` are those of Publisher.publish."""
        queues = self.route_through(vhost, exchange, routing_key, properties)
        if not queues:
            return Published(0, routed=False, refused=False)
        seq = self.publish_routed(queues, exchange, routing_key, properties, body, **options)
        return Published(seq, routed=True, refused=seq == 0)

    def route_through(self, vhost: str, exchange: str, routing_key: str, properties: Properties) -> list[Queue]:
        """The queues that an exchange gives a message to; the list is shared: do not change it."""
        headers = properties.headers
        keys = deadletter.all_keys(properties, routing_key) if headers else [routing_key]
        home = self.topology.vhost(vhost)
        home.open_exchange(exchange)
        return home.route(exchange, keys, headers, properties)

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

    # -- definitions in the journal

    def define(self, kind: Kind, definition: dict[str, Any]) -> None:
        """Journal a definition, new or in place of the one with the same key."""
        payload = dumps(definition)
        self.catalog.put(kind, key_of(kind, definition), self.journal.defined(kind, payload), payload)

    def undefine(self, kind: Kind, definition: dict[str, Any]) -> None:
        """Journal that a definition is gone, if it was journaled; its key is enough."""
        if self.catalog.drop(kind, key_of(kind, definition)):
            self.journal.defined(kind | REMOVED, dumps(definition))

    def define_consumer(self, name: str, number: int) -> None:
        """Journal the name of a consumer, so that the log can be read without the broker."""
        self.define(Kind.CONSUMER, {"name": name, "number": number})

    def _define_queue(self, queue: Queue) -> None:
        if queue.durable or self.is_copy:
            queue.segment = self.journal.defined(Kind.QUEUE, dumps(self._describe(queue)))

    def _describe(self, queue: Queue) -> dict[str, Any]:
        """The definition of a queue, fit for JSON."""
        definition: dict[str, Any] = {"id": queue.id, "vhost": queue.vhost, "name": queue.name}
        if queue.arguments:
            definition["arguments"] = self.kinds.of(queue.arguments, queue.name, queue.vhost).stored
        if queue.auto_delete:
            definition["auto_delete"] = True
        if queue.paused:
            definition["paused"] = True
        return definition

    def _forget(self, removed: Removed, vhost: str) -> None:
        """Journal what a removal took with it."""
        for binding in removed.bindings:
            self.undefine(Kind.BINDING, {"vhost": vhost, **binding.to_dict()})
        for exchange in removed.exchanges:
            self.undefine(Kind.EXCHANGE, {"vhost": vhost, "name": exchange.name})

    def _add_queue(self, home: Vhost, queue: Queue) -> None:
        self.queues[queue.id] = queue
        home.add_queue(queue)
        self._define_queue(queue)

    def _drop_queue(self, queue: Queue) -> None:
        del self.queues[queue.id]
        self.departed[queue.policy.queue_type].keep(queue)
        queue.retire()
        for consumer in queue.consumers or []:
            consumer.cancelled()
        if self.gone is not None:
            self.gone(queue)

    def _apply_policies(self, home: Vhost) -> None:
        for queue in home.queues.values():
            policy = self.kinds.of(queue.arguments, queue.name, home.name).policy_in(home, queue.name)
            if policy is not queue.policy:
                queue.apply(policy)

    def _enforce_limits(self, home: Vhost) -> None:
        for queue in home.queues.values():
            queue.enforce()

    # -- coming back

    def replay_definition(self, what: int, payload: bytes, segment: int) -> None:
        """See State."""
        kind = what & ~REMOVED
        definition = json.loads(payload)
        if kind == Kind.QUEUE and what & REMOVED:
            self._restore_absence(definition["id"])
        elif kind == Kind.QUEUE:
            self._restore_queue(definition, segment)
        elif what & REMOVED:
            self.catalog.drop(kind, key_of(kind, definition))
            self._replay_removal(kind, definition)
        else:
            self.catalog.put(kind, key_of(kind, definition), segment, payload)
            self._replay_setting(kind, definition)

    def _replay_setting(self, kind: int, definition: dict[str, Any]) -> None:
        """Policies act at once: they decide when the messages that are replayed after them are due and expire."""
        if kind == Kind.VHOST:
            self.topology.add_vhost(definition["name"]).details = VhostDetails.from_dict(definition)
        elif kind == Kind.POLICY:
            home = self.topology.add_vhost(definition["vhost"])
            restore_policy(home, definition)
            self._apply_policies(home)

    def _replay_removal(self, kind: int, definition: dict[str, Any]) -> None:
        """The reverse of _replay_setting."""
        if kind == Kind.VHOST:
            self.topology.vhosts.pop(definition["name"], None)
        elif kind == Kind.POLICY:
            home = self.topology.add_vhost(definition["vhost"])
            home.delete_policy(definition["name"], definition["operator"])
            self._apply_policies(home)

    def _restore_absence(self, number: int) -> None:
        """A queue was deleted."""
        self.undefined.pop(number, None)
        gone = self.queues.pop(number, None)
        if gone is not None:
            self.topology.vhost(gone.vhost).remove_queue(gone)
            gone.retire()

    def _restore_queue(self, definition: dict[str, Any], segment: int) -> None:
        """Make a queue, or name the one whose messages came before its definition."""
        number, name, vhost = definition["id"], definition["name"], definition["vhost"]
        arguments = definition.get("arguments")
        kind = self.kinds.of(decode(arguments) if arguments else None, name, vhost)
        home = self.topology.add_vhost(vhost)
        queue = self.queues.get(number) or self.undefined.pop(number, None)
        if queue is None or not queue.name:
            policy = kind.policy_in(home, name)
            auto_delete = definition.get("auto_delete", False)
            if queue is None:
                queue = Queue(self, number, vhost, name, policy, kind.arguments, auto_delete=auto_delete)
            else:
                # Its messages may be older than the policies, but never older than the arguments.
                self.adopt(queue, vhost, name, kind.policy, kind.arguments, auto_delete)
                queue.apply(policy)
            home.add_queue(queue)
        elif queue.arguments != kind.arguments:
            queue.change(kind.arguments, kind.policy_in(home, name))
        queue.segment = segment
        queue.pause(definition.get("paused", False))
        self.queues[number] = queue
        self.last_queue_id = max(self.last_queue_id, number)

    def recovered(self, now_ms: int) -> dict[int, int]:
        """See State."""
        for definition in self.catalog.of(Kind.EXCHANGE):
            restore_exchange(self.topology.vhost(definition["vhost"]), definition)
        for definition in self.catalog.of(Kind.BINDING):
            restore_binding(self.topology.vhost(definition["vhost"]), definition)
        for definition in self.catalog.of(Kind.NUMBERS):
            self.restore_numbers(definition["last_seq"], now_ms)
            self.last_queue_id = max(self.last_queue_id, definition["last_queue_id"])
        for definition in self.catalog.of(Kind.CONSUMER):
            self.consumer_ids[definition["name"]] = definition["number"]
        if self.salvage:
            self._name_undefined()
        live = super().recovered(now_ms)
        self.reservations.restore()
        return live

    def _name_undefined(self) -> None:
        """Keep messages of queues whose definition was damaged; the operator moves them to where they belong."""
        for number in sorted(self.undefined):
            if waiting_numbers(self.undefined[number]):
                name = f"{RECOVERED}{number}"
                self._restore_queue({"id": number, "vhost": "/", "name": name, "arguments": RECOVERED_ARGUMENTS}, 0)
            else:
                self._restore_absence(number)

    def define_recovered(self) -> None:
        """Journal the queues that were named just now."""
        for queue in self.queues.values():
            if queue.segment == 0 and queue.name.startswith(RECOVERED):
                self._define_queue(queue)

    def definitions(self) -> dict[str, Any]:
        """Everything that is defined, for a snapshot."""
        queues = [[queue.segment, self._describe(queue)] for queue in self.queues.values() if queue.durable]
        return {"queues": queues, "catalog": self.catalog.to_rows(), "last_queue_id": self.last_queue_id}

    def restore_definitions(self, stored: dict[str, Any]) -> None:
        """The reverse of definitions."""
        self.catalog.from_rows(stored["catalog"])
        for kind in (Kind.VHOST, Kind.POLICY):
            for definition in self.catalog.of(kind):
                self._replay_setting(kind, definition)
        for segment, definition in stored["queues"]:
            self._restore_queue(definition, segment)
        self.last_queue_id = max(self.last_queue_id, stored["last_queue_id"])

    def relocate_definitions(self, segment: int) -> None:
        """Journal again what is defined, and which keys are remembered, in a segment that is about to go."""
        self.define(Kind.NUMBERS, {"last_seq": self.last_seq, "last_queue_id": self.last_queue_id})
        for kind, key, payload in self.catalog.in_segment(segment):
            self.catalog.put(kind, key, self.journal.defined(kind, payload), payload)
        for queue in self.queues.values():
            if queue.segment == segment:
                self._define_queue(queue)
            if queue.dedup:
                self._relocate_keys(queue, segment)

    def _relocate_keys(self, queue: Queue, segment: int) -> None:
        queue.dedup.forget(self.now_ms - queue.policy.dedup_window_ms)
        for key, seq, at_ms, place in list(queue.dedup.rows()):
            if place == segment:
                queue.dedup.replace(key, seq, at_ms, self.journal.deduplicated(queue.id, key, seq, at_ms))
