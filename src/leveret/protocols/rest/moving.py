"""Messages that are scheduled, moved or removed: /queues/{queue}/scheduled, /redrive and /discard."""

from dataclasses import asdict
from typing import Any

from leveret.core.errors import InvalidArgument, MessageNotFound
from leveret.protocols.http.async_broker import ANSWER_BYTES_MAX
from leveret.protocols.http.response import Response, json_response
from leveret.protocols.rest.fields import Flag, JsonField, Listed, Name, Number, RecordField, Text, Whole
from leveret.protocols.rest.leases import DONE
from leveret.protocols.rest.messages import BROWSE_DEFAULT, BROWSE_MAX, CONDITIONS, ENCODING, HEADERS
from leveret.protocols.rest.operation import ID_CHARS_MAX, Answer, Operation, RestCall
from leveret.protocols.rest.shapes import LOOKED_AT, looked_at
from leveret.runtime.conditions import filter_of
from leveret.runtime.redrive import Redrive

REDRIVE_S_MAX = 300  # that a redrive with a rate may take: the client waits for it
REDRIVEN_MAX = 10_000_000
SEQ_MAX = (1 << 63) - 1


async def scheduled(call: RestCall) -> Answer:
    """Messages whose delay has not ended."""
    queue, raw = call.queue, call.query.get("encoding") == "base64"
    limit = call.query.get("limit", BROWSE_DEFAULT)

    def look() -> list[dict[str, Any]]:
        found = queue.browse(limit, state="scheduled", bytes_max=ANSWER_BYTES_MAX)
        return [looked_at(each, raw) for each in found]

    return json_response({"messages": await call.scans.run(look)})


async def cancel(call: RestCall) -> Answer:
    """Remove a scheduled message."""
    queue, message_id = call.queue, call.request.parameters["message_id"]
    if not await call.async_broker.in_thread(lambda: queue.cancel(message_id)):
        raise MessageNotFound(f"no message {message_id} is scheduled in queue '{queue.name}': it may be ready already")
    return Response(204)


async def redrive(call: RestCall) -> Answer:
    """Move messages."""
    body = call.body
    to, rate, limit = body.get("to"), body.get("rate_per_second"), body.get("limit")
    if to is not None:
        call.authorise("queue.redrive", {**call.names, "destination_queue": to})
    if rate is not None and limit / rate > REDRIVE_S_MAX:
        raise InvalidArgument(
            f"the limit takes over {REDRIVE_S_MAX} seconds at this rate_per_second: lower it, and repeat the call"
        )
    queue, conditions, dry_run = call.queue, conditions_of(body), body.get("dry_run", False)

    def redrives_to(name: str) -> bool:
        return call.allows("queue.redrive", {**call.names, "destination_queue": name})

    chosen = filter_of(queue.tag, conditions)
    redrive = Redrive(queue.runtime, queue.core, to, chosen, limit, rate, dry_run, redrives_to)
    return json_response(asdict(await call.scans.run(lambda: redrive.run(None))))


def conditions_of(body: dict[str, Any]) -> dict[str, Any]:
    """What the filter of a request says, as queues take it."""
    conditions: dict[str, Any] = dict(body.get("filter", {}))
    if "numbers" in conditions:
        conditions["message_ids"] = [*conditions.get("message_ids", ()), *conditions.pop("numbers")]
    return conditions


async def discard(call: RestCall) -> Answer:
    """Remove messages."""
    queue, conditions, body = call.queue, conditions_of(call.body), call.body
    limit, dry_run = body.get("limit"), body.get("dry_run", False)
    count = await call.scans.run(lambda: queue.discard(limit=limit, dry_run=dry_run, **conditions))
    return json_response({"matched": count})


LIMIT = Whole("How many at most.", 1, REDRIVEN_MAX)
DRY_RUN = Flag("Only count.")
_CONDITIONS: dict[str, JsonField] = {
    **CONDITIONS,
    "headers": HEADERS,
    "message_ids": Listed("Only these.", Text("An id.", ID_CHARS_MAX, 1), 1_000),
    "numbers": Listed("As Spark has them in `offset`.", Whole("A number.", 1, SEQ_MAX), 1_000),
}
_FILTER_HELP = "Conditions, all of which a message must meet."
FILTER = RecordField(_FILTER_HELP, _CONDITIONS)
DISCARD_FILTER = RecordField(_FILTER_HELP, _CONDITIONS, count_min=1, required=True)
OPERATIONS = (
    Operation(
        "GET",
        "/queues/{queue}/scheduled",
        "List messages that are scheduled for later, the next one first",
        scheduled,
        "queue.browse",
        {200: ("Messages.", {"type": "object", "properties": {"messages": {"type": "array", "items": LOOKED_AT}}})},
        query=RecordField(
            "How many.", {"limit": Whole(f"Default: {BROWSE_DEFAULT}.", 1, BROWSE_MAX), "encoding": ENCODING}
        ),
    ),
    Operation(
        "DELETE",
        "/queues/{queue}/scheduled/{message_id}",
        "Cancel a message that is scheduled for later",
        cancel,
        "queue.discard",
        DONE,
        audited=True,
    ),
    Operation(
        "POST",
        "/queues/{queue}/redrive",
        "Move messages to another queue, by default each to the one where it died first",
        redrive,
        "queue.redrive",
        {200: ("How many matched, were moved, and could not be moved.", {"type": "object"})},
        body=RecordField(
            "Which ones, where to, and how fast.",
            {
                "to": Name("The queue that they are moved to."),
                "limit": LIMIT,
                "rate_per_second": Number("How many in a second at most.", 0.01, 1e6),
                "dry_run": DRY_RUN,
                "filter": FILTER,
            },
            needs={"rate_per_second": "limit"},
        ),
        audited=True,
        bulk=True,
    ),
    Operation(
        "POST",
        "/queues/{queue}/discard",
        "Remove messages that meet conditions, for good",
        discard,
        "queue.discard",
        {200: ("How many met them.", {"type": "object"})},
        body=RecordField("Which ones.", {"limit": LIMIT, "dry_run": DRY_RUN, "filter": DISCARD_FILTER}),
        audited=True,
        bulk=True,
    ),
)
