"""Queues: listed, looked at, made, deleted, purged; single messages are in messages.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from leveret.core import browse
from leveret.core.arguments import DISPLAY_NAME, queue_type_of
from leveret.core.broker import Broker
from leveret.core.consumer import Consumer
from leveret.core.errors import PreconditionFailed
from leveret.core.jsonable import plain
from leveret.core.policy import Policy, best
from leveret.core.queue import Queue
from leveret.core.queue_types import Lifetime, check_delete, check_lifetime
from leveret.core.streams import Recorder
from leveret.core.topology import Vhost
from leveret.protocols.http.bulk import PURGED
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.bindings import bindings_to
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import AdminContext, Row
from leveret.protocols.management.listing import Fetch, Key, fetched, listed, one, range_of, reduced, rows
from leveret.protocols.management.rates import DEPTHS, STATS, SampleRange, counted, held_messages, message_stats
from leveret.protocols.management.refusals import BadRequest, done
from leveret.runtime.runtime import Runtime
from leveret.security.authorisation import Role

QUEUE_BYTES = 1_000  # about what an empty queue takes in memory
WAITING_BYTES = 26  # and one message that waits
TAKEN_BYTES = 300  # or is taken, or not due yet


# Looking


def list_all(call: ManagementCall) -> Answered:
    """The queues of the virtual host that the path names, or of all that the user sees."""
    with call.runtime as core:
        queues = ByName(call.runtime, call.virtual_hosts(core))
    if call.context.nodes is not None:
        return fetched(call, queues, fetch_of(call), NAME, {name: KEYS[name] for name in ("name", "vhost")})
    lengths, rates = range_of(call, "lengths"), range_of(call, "msg_rates")

    def make(queue: Queue) -> Row | None:
        with call.runtime as core:
            return None if queue.deleted else shown(call.context, core, queue, lengths, rates)

    return listed(call, queues, make, NAME, sort_keys(call.context))


class ByName(Sequence[Any]):
    """The queues of virtual hosts in their order; a page looks up its own only."""

    def __init__(self, runtime: Runtime, virtual_hosts: Iterable[Vhost]) -> None:
        self._runtime = runtime
        self._virtual_hosts = list(virtual_hosts)

    def __len__(self) -> int:
        return sum(len(virtual_host.queues) for virtual_host in self._virtual_hosts)

    def __getitem__(self, places: Any) -> Any:
        if not isinstance(places, slice):
            return self[:][places]
        found: list[Queue] = []
        with self._runtime:
            start, stop, step = places.indices(len(self))
            assert step == 1, "pages have no gaps"
            for virtual_host in self._virtual_hosts:
                names = virtual_host.queue_names.all()
                found += map(virtual_host.queues.__getitem__, names[start:stop])
                start, stop = max(0, start - len(names)), max(0, stop - len(names))
        return found


def fetch_of(call: ManagementCall) -> Fetch:
    """Gets the rows of queues from their shards; those of a shard that does not answer have no figures."""
    wanted = {"lengths": range_of(call, "lengths"), "rates": range_of(call, "msg_rates")}
    ranges = {name: found and list(found) for name, found in wanted.items()}

    async def fetch(handles: list[Any], columns: tuple[str, ...]) -> list[Row | None]:
        by_vhost: dict[str, list[str]] = defaultdict(list)
        for queue in [each for each in handles if not each.deleted]:
            by_vhost[queue.vhost].append(queue.name)
        rows = {vhost: await call.nodes.rows("management", vhost, names, ranges) for vhost, names in by_vhost.items()}
        return [None if queue.deleted else _row_of_shard(call, queue, rows[queue.vhost], columns) for queue in handles]

    return fetch


def _row_of_shard(
    call: ManagementCall, queue: Queue, rows: Mapping[str, Row | None], columns: tuple[str, ...]
) -> Row | None:
    """A row as one broker would have it; only the catalog knows whether a queue is exclusive."""
    row, exclusive = rows.get(queue.name), {"exclusive": queue.owner is not None}
    if row is not None:
        whole: Row = reduced({**row, **exclusive}, columns)
        return whole
    if queue.name in rows:  # auto-deleted a moment ago
        return None
    shard_id = call.nodes.shard_id_of(queue.vhost, queue.name)
    down: Row = {
        "name": queue.name,
        "vhost": queue.vhost,
        "node": call.nodes.owner_of(shard_id),
        **({"shard": int(shard_id)} if shard_id.isdigit() else {}),
        "type": queue.policy.queue_type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        **exclusive,
        "arguments": plain(queue.arguments or {}),
        "state": "down",
    }
    found: Row = reduced(down, columns)
    return found


def row_of(context: AdminContext, core: Broker, queue: Queue, ranges: Mapping[str, list[int] | None]) -> Row:
    """A queue of a shard, as `fetch_of` asks for it; under the lock."""
    lengths, rates = (None if found is None else SampleRange(*found) for found in map(ranges.get, ("lengths", "rates")))
    return shown(context, core, queue, lengths, rates)


NAME = attrgetter("name")
KEYS: dict[str, Key] = {
    "name": NAME,
    "vhost": attrgetter("vhost"),
    "messages": held_messages,
    "messages_ready": attrgetter("depth"),
    "messages_unacknowledged": attrgetter("leased"),
    "message_bytes": attrgetter("depth_bytes"),
    "consumers": lambda queue: len(queue.consumers or ()),
}


def sort_keys(context: AdminContext) -> dict[str, Key]:
    """What lists of queues are sorted by often, without making their rows."""

    def by_rate(index: int) -> Key:
        return lambda queue: context.rates.of(queue).details(index)["rate"]

    return KEYS | {f"message_stats.{name}_details.rate": by_rate(index) for index, name in enumerate(STATS)}


def look(call: ManagementCall) -> Answer:
    """One queue, with its consumers."""
    lengths, rates = range_of(call, "lengths"), range_of(call, "msg_rates")
    with call.runtime as core:
        queue = call.queue(core)
        found = shown(call.context, core, queue, lengths, rates)
        found["consumer_details"] = call.context.clients.consumers_of(queue)
        head = head_timestamp(queue)
    found |= {"head_message_timestamp": head, "deliveries": [], "incoming": []}
    return one(call, found)


list_bindings = rows(lambda call, core: bindings_to(call.virtual_host(core), call.queue(core)))


def shown(
    context: AdminContext, core: Broker, queue: Queue, lengths: SampleRange | None, rates: SampleRange | None
) -> Row:
    """A queue; under the lock."""
    virtual_host = core.topology.vhost(queue.vhost)
    values, series = counted(queue), context.rates.of(queue)
    totals = dict(zip(DEPTHS, values[len(STATS) :], strict=True))
    found: Row = {
        "name": queue.name,
        "display_name": plain((queue.arguments or {}).get(DISPLAY_NAME)),
        "created_at": queue.created_ms or None,
        "vhost": queue.vhost,
        "node": context.process.node,
        **({} if context.shard is None else {"shard": context.shard}),
        "type": queue.policy.queue_type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": plain(queue.arguments or {}),
        "state": "paused" if queue.paused else "running",
        **policies_of(virtual_host, queue),
        **consumers_of(queue),
        **totals,
        "messages_scheduled": queue.scheduled,
        "messages_backing_off": queue.backing_off,
        **({"messages_dlx": queue.dlx, "message_bytes_dlx": queue.dlx_bytes} if queue.is_quorum else {}),
        "message_bytes": queue.depth_bytes,
        "message_bytes_ready": queue.depth_bytes,
        "memory": memory_bytes(queue),
        "message_stats": message_stats(values, series, rates),
    }
    if queue.recorder is not None:
        found |= stream_of(queue, queue.recorder)
    for index, name in enumerate(DEPTHS, len(STATS)):
        found[f"{name}_details"] = series.details(index, lengths)
    return found


def stream_of(queue: Queue, recorder: Recorder) -> Row:
    """What only a stream has: files and offsets; its readers are those of AMQP."""
    partitions = recorder.figures()
    return {
        "segments": sum(each["segments"] for each in partitions),
        "readers": len(queue.consumers or ()),
        "committed_offset": max(each["committed_offset"] for each in partitions),
        "partitions": partitions,
    }


def policies_of(virtual_host: Vhost, queue: Queue) -> Row:
    """Which policies apply to a queue, and what they say together."""
    kind = queue.policy.queue_type
    policy = best(virtual_host.policies.values(), kind, queue.name)
    cap = best(virtual_host.operator_policies.values(), kind, queue.name)
    return {
        "policy": None if policy is None else policy.name,
        "operator_policy": None if cap is None else cap.name,
        "effective_policy_definition": merged(policy, cap),
    }


def merged(policy: Policy | None, cap: Policy | None) -> Row:
    """The settings of a policy, none above those of an operator."""
    settings = dict(policy.definition) if policy is not None else {}
    for key, most in (cap.definition if cap is not None else {}).items():
        own = settings.get(key)
        settings[key] = min(own, most) if isinstance(own, int) and isinstance(most, int) else most
    return dict(plain(settings))


def consumers_of(queue: Queue) -> Row:
    """Who consumes."""
    consumers: list[Consumer] = queue.consumers or []
    exclusive = next((each.tag for each in consumers if each.exclusive), None)
    ready = any(_has_room(each) for each in consumers)
    return {
        "consumers": len(consumers),
        "consumer_capacity": float(ready),
        "consumer_utilisation": float(ready),
        "exclusive_consumer_tag": exclusive,
        "single_active_consumer_tag": None if queue.active is None else queue.active.tag,
    }


def _has_room(consumer: Consumer) -> bool:
    """Whether a consumer would be given one more message."""
    return consumer.no_ack or not consumer.prefetch or consumer.unacked < consumer.prefetch


def memory_bytes(queue: Queue) -> int:
    """About how much memory a queue takes, without the bodies in the cache."""
    if queue.recorder is not None:
        return QUEUE_BYTES * queue.recorder.partitions
    taken = queue.leased + queue.scheduled + queue.backing_off + queue.dlx
    return QUEUE_BYTES + WAITING_BYTES * queue.depth + TAKEN_BYTES * taken


def head_timestamp(queue: Queue) -> int | None:
    """The time that the publisher of the next message gave it; under the lock."""
    waiting, _ = browse.ready_after(queue, (), 1)
    return browse.read(waiting[0]).properties.timestamp if waiting else None


# Changing


def declare(call: ManagementCall) -> Answered:
    """Make a queue; one that is there already must be the same."""
    name, arguments = call.named("queue"), call.arguments()
    durable, auto_delete = call.field("durable", bool, False), call.field("auto_delete", bool, False)
    names: dict[Role, str] = {"queue": name}
    if isinstance(arguments.get("x-dead-letter-exchange"), str):
        names["dead_letter_exchange"] = arguments["x-dead-letter-exchange"]

    def make(core: Broker) -> Answer:
        virtual_host = call.virtual_host(core)
        call.authorize("queue.declare", names)
        known = name in virtual_host.queues
        check_lifetime(
            queue_type_of(arguments, name, virtual_host.name), Lifetime(durable, auto_delete), name, virtual_host.name
        )
        if not known:
            check_room(call.context, virtual_host)
        core.declare_queue(virtual_host.name, name, arguments, durable=durable, auto_delete=auto_delete)
        return done(204 if known else 201)

    return call.change(make)


def check_room(context: AdminContext, virtual_host: Vhost) -> None:
    """Refuse one more queue than the virtual host may have."""
    most = context.access.vhost_limits(virtual_host.name).queues_max
    if most is not None and len(virtual_host.queues) >= most:
        raise PreconditionFailed(
            f"cannot declare queue: queue limit in vhost '{virtual_host.name}' ({most}) is reached"
        )


def delete(call: ManagementCall) -> Answered:
    """Delete a queue with everything in it."""
    if_unused, if_empty = call.flag("if-unused"), call.flag("if-empty")

    def remove(core: Broker) -> Answer:
        queue = call.queue(core)
        call.authorize("queue.delete", {"queue": queue.name})
        core.check_owner(queue, None)
        check_delete(queue, if_unused, if_empty)
        core.delete_queue(queue, if_unused=if_unused, if_empty=if_empty)
        return done()

    return call.change(remove)


def purge(call: ManagementCall) -> Answered:
    """Delete the messages that wait."""

    def empty(core: Broker) -> Answer:
        queue = call.queue(core)
        call.authorize("queue.purge", {"queue": queue.name})
        core.check_owner(queue, None)
        return done(headers=((PURGED, str(browse.purge(queue))),))

    return call.change(empty)


def act(call: ManagementCall) -> Answered:
    """What an administrator does to a queue: pause, resume; sync and cancel_sync are for mirrors, and do nothing."""
    action = call.field("action", str)
    if action not in ("sync", "cancel_sync", "pause", "resume"):
        raise BadRequest(f"the action {action!r} is not known: use pause or resume")

    def apply(core: Broker) -> Answer:
        queue = call.queue(core)
        if action in ("pause", "resume"):
            core.pause_queue(queue, action == "pause")
        return done()

    return call.change(apply)
