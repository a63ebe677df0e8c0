"""The definitions of a broker in its journal: written when something changes, played again when it is opened.

Definitions as the journal keeps them: small JSON objects by kind and key, each in some segment.

Queues are not in here: their own objects know everything. During a replay definitions may come in any order (old ones
are copied forward when their segment goes), so they are collected first and built in the order of Kind.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from leveret.core.arguments import queue_type_of, usable
from leveret.core.exchanges import DECLARED, Binding, Exchange
from leveret.core.jsonable import canonical, encode, restored
from leveret.core.policy import Policy, QueuePolicy, effective
from leveret.core.queue import Queue
from leveret.core.restore import Restorer, waiting_numbers
from leveret.core.topology import Topology, Vhost, VhostDetails

REMOVED = 0x80  # added to the kind when something is removed


class Kind(IntEnum):
    """What a definition is about, in the order in which they are built."""

    VHOST = 1
    EXCHANGE = 2
    QUEUE = 3
    BINDING = 4
    POLICY = 5
    CONSUMER = 6
    NUMBERS = 7
    """How far messages and queues are numbered: kept even when nothing numbered is left."""
    USER = 8
    PERMISSION = 9
    TOPIC_PERMISSION = 10
    VHOST_LIMITS = 11
    API_KEY = 12
    GLOBAL_PARAMETER = 13
    ACCESS_KEY = 14
    QUEUE_DETAILS = 15
    """What an edge knows about a queue beside its arguments; goes with the queue."""
    MOVE_TASK = 16
    CONSUMER_GROUP = 17
    GROUP_OFFSET = 18
    DELETED_QUEUE = 19
    """The name of a queue that an edge has deleted, and when: some edges do not allow it again at once."""
    LOGOUT = 20
    """A session of a browser that has ended before its time, for the nodes of a cluster."""
    SINK_BATCH = 24
    """A batch that was decided on: how to publish it while that goes on, then that it was published."""
    SINK_PROGRESS = 25
    """How much of such a batch is published; in the commit batch of what was published last."""
    RESERVATION = 30
    ALERT_RULE = 31
    ALERT_RECEIVER = 32
    ALERT_SILENCE = 33
    EXCLUSIVE_CONSUMER = 34
    """The consumer that alone is given the messages of a queue, for the next owner of a shard."""
    HANDOVER = 35
    """That messages are in the journal which are not persistent, for the next owner of a shard."""
    FOLLOWED = 36
    """The version of the definitions of its cluster that a shard has followed."""


OF_VHOST = (
    Kind.PERMISSION,
    Kind.TOPIC_PERMISSION,
    Kind.VHOST_LIMITS,
    Kind.CONSUMER_GROUP,
    Kind.GROUP_OFFSET,
    Kind.SINK_BATCH,
    Kind.SINK_PROGRESS,
    Kind.EXCLUSIVE_CONSUMER,
    Kind.DELETED_QUEUE,
)
"""What goes with its virtual host, and that nothing in the topology knows."""

_IDENTIFYING = ("vhost", "name", "operator", "user", "exchange", "stream", "partition", "batch", "queue")


def dumps(definition: dict[str, Any]) -> bytes:
    """A definition as bytes; equal ones give equal bytes."""
    return json.dumps(definition, separators=(",", ":"), sort_keys=True).encode()


class Catalog:
    """Every definition but those of queues."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, bytes], tuple[int, bytes]] = {}
        self.versions: Counter[int] = Counter()
        """By kind: another number after each definition, for those who remember what definitions say."""

    def put(self, kind: int, key: bytes, segment: int, payload: bytes) -> None:
        self._rows[kind, key] = (segment, payload)
        self.versions[kind] += 1

    def drop(self, kind: int, key: bytes) -> bool:
        """Forget a definition; False when there is none, as of what does not last."""
        return self._rows.pop((kind, key), None) is not None

    def get(self, kind: Kind, **key: Any) -> dict[str, Any] | None:
        row = self._rows.get((kind, key_of(kind, key)))
        return None if row is None else json.loads(row[1])

    def of(self, kind: Kind) -> Iterator[dict[str, Any]]:
        return (json.loads(payload) for (each, _), (_, payload) in self._rows.items() if each == kind)

    def in_segment(self, segment: int) -> list[tuple[int, bytes, bytes]]:
        """Kind, key and payload of what lies in a segment."""
        return [(kind, key, row[1]) for (kind, key), row in self._rows.items() if row[0] == segment]

    def to_rows(self) -> list[list[Any]]:
        """Everything, fit for JSON."""
        return [[kind, key.decode(), *(row[0], row[1].decode())] for (kind, key), row in self._rows.items()]

    def from_rows(self, rows: list[list[Any]]) -> None:
        for kind, key, segment, payload in rows:
            self.put(kind, key.encode(), segment, payload.encode())


def key_of(kind: int, definition: dict[str, Any]) -> bytes:
    """What a definition is known by; a binding is all that it says."""
    if kind == Kind.BINDING:
        return dumps(definition)
    return dumps({name: definition[name] for name in _IDENTIFYING if name in definition})


RECOVERED = "leveret.recovered."  # and the number of a queue whose name was lost
RECOVERED_ARGUMENTS = {"x-max-priority": 255}  # its messages keep the priorities that they had
Stored = Mapping[str, Any]
KNOWN_MAX = 10_000  # kinds of queues; when there are more they are not shared


def restore_exchange(vhost: Vhost, stored: Stored) -> Exchange:
    """Declare again what Exchange.to_dict gave; one that exists already is left as it is."""
    existing = vhost.exchanges.get(stored["name"])
    if existing is not None:
        return existing
    name, type, durable, auto_delete, internal = (stored[each] for each in DECLARED)
    return vhost.restore_exchange(name, type, durable, auto_delete, internal, restored(stored["arguments"]))


def restore_binding(vhost: Vhost, stored: Stored) -> Binding | None:
    """Bind again what Binding.to_dict gave."""
    source, destination, key = stored["source"], stored["destination"], stored["routing_key"]
    return vhost.bind(source, destination, key, restored(stored["arguments"]), stored["destination_type"])


def restore_policy(vhost: Vhost, stored: Stored) -> Policy:
    """Set again what Policy.to_dict gave."""
    policy = Policy.from_dict(stored)
    vhost.set_policy(policy)
    return policy


@dataclass(frozen=True, slots=True)
class Declared:
    """Arguments that were checked, and what they amount to without any policy."""

    arguments: Mapping[str, Any] | None
    stored: Any
    queue_type: str
    policy: QueuePolicy

    def policy_in(self, virtual_host: Vhost, name: str) -> QueuePolicy:
        """The settings of a queue of this kind in a virtual host."""
        policies: list[Policy] = [*virtual_host.policies.values()]
        caps: list[Policy] = [*virtual_host.operator_policies.values()]
        if not policies and not caps:
            return self.policy
        return effective(self.arguments or {}, name, self.queue_type, policies, caps, vhost=virtual_host.name)


class Kinds:
    """The kinds of queues that exist."""

    def __init__(self) -> None:
        self._known: dict[str, Declared] = {}
        # Arguments that are kept here are the same object for ever, so that it can stand for them.
        self._kept: dict[int, Declared] = {}

    def of(self, arguments: Mapping[str, Any] | None, name: str, vhost: str) -> Declared:
        """The kind that these arguments make; `name` and `vhost` are for the refusal of bad ones."""
        found = self._kept.get(id(arguments))
        if found is not None:
            return found
        key = canonical(arguments) if arguments else ""
        found = self._known.get(key)
        if found is None:
            given = dict(arguments or {})
            kind = queue_type_of(given, name, vhost)
            found = Declared(given or None, encode(given), kind, effective(given, name, kind, vhost=vhost))
            if len(self._known) < KNOWN_MAX:
                self._known[key] = self._kept[id(found.arguments)] = found
        return found


class DefinitionLog:
    """Definitions, here and in the journal; `policy_applied` is called with each queue whose policy changed."""

    def __init__(self, restorer: Restorer, topology: Topology, policy_applied: Callable[[Queue], None]) -> None:
        """Start empty; a durable journal replays into it."""
        self._engine = restorer.engine
        self._journal = restorer.engine.journal
        self._restorer = restorer
        self._queues = restorer.queues
        self._policy_applied = policy_applied
        self.topology = topology
        self.catalog = Catalog()
        self.kinds = Kinds()
        self.last_queue_id = 0
        self.is_copy = False  # of other brokers' definitions: also transient ones are journaled, and nothing expires
        self.salvage = False  # whether queues that lost their definition are kept under another name

    # -- writing

    def define(self, kind: Kind, definition: dict[str, Any]) -> None:
        """Journal a definition, new or in place of the one with the same key."""
        payload = dumps(definition)
        self.catalog.put(kind, key_of(kind, definition), self._journal.defined(kind, payload), payload)

    def undefine(self, kind: Kind, definition: dict[str, Any]) -> None:
        """Journal that a definition is gone, if it was journaled; its key is enough."""
        if self.catalog.drop(kind, key_of(kind, definition)):
            self._journal.defined(kind | REMOVED, dumps(definition))

    def define_consumer(self, name: str, number: int) -> None:
        """Journal the name of a consumer, so that the log can be read without the broker."""
        self.define(Kind.CONSUMER, {"name": name, "number": number})

    def define_queue(self, queue: Queue) -> None:
        """Journal the definition of a queue, for history only if it does not outlive a restart."""
        defined = self._journal.defined if queue.durable or self.is_copy else self._journal.named
        queue.segment = defined(Kind.QUEUE, dumps(self.describe(queue)))

    def describe(self, queue: Queue) -> dict[str, Any]:
        """The definition of a queue, fit for JSON; in a copy the owner of an exclusive queue is a text."""
        definition: dict[str, Any] = {"id": queue.id, "vhost": queue.vhost, "name": queue.name}
        if queue.created_ms:
            definition["created_ms"] = queue.created_ms
        if queue.arguments:
            definition["arguments"] = self.kinds.of(queue.arguments, queue.name, queue.vhost).stored
        if queue.auto_delete:
            definition["auto_delete"] = True
        if queue.paused:
            definition["paused"] = True
        if self.is_copy and not queue.durable:
            definition["durable"] = False
        if self.is_copy and queue.owner is not None:
            definition["owner"] = queue.owner
        return definition

    # -- coming back

    def replay(self, what: int, payload: bytes, segment: int) -> None:
        """Apply a definition that the journal has."""
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
            virtual_host = self.topology.add_vhost(definition["vhost"])
            restore_policy(virtual_host, definition)
            self.apply_policies(virtual_host)

    def _replay_removal(self, kind: int, definition: dict[str, Any]) -> None:
        if kind == Kind.VHOST:
            self.topology.vhosts.pop(definition["name"], None)
        elif kind == Kind.POLICY:
            virtual_host = self.topology.add_vhost(definition["vhost"])
            virtual_host.delete_policy(definition["name"], definition["operator"])
            self.apply_policies(virtual_host)

    def _restore_absence(self, number: int) -> None:
        """A queue was deleted."""
        self._restorer.undefined.pop(number, None)
        gone = self._queues.pop(number, None)
        if gone is not None:
            self.topology.vhost(gone.vhost).remove_queue(gone)
            gone.retire()

    def _restore_queue(self, definition: dict[str, Any], segment: int) -> None:
        """Make a queue, or name the one whose messages came before its definition."""
        number, name, vhost = definition["id"], definition["name"], definition["vhost"]
        arguments = definition.get("arguments")
        kind = self.kinds.of(usable(restored(arguments)) if arguments else None, name, vhost)
        virtual_host = self.topology.add_vhost(vhost)
        queue = self._queues.get(number) or self._restorer.undefined.pop(number, None)
        if queue is None or not queue.name:
            policy = kind.policy_in(virtual_host, name)
            auto_delete = definition.get("auto_delete", False)
            if queue is None:
                queue = Queue(self._engine, number, vhost, name, policy, kind.arguments, auto_delete=auto_delete)
            else:
                # Its messages may be older than the policies, but never older than the arguments.
                self._restorer.adopt(queue, vhost, name, kind.policy, kind.arguments, auto_delete)
                queue.apply(policy)
            virtual_host.add_queue(queue)
        elif queue.arguments != kind.arguments:
            queue.change(kind.arguments, kind.policy_in(virtual_host, name))
        queue.segment = segment
        queue.created_ms = definition.get("created_ms", 0)
        queue.pause(definition.get("paused", False))
        self._queues[number] = queue
        self.last_queue_id = max(self.last_queue_id, number)

    def recovered(self, now_ms: int) -> None:
        """Replay is over: make exchanges and bindings, which need the queues."""
        for definition in self.catalog.of(Kind.EXCHANGE):
            restore_exchange(self.topology.vhost(definition["vhost"]), definition)
        for definition in self.catalog.of(Kind.BINDING):
            restore_binding(self.topology.vhost(definition["vhost"]), definition)
        for definition in self.catalog.of(Kind.NUMBERS):
            self._restorer.restore_numbers(definition["last_seq"], now_ms)
            self.last_queue_id = max(self.last_queue_id, definition["last_queue_id"])
        for definition in self.catalog.of(Kind.CONSUMER):
            self._engine.consumer_ids[definition["name"]] = definition["number"]
        if self.salvage:
            self._name_undefined()

    def _name_undefined(self) -> None:
        """Keep messages of queues whose definition was damaged; the operator moves them to where they belong."""
        for number in sorted(self._restorer.undefined):
            if waiting_numbers(self._restorer.undefined[number]):
                name = f"{RECOVERED}{number}"
                self._restore_queue({"id": number, "vhost": "/", "name": name, "arguments": RECOVERED_ARGUMENTS}, 0)
            else:
                self._restore_absence(number)

    def define_recovered(self) -> None:
        """Journal the queues that were named just now."""
        for queue in self._queues.values():
            if queue.segment == 0 and queue.name.startswith(RECOVERED):
                self.define_queue(queue)

    def to_dict(self) -> dict[str, Any]:
        """Everything that is defined, for a snapshot."""
        queues = [[queue.segment, self.describe(queue)] for queue in self._queues.values() if queue.durable]
        return {"queues": queues, "catalog": self.catalog.to_rows(), "last_queue_id": self.last_queue_id}

    def restore(self, stored: dict[str, Any]) -> None:
        self.catalog.from_rows(stored["catalog"])
        for kind in (Kind.VHOST, Kind.POLICY):
            for definition in self.catalog.of(kind):
                self._replay_setting(kind, definition)
        for segment, definition in stored["queues"]:
            self._restore_queue(definition, segment)
        self.last_queue_id = max(self.last_queue_id, stored["last_queue_id"])

    def relocate(self, segment: int) -> None:
        """Journal again what is defined, and which keys are remembered, in a segment that is about to go."""
        self.define(Kind.NUMBERS, {"last_seq": self._engine.last_seq, "last_queue_id": self.last_queue_id})
        for kind, key, payload in self.catalog.in_segment(segment):
            self.catalog.put(kind, key, self._journal.defined(kind, payload), payload)
        for queue in self._queues.values():
            if queue.segment == segment:
                self.define_queue(queue)
            if queue.dedup:
                self._relocate_keys(queue, segment)

    def _relocate_keys(self, queue: Queue, segment: int) -> None:
        queue.dedup.forget(self._engine.now_ms - queue.policy.dedup_window_ms)
        for key, seq, at_ms, place in list(queue.dedup.rows()):
            if place == segment:
                queue.dedup.replace(key, seq, at_ms, self._journal.deduplicated(queue.id, key, seq, at_ms))

    def apply_policies(self, virtual_host: Vhost) -> None:
        """Give every queue of a virtual host the settings that it has by now."""
        for queue in virtual_host.queues.values():
            policy = self.kinds.of(queue.arguments, queue.name, virtual_host.name).policy_in(virtual_host, queue.name)
            if policy is not queue.policy:
                queue.apply(policy)
                self._policy_applied(queue)
