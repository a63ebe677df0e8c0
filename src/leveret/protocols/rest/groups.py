"""/streams/{stream}/groups: members come, read, commit and go; operators look, reset and delete."""

from typing import Any

from leveret.core.arguments import PARTITIONS_MAX
from leveret.core.broker import Broker as Core
from leveret.core.consumer_groups import (
    OFFSET_MAX,
    SESSION_MS,
    SESSION_MS_MAX,
    SESSION_MS_MIN,
    ConsumerGroup,
    ConsumerGroups,
)
from leveret.protocols.http.fields import (
    OBJECT,
    WHOLE,
    Choice,
    JsonField,
    Number,
    Numbered,
    RecordField,
    Schema,
    Text,
    Whole,
    array,
    shape,
)
from leveret.protocols.http.response import Answer, Response, json_response
from leveret.protocols.http.tails import read
from leveret.protocols.rest.operation import DONE, RestCall, RestOperation, routes
from leveret.protocols.rest.queues import LIST_DEFAULT
from leveret.protocols.rest.shapes import SHORT_CHARS_MAX
from leveret.protocols.rest.streams import LIMITS, RECORDS, TIMESTAMP_S_MAX, answer, range_of
from leveret.runtime.stream import RuntimeStream

LIST_MAX = 100
"""Each row has a number for every partition."""
PARTITION_DIGITS_MAX = 4
OFFSET = Whole("An offset.", 0, OFFSET_MAX)
_MEMBER = Text("Who it is; of your own choice.", SHORT_CHARS_MAX, 1, required=True)
_CURRENT: dict[str, JsonField] = {
    "member": _MEMBER,
    "generation": Whole("What the answer to join said.", 0, OFFSET_MAX, required=True),
}
_OFFSETS = Numbered(
    "The offset of the next record to read, by number of partition.",
    PARTITIONS_MAX,
    OFFSET,
    PARTITION_DIGITS_MAX,
    required=True,
)
_BY_PARTITION: Schema = {"type": "object", "additionalProperties": WHOLE}
_GROUP = shape(
    "name generation members offsets positions lag total_lag",
    generation=WHOLE,
    members={"type": "object", "additionalProperties": array(WHOLE)},
    **dict.fromkeys(("offsets", "positions", "lag"), _BY_PARTITION),
    total_lag=WHOLE,
)
_PATH = "/streams/{stream}/groups/{group}"
OPERATIONS: list[RestOperation] = []
route = routes(OPERATIONS)


def _groups(call: RestCall) -> ConsumerGroups:
    return call.async_broker.runtime.streams.groups


def _group(call: RestCall) -> ConsumerGroup:
    """The group that the path names. Under the lock."""
    return _groups(call).get(call.vhost, call.stream.name, call.request.parameters["group"])


def _by_partition(offsets: dict[int, int]) -> dict[str, int]:
    """A number for each partition, as JSON has it."""
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _offsets(stream: RuntimeStream, given: dict[str, Any]) -> dict[int, int]:
    """The same the other way round, checked; in the order in which they came."""
    return {stream.check_partition(int(name)): offset for name, offset in given.items()}


def shown(group: ConsumerGroup, stream: RuntimeStream) -> dict[str, Any]:
    """A group. Under the lock."""
    lag = group.lag(stream.recorder)
    positions = {partition: group.position(partition, stream.recorder) for partition in range(stream.partitions)}
    return {
        "name": group.name,
        "generation": group.membership.generation,
        "members": {name: list(partitions) for name, partitions in group.membership.members.items()},
        "offsets": _by_partition(group.offsets),
        "positions": _by_partition(positions),
        "lag": _by_partition(lag),
        "total_lag": sum(lag.values()),
    }


# Operators


@route(
    "GET /streams/{stream}/groups",
    "group.join",
    {200: ("Groups; `next` is the `after` of the next page, null at the end.", OBJECT)},
    query=RecordField(
        "Which ones.",
        {
            "after": Text("Only names after this one.", SHORT_CHARS_MAX),
            "limit": Whole(f"How many; default: {LIST_DEFAULT}.", 1, LIST_MAX),
        },
    ),
)
def list_groups(call: RestCall) -> Answer:
    """List the consumer groups of a stream."""
    stream, limit, after = call.stream, call.query.get("limit", LIST_DEFAULT), call.query.get("after", "")
    with call.async_broker.runtime:
        found = [each for each in _groups(call).of(call.vhost, stream.name) if each.name > after]
        rows = [shown(each, stream) for each in found[:limit]]
    return json_response({"groups": rows, "next": rows[-1]["name"] if len(found) > limit else None})


@route(f"GET {_PATH}", "group.join", {200: ("The group.", _GROUP)})
def get(call: RestCall) -> Answer:
    """Look at a group: members, offsets and lag."""
    with call.async_broker.runtime as core:
        group = _group(call)
        group.expire(core.now_ms)
        return json_response(shown(group, call.stream))


@route(f"PUT {_PATH}", "group.join", {201: ("It is made.", _GROUP), 200: ("It is there.", _GROUP)})
def declare(call: RestCall) -> Any:
    """Make a consumer group; joining does it, too."""
    stream, name = call.stream, call.request.parameters["group"]

    def make(core: Core) -> Response:
        known = any(each.name == name for each in _groups(call).of(call.vhost, stream.name))
        group = _groups(call).declare(call.vhost, stream.name, name, stream.partitions)
        return json_response(shown(group, stream), 200 if known else 201)

    return call.async_broker.change(make)


@route(
    f"POST {_PATH}/reset",
    "group.change",
    {200: ("Where it reads on.", shape(offsets=_BY_PARTITION))},
    body=RecordField(
        "Where to.",
        {
            "to": Choice("The oldest record, or after the newest one.", "earliest", "latest"),
            "timestamp": Number("Or the first record of a time: seconds since 1970.", 0, TIMESTAMP_S_MAX),
        },
        ("to", "timestamp"),
    ),
)
def reset(call: RestCall) -> Any:
    """Let a group read on from elsewhere; its members have to join again."""
    stream, body = call.stream, call.body
    target = body["to"] if "to" in body else round(body["timestamp"] * 1000)

    def change(core: Core) -> Response:
        return json_response({"offsets": _by_partition(_group(call).reset(stream.recorder, target))})

    return call.async_broker.change(change)


@route(f"DELETE {_PATH}", "group.change", DONE)
def delete(call: RestCall) -> Any:
    """Forget a group without members."""
    name = call.request.parameters["group"]
    return call.change(lambda core: _groups(call).delete(call.vhost, call.stream.name, name, core.now_ms))


# Members


@route(
    f"POST {_PATH}/join",
    "group.join",
    {
        200: (
            "What to read, and from where on.",
            shape("generation partitions offsets", generation=WHOLE, partitions=array(WHOLE), offsets=_BY_PARTITION),
        )
    },
    body=RecordField(
        "Who.",
        {
            "member": _MEMBER,
            "session_seconds": Number(
                "Without a sign of life for so long it is out; default: 30.",
                SESSION_MS_MIN / 1000,
                SESSION_MS_MAX / 1000,
            ),
        },
    ),
)
def join(call: RestCall) -> Any:
    """Come in, or learn what to read after a change."""
    stream, body = call.stream, call.body
    session_ms = round(1000 * body.get("session_seconds", SESSION_MS / 1000))

    def come(core: Core) -> Response:
        name = call.request.parameters["group"]
        group = _groups(call).declare(call.vhost, stream.name, name, stream.partitions)
        generation, partitions = group.join(body["member"], core.now_ms, session_ms)
        offsets = {partition: group.position(partition, stream.recorder) for partition in partitions}
        joined = {"generation": generation, "partitions": list(partitions), "offsets": _by_partition(offsets)}
        return json_response(joined)

    return call.async_broker.change(come)


@route(f"POST {_PATH}/heartbeat", "group.join", DONE, body=RecordField("Who.", _CURRENT))
def heartbeat(call: RestCall) -> Answer:
    """Give a sign of life."""
    with call.async_broker.runtime as core:
        _group(call).heartbeat(call.body["member"], call.body["generation"], core.now_ms)
    return Response(204)


@route(f"POST {_PATH}/leave", "group.join", DONE, body=RecordField("Who.", {"member": _MEMBER}))
def leave(call: RestCall) -> Answer:
    """Go, so that others take over at once."""
    with call.async_broker.runtime as core:
        _group(call).leave(call.body["member"], core.now_ms)
    return Response(204)


@route(f"POST {_PATH}/commit", "group.join", DONE, body=RecordField("How far.", {**_CURRENT, "offsets": _OFFSETS}))
def commit(call: RestCall) -> Any:
    """Note how far a member has read."""
    member, generation = call.body["member"], call.body["generation"]
    offsets = _offsets(call.stream, call.body["offsets"])
    return call.change(lambda core: _group(call).commit(member, generation, offsets, core.now_ms))


@route(
    f"POST {_PATH}/poll",
    "group.join",
    {200: ("Records, and where to go on.", shape("records offsets", records=RECORDS, offsets=_BY_PARTITION))},
    body=RecordField("From where, and how much.", {**_CURRENT, "offsets": _OFFSETS, **LIMITS}),
)
async def poll(call: RestCall) -> Answer:
    """Read the partitions of a member; a sign of life, too."""
    stream, body = call.stream, call.body
    member, generation = body["member"], body["generation"]
    offsets = _offsets(stream, body["offsets"])
    with call.async_broker.runtime as core:
        group = _group(call)
        group.heartbeat(member, generation, core.now_ms)
        group.membership.check_owner(member, generation, offsets, core.now_ms)
    wanted, wait_s = range_of(body, dict(offsets)), body.get("wait_seconds", 0)
    found = await read(call.async_broker, stream, wanted, wait_s, call.identity.user)
    return await answer(call, found, body, offsets=_by_partition(found.offsets))
