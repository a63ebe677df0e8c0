"""/exchanges: list, make, delete, bind, publish."""

from typing import Any

from leveret.core.deadletter import all_keys
from leveret.core.errors import AccessRefused
from leveret.core.jsonable import decode_table
from leveret.core.properties import Properties
from leveret.protocols.http.cluster import InCluster, Parts
from leveret.protocols.http.fields import OBJECT, Choice, Flag, Name, RecordField, TableField, Text, Whole, shape
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Answer, Response, json_response
from leveret.protocols.rest.messages import KEY_HELP
from leveret.protocols.rest.operation import DONE, RestCall, RestOperation, routes
from leveret.protocols.rest.queues import ARGUMENTS_MAX, LIST_DEFAULT, LIST_MAX, page
from leveret.protocols.rest.shapes import (
    BODIES,
    MESSAGE_FIELDS,
    SHORT_CHARS_MAX,
    idempotency_key,
    outgoing,
    trace_context,
)
from leveret.runtime.declare import declare_exchange
from leveret.runtime.outgoing import Outgoing, apublish, prepare
from leveret.security.authorisation import Role

BINDINGS_MAX = 10_000  # in one answer
_EXCHANGE = shape("name type durable auto_delete internal arguments")
_BINDING = RecordField(
    "A binding.",
    {
        "destination": Name("The queue or exchange that gets messages.", required=True),
        "destination_type": Choice("Which of both; default: queue.", "queue", "exchange"),
        "routing_key": Name("Which messages; what it means depends on the exchange.", 0),
        "arguments": TableField("For headers exchanges and others.", ARGUMENTS_MAX),
    },
)
_WHICH = {
    "after": Text("Only names after this one.", SHORT_CHARS_MAX),
    "limit": Whole(f"How many; default: {LIST_DEFAULT}.", 1, LIST_MAX),
}
OPERATIONS: list[RestOperation] = []
route = routes(OPERATIONS)


@route(
    "GET /exchanges",
    "exchange.list",
    {200: ("Exchanges; `next` is the `after` of the next page, null at the end.", OBJECT)},
    query=RecordField("Which ones.", _WHICH),
)
def list_all(call: RestCall) -> Answer:
    """List exchanges."""
    with call.async_broker.runtime as core:
        known, after = core.topology.vhost(call.vhost).exchanges, call.query.get("after", "")
        names = sorted(each for each in known if each > after)
        return page(call, "exchanges", names, "exchange", lambda name: known[name].to_dict())


@route("GET /exchanges/{exchange}", "exchange.look", {200: ("The exchange.", _EXCHANGE)})
def get(call: RestCall) -> Answer:
    """Look at an exchange."""
    with call.async_broker.runtime as core:
        return json_response(core.topology.vhost(call.vhost).exchange(call.exchange).to_dict())


@route(
    "PUT /exchanges/{exchange}",
    "exchange.declare",
    {201: ("It is made.", _EXCHANGE), 200: ("It is there.", _EXCHANGE)},
    body=RecordField(
        "What it is.",
        {
            "type": Text("direct, fanout, topic, headers or another type; default: direct.", SHORT_CHARS_MAX, 1),
            "durable": Flag("Whether it survives a restart; default: true."),
            "auto_delete": Flag("Whether it goes with its last binding."),
            "internal": Flag("Whether only exchanges publish to it."),
            "arguments": TableField("Arguments of AMQP.", ARGUMENTS_MAX),
        },
    ),
)
async def declare(call: RestCall) -> Answer:
    """Make an exchange. The same one again is no error."""
    name, body = call.exchange, dict(call.body)
    arguments = decode_table("arguments", body.pop("arguments", {}))
    alternate = arguments.get("alternate-exchange")
    if isinstance(alternate, str):
        call.authorise("exchange.declare", {"exchange": name, "alternate_exchange": alternate})
    body.setdefault("type", "direct")
    runtime = call.async_broker.runtime
    with runtime as core:
        known = name in core.topology.vhost(call.vhost).exchanges
    await call.async_broker.durably(
        lambda: declare_exchange(runtime, name, vhost=call.vhost, arguments=arguments, **body)
    )
    with runtime as core:
        return json_response(core.topology.vhost(call.vhost).exchange(name).to_dict(), 200 if known else 201)


@route(
    "DELETE /exchanges/{exchange}",
    "exchange.delete",
    DONE,
    query=RecordField("Only if.", {"if_unused": Flag("Only if nothing is bound.")}),
)
def delete(call: RestCall) -> Any:
    """Delete an exchange and its bindings."""
    with call.async_broker.runtime as core:
        core.topology.vhost(call.vhost).exchange(call.exchange)
    if_unused = call.query.get("if_unused", False)
    return call.change(lambda core: core.delete_exchange(call.vhost, call.exchange, if_unused))


def publishable(call: RestCall) -> tuple[str, Outgoing]:
    """The routing key and the message of a request, checked for access."""
    body = dict(call.body)
    routing_key = body.pop("routing_key", "")
    call.check_user_id(body)
    message = outgoing(body, idempotency_key(call.request), trace_context(call.request))
    if call.is_topic(call.exchange):
        keys = all_keys(Properties(headers=message.headers), routing_key) if message.headers else [routing_key]
        call.authorise("basic.publish", call.names, keys)
    with call.async_broker.runtime as core:
        if core.topology.vhost(call.vhost).exchange(call.exchange).internal:
            raise AccessRefused(f"exchange '{call.exchange}' is internal: publish to one that is bound to it")
    return routing_key, message


def published(message_id: str | None) -> Response:
    """The answer to a publish."""
    routed = message_id is not None
    return json_response({"message_id": message_id, "routed": routed}, 201 if routed else 200)


def to_shards(call: RestCall) -> dict[str, Request]:
    """The request to every shard that has a queue for the message."""
    routing_key, message = publishable(call)
    prepared = prepare(message, call.async_broker.runtime.options.message_bytes_max)
    with call.async_broker.runtime as core:
        queues = core.route_through(call.vhost, call.exchange, routing_key, prepared.properties)
        shard_ids = sorted({call.cluster.shard_id_of(call.vhost, queue.name) for queue in queues})
    return dict.fromkeys(shard_ids, call.request)


def published_by(call: RestCall, parts: Parts) -> Response:
    """The answer when all of these shards have the message."""
    ids = [each["message_id"] for each in parts.values.values()]
    return published(next((each for each in ids if each is not None), None))


@route(
    "POST /exchanges/{exchange}/messages",
    "basic.publish",
    {
        201: ("It is on the disk.", OBJECT),
        200: ("No queue is bound that it matches: it was dropped.", OBJECT),
    },
    body=RecordField("A message.", {**MESSAGE_FIELDS, "routing_key": Name("Which queues get it.", 0)}, BODIES),
    headers=KEY_HELP,
    cluster=InCluster(scatter=to_shards, merge=published_by),
)
async def publish(call: RestCall) -> Answer:
    """Publish a message to whatever is bound to an exchange."""
    routing_key, message = publishable(call)
    return published(await apublish(call.async_broker.runtime, call.vhost, call.exchange, routing_key, message))


@route(
    "GET /exchanges/{exchange}/bindings",
    "exchange.look",
    {200: (f"Bindings, at most {BINDINGS_MAX}.", OBJECT)},
)
def bindings(call: RestCall) -> Answer:
    """List what is bound to an exchange."""
    with call.async_broker.runtime as core:
        found = list(core.topology.vhost(call.vhost).exchange(call.exchange).bindings.values())
        return json_response({"bindings": [each.to_dict() for each in found[:BINDINGS_MAX]], "total": len(found)})


def _binding(call: RestCall, verb: str) -> tuple[str, str, str, dict[str, Any]]:
    """What a request is about, authorised."""
    body = call.body
    kind, name, key = body.get("destination_type", "queue"), body["destination"], body.get("routing_key", "")
    names: dict[Role, str] = {"source": call.exchange, "destination": name}
    if kind == "queue":
        names = {"exchange": call.exchange, "queue": name}
    call.authorise(f"{kind}.{verb}", names, [key])
    return name, kind, key, decode_table("arguments", body.get("arguments", {}))


@route("POST /exchanges/{exchange}/bindings", "queue.bind", DONE, body=_BINDING)
def bind(call: RestCall) -> Any:
    """Bind a queue or an exchange."""
    name, kind, key, arguments = _binding(call, "bind")
    return call.change(lambda core: core.bind(call.vhost, call.exchange, name, key, arguments, kind))


@route("DELETE /exchanges/{exchange}/bindings", "queue.unbind", DONE, body=_BINDING)
def unbind(call: RestCall) -> Any:
    """Remove a binding. A missing one is no error."""
    name, kind, key, arguments = _binding(call, "unbind")
    return call.change(lambda core: core.unbind(call.vhost, call.exchange, name, key, arguments, kind))
