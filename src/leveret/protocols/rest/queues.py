"""/queues: list, make, look at, delete, purge, pause."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from leveret.core.arguments import BACKOFF_STEPS_MAX, DISPLAY_NAME_CHARS_MAX, limits_of
from leveret.core.arguments import KINDS as BACKOFF_KINDS
from leveret.core.broker import Broker as Core
from leveret.core.changes import DeleteQueue
from leveret.core.errors import TooMany
from leveret.core.jsonable import decode_table, encode
from leveret.core.queue import Queue as CoreQueue
from leveret.protocols.http.cluster import InCluster
from leveret.protocols.http.fields import (
    NOTHING,
    OBJECT,
    Choice,
    Either,
    Flag,
    JsonField,
    Listed,
    Name,
    Number,
    PatternText,
    RecordField,
    TableField,
    Text,
    Whole,
    shape,
)
from leveret.protocols.http.request import Refusal
from leveret.protocols.http.response import Answer, Response, json_response
from leveret.protocols.rest.operation import DONE, RestCall, RestOperation, routes
from leveret.protocols.rest.shapes import PRIORITY_MAX, SECONDS_MAX, SHORT_CHARS_MAX, iso
from leveret.runtime.declare import DAY_S, OLD_NAMES, OPTIONS, changed_arguments, declare_queues, with_new_names
from leveret.runtime.managed import ManagedQueue
from leveret.security.authorisation import Role

_SHOWN = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
LIST_MAX = 1_000
LIST_DEFAULT = 100
ARGUMENTS_MAX = 64
DEFAULTS = {"max_priority": PRIORITY_MAX, "dedup_window": DAY_S}
"""Settings of a queue that REST makes without them: the priorities of messages, and keys for a day."""


def _seconds(name: str, help: str) -> Number:
    """A setting in seconds, with the limits that the core has in ms."""
    least_ms, most_ms = limits_of(OPTIONS[name].argument)
    return Number(help, least_ms / 1000, most_ms / 1000, nullable=True)


def _count(name: str, help: str) -> Whole:
    """A setting that is a whole number, with the limits of the core."""
    return Whole(help, *limits_of(OPTIONS[name].argument), nullable=True)


def _word(help: str, *words: str) -> Choice:
    # null is among the words, because JSON Schema has it in both places.
    field = Choice(help, *words, nullable=True)
    field.schema["enum"] = [*words, None]
    return field


SETTINGS: dict[str, JsonField] = {
    "visibility_timeout": _seconds("visibility_timeout", "How long a message is taken for; default: 30."),
    "max_deliveries": _count(
        "max_deliveries", "How often a message is handed out before it is a dead letter; 3 if there is dead_letter."
    ),
    "dead_letter": Name("The queue for dead letters, made if need be.", nullable=True),
    "max_priority": _count("max_priority", "The highest priority; default: 10."),
    "priority_mode": _word("Who comes first; default: strict.", "strict", "weighted", "ageing"),
    "ageing": _seconds("ageing", "In which a message that waits rises by one priority."),
    "delay": _seconds("delay", "How long messages are hidden at first."),
    "ttl": _seconds("ttl", "After which messages expire."),
    "expires": _seconds("expires", "After which an unused queue is deleted."),
    "max_length": _count("max_length", "How many messages may be ready."),
    "max_bytes": _count("max_bytes", "How many bytes they may have."),
    "overflow": _word("What happens at the limit.", "drop-head", "reject-publish", "reject-publish-dlx"),
    "retention": _seconds("retention", "After which messages are dropped, whatever happens; default: 14 days."),
    "backoff": Either(
        "exponential, none or a list of seconds: how long a message rests that was given back.",
        Choice("How the delays grow.", *BACKOFF_KINDS),
        Listed("Delays one by one.", Number("Seconds.", 0, SECONDS_MAX), BACKOFF_STEPS_MAX),
        nullable=True,
    ),
    "backoff_jitter": Number("Share of the backoff that chance decides about.", 0, 1, nullable=True),
    "dedup_window": _seconds("dedup_window", "How long an Idempotency-Key is remembered; default: one day."),
    "dedup_scope": _word("Where keys are compared.", "queue", "group"),
    "content_dedup": Flag("Whether equal bodies are the same message.", nullable=True),
    "groups": _word("What groups do.", "off", "fifo", "fair"),
    "max_message_size": _count("max_message_size", "Largest body in bytes."),
    "display_name": PatternText(
        "What people call it.", _SHOWN, "has no control characters", DISPLAY_NAME_CHARS_MAX, nullable=True
    ),
    "single_active_consumer": Flag("Whether only one consumer of AMQP gets messages.", nullable=True),
}
assert SETTINGS.keys() == OPTIONS.keys(), "every option of a queue can be set"
SETTINGS |= {
    old: Whole(f"The old name of {new}.", *limits_of(OPTIONS[new].argument), nullable=True, deprecated=True)
    for old, new in OLD_NAMES.items()
}
KILLING = frozenset(("ttl", "max_deliveries", "max_length", "max_bytes", "overflow"))
"""Settings by which messages that wait become dead letters."""
PAGE = RecordField(
    "Which ones.",
    {
        "prefix": Text("Only names that begin with this.", SHORT_CHARS_MAX),
        "after": Text("Only names after this one.", SHORT_CHARS_MAX),
        "limit": Whole(f"How many; default: {LIST_DEFAULT}.", 1, LIST_MAX),
    },
)
_QUEUE = shape("name durable paused arguments ready")
_FIGURES = shape(
    "queue_name approximate_message_count messages_by_priority oldest_message_age_seconds in_flight_count dlq_count"
)
OPERATIONS: list[RestOperation] = []
route = routes(OPERATIONS)


async def described(call: RestCall, answer: Answer) -> Answer:
    """An answer of the catalog about queues or streams, with the figures that their shards have."""
    assert isinstance(answer, Response), "rows come at once"
    kind, body = call.request.segments[0], json.loads(answer.body)
    rows: list[dict[str, Any]] = body.get(kind, [body])
    found = await call.cluster.rows(kind, call.vhost, [row["name"] for row in rows])
    for row in rows:
        row |= found.get(row["name"]) or {}
    if kind in body:  # a list does not have what was auto-deleted a moment ago
        body[kind] = [row for row in rows if found.get(row["name"], row) is not None]
    return json_response(body, answer.status, answer.headers)


def forgotten(call: RestCall) -> Callable[[Core], Any]:
    """Deletes a queue or stream from the catalog after its shard, which knows whether it may be deleted."""
    return DeleteQueue(call.vhost, call.names["queue"]).apply


DESCRIBED, DELETED = InCluster(finish=described), InCluster(after=forgotten)


def shown(queue: ManagedQueue) -> dict[str, Any]:
    """A queue. Under the lock."""
    core = queue.core
    return {
        "name": queue.name,
        "display_name": queue.display_name,
        "created_at": None if queue.created_at is None else iso(queue.created_at),
        "durable": queue.durable,
        "paused": core.paused,
        "arguments": encode(queue.arguments),
        "visibility_timeout": queue.lease_ms / 1000 or None,
        "ready": core.depth,
        "leased": core.leased,
        "scheduled": core.scheduled,
        "backing_off": core.backing_off,
        "consumers": len(core.consumers or ()),
    }


def _one(call: RestCall, status: int = 200) -> Response:
    queue = call.queue
    with queue.runtime:
        return json_response(shown(queue), status, (("ETag", etag(queue)),))


def etag(queue: ManagedQueue) -> str:
    """What changes with the settings of a queue."""
    text = json.dumps(encode(queue.arguments), sort_keys=True)
    return f'"{blake2b(text.encode(), digest_size=8).hexdigest()}"'


def page(call: RestCall, kind: str, names: Iterable[str], role: Role, row: Callable[[str], dict[str, Any]]) -> Response:
    """A page of a list: of these names, those that the caller may see."""
    limit, rows = call.query.get("limit", LIST_DEFAULT), list[dict[str, Any]]()
    for name in names:
        if call.allows(f"{role}.see", {role: name}):
            if len(rows) == limit:
                return json_response({kind: rows, "next": rows[-1]["name"]})
            rows.append(row(name))
    return json_response({kind: rows, "next": None})


@route(
    "GET /queues",
    "queue.list",
    {200: ("Queues; `next` is the `after` of the next page, null at the end.", OBJECT)},
    query=PAGE,
    cluster=DESCRIBED,
)
def list_all(call: RestCall) -> Answer:
    """List queues."""
    runtime = call.async_broker.runtime
    with runtime as core:
        virtual_host = core.topology.vhost(call.vhost)
        names = virtual_host.queue_names.after(call.query.get("after", ""), call.query.get("prefix", ""))
        free = (name for name in names if virtual_host.queues[name].owner is None)
        return page(call, "queues", free, "queue", lambda name: shown(ManagedQueue(runtime, virtual_host.queues[name])))


@route(
    "PUT /queues/{queue}",
    "queue.declare",
    {201: ("It is made.", _QUEUE), 200: ("It is there with these settings.", _QUEUE)},
    body=RecordField(
        "Its settings; null is none, also where there is a default.",
        {
            **SETTINGS,
            "durable": Flag("Whether it survives a restart; default: true."),
            "arguments": TableField("Arguments of AMQP, for what has no setting.", ARGUMENTS_MAX),
        },
    ),
    query=RecordField("How it begins.", {"defaults": Choice("none: max_priority and dedup_window have none.", "none")}),
    cluster=DESCRIBED,
)
async def declare(call: RestCall) -> Answer:
    """Make a queue. One that exists with these settings is no error."""
    name, body = call.request.parameters["queue"], with_new_names(call.body, None)
    durable, arguments = body.pop("durable", True), decode_table("arguments", body.pop("arguments", {}))
    names, exchange = call.names, arguments.get("x-dead-letter-exchange")
    if isinstance(exchange, str):
        names["dead_letter_exchange"] = exchange
    _authorise_settings(call, "queue.declare", names, body.get("dead_letter"))
    with call.async_broker.runtime as core:
        known = name in core.topology.vhost(call.vhost).queues
        if not known:
            check_room(call, len(core.topology.vhost(call.vhost).queues))
    options = body if known or call.query.get("defaults") == "none" else {**DEFAULTS, **body}
    runtime = call.async_broker.runtime
    await call.async_broker.durably(
        lambda: declare_queues(runtime, [name], options, vhost=call.vhost, durable=durable, arguments=arguments)
    )
    return _one(call, 200 if known else 201)


def check_room(call: RestCall, count: int) -> None:
    """Refuse one more queue than there may be."""
    most = call.access.vhost_limits(call.vhost).queues_max
    if most is not None and count >= most:
        raise TooMany(f"vhost '{call.vhost}' has {most} queues, which is its limit: delete some, or raise it")


def _authorise_settings(call: RestCall, operation: str, names: dict[Role, str], dead_letter: str | None) -> None:
    """Refuse a dead-letter queue that the caller may not declare, or send messages of this queue to."""
    if dead_letter is not None:
        call.authorise("queue.declare", {"queue": dead_letter})
        names["dead_letter_queue"] = dead_letter
    call.authorise(operation, names)


def _dead_letter_target(queue: ManagedQueue, options: dict[str, Any]) -> dict[Role, str]:
    """Where a change of settings sends messages of a queue as dead letters, by its role; nothing if it sends none."""
    policy = queue.anyway.policy
    exchange = policy.dead_letter_exchange
    if exchange is None or "dead_letter" in options or KILLING.isdisjoint(options):
        return {}
    if exchange:
        return {"dead_letter_exchange": exchange}
    return {"dead_letter_queue": policy.dead_letter_routing_key or queue.name}


@route(
    "PATCH /queues/{queue}",
    "queue.update",
    {200: ("It has these settings from now on.", _QUEUE), 412: ("Another client changed it first.", None)},
    body=RecordField("The settings that change; null: none.", SETTINGS),
    headers={"If-Match": JsonField("The ETag of the settings that are meant to be changed.", type="string")},
    cluster=DESCRIBED,
)
async def update(call: RestCall) -> Answer:
    """Change the settings of a queue."""
    queue, options = call.queue, call.body
    options = with_new_names(options, None)
    names = {**call.names, **_dead_letter_target(queue, options)}
    _authorise_settings(call, "queue.update", names, options.get("dead_letter"))
    wanted = call.request.header(b"if-match")
    if wanted not in ("", "*", etag(queue)):
        raise Refusal(412, "the queue has other settings by now: look at it again")
    dead_letter = options.get("dead_letter")
    if dead_letter is not None:
        runtime = call.async_broker.runtime
        await call.async_broker.durably(lambda: declare_queues(runtime, [dead_letter], {}, vhost=call.vhost))
    changed = call.async_broker.change(
        lambda core: core.change_queue(queue.core, changed_arguments(queue.arguments, options))
    )
    if isinstance(changed, Awaitable):
        await changed
    return _one(call)


@route("GET /queues/{queue}", "queue.look", {200: ("The queue.", _QUEUE)})
def get(call: RestCall) -> Answer:
    """Look at a queue."""
    return _one(call)


@route(
    "DELETE /queues/{queue}",
    "queue.delete",
    {200: ("How many messages were ready.", OBJECT)},
    query=RecordField(
        "Only if.", {"if_unused": Flag("Only without consumers."), "if_empty": Flag("Only if nothing is ready.")}
    ),
    cluster=DELETED,
)
async def delete(call: RestCall) -> Answer:
    """Delete a queue and what is in it."""
    queue = call.queue
    count = await call.async_broker.in_thread(lambda: queue.delete(**call.query))
    return json_response({"deleted": count})


@route(
    "POST /queues/{queue}/purge",
    "queue.purge",
    {200: ("How many messages it were.", OBJECT)},
    body=NOTHING,
    bulk=True,
)
async def purge(call: RestCall) -> Answer:
    """Remove everything that is ready."""
    return json_response({"purged": await call.async_broker.in_thread(call.queue.purge)})


@route("POST /queues/{queue}/pause", "queue.pause", DONE, body=NOTHING)
async def pause(call: RestCall) -> Answer:
    """Hand nothing out until it is resumed."""
    await call.async_broker.in_thread(call.queue.pause)
    return Response(204)


@route("POST /queues/{queue}/resume", "queue.pause", DONE, body=NOTHING)
async def resume(call: RestCall) -> Answer:
    """Hand messages out again."""
    await call.async_broker.in_thread(call.queue.resume)
    return Response(204)


def _dead_letter_queues(core: Core, queue: CoreQueue) -> list[CoreQueue]:
    """The queues that dead letters of a queue go to. Under the lock."""
    virtual_host, policy = core.topology.vhost(queue.vhost), queue.policy
    if policy.dead_letter_exchange is None or policy.dead_letter_exchange not in virtual_host.exchanges:
        return []
    key = policy.dead_letter_routing_key or queue.name
    found: list[CoreQueue] = virtual_host.route(policy.dead_letter_exchange, [key], None, None)
    return found


async def add_dead_letters(call: RestCall, answer: Answer) -> Answer:
    """The figures of a queue with the dead letters that other shards have."""
    assert isinstance(answer, Response), "figures come at once"
    with call.async_broker.runtime as core:
        queue = core.topology.vhost(call.vhost).queue(call.request.parameters["queue"])
        names = [each.name for each in _dead_letter_queues(core, queue)]
    shard_id = call.cluster.shard_id_of(call.vhost, queue.name)
    others = [each for each in names if call.cluster.shard_id_of(call.vhost, each) != shard_id]
    figures = json.loads(answer.body)
    if figures["dlq_count"] is None or not all(call.allows("queue.look", {"queue": each}) for each in others):
        return json_response({**figures, "dlq_count": None}, answer.status, answer.headers)
    rows = await call.cluster.rows("queues", call.vhost, others)
    figures["dlq_count"] += sum(row["ready"] for row in rows.values() if row is not None)
    return json_response(figures, answer.status, answer.headers)


@route(
    "GET /queues/{queue}/stats", "queue.look", {200: ("Figures.", _FIGURES)}, cluster=InCluster(finish=add_dead_letters)
)
def stats(call: RestCall) -> Answer:
    """The figures of a queue."""
    queue = call.queue
    figures = asdict(queue.stats())
    depths = figures["depth_by_priority"]
    for name in ("depth_by_priority", "published_by_priority"):
        figures[name] = {str(priority): count for priority, count in figures[name].items()}
    age_s = figures["oldest_age"]
    named = {str(priority): depths.get(priority, 0) for priority in range(10, 6, -1)}
    rest = sum(depths.values()) - sum(named.values())
    return json_response(
        {
            "queue_name": figures.pop("name"),
            "approximate_message_count": figures["ready"],
            "messages_by_priority": {**named, "6-1": rest},
            "oldest_message_age_seconds": 0 if age_s is None else int(age_s),
            "in_flight_count": figures["leased"],
            "dlq_count": _dead_letters(call, queue),
            **figures,
        }
    )


def _dead_letters(call: RestCall, queue: ManagedQueue) -> int | None:
    """How many messages wait where the dead letters of a queue go; None if the caller may not read all of them."""
    with queue.runtime as core:
        targets = _dead_letter_queues(core, queue.anyway)
    if not all(call.allows("queue.look", {"queue": each.name}) for each in targets):
        return None
    return sum(each.depth for each in targets)
