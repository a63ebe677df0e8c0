"""Reading many messages of a queue, in pages: by reservations, as often as one likes, or without taking them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from leveret.clock import give_turn
from leveret.core import browse
from leveret.core.broker import Broker as Core
from leveret.core.errors import InvalidArgument, NotSupported
from leveret.core.held import Held
from leveret.core.page import MEDIA_TYPE, Page
from leveret.core.publish import group_of
from leveret.core.reservations import (
    BYTES_MAX,
    LEASE_MS_MAX,
    LEASE_MS_MIN,
    MESSAGES_MAX,
    NUMBER_MAX,
    SHARES_MAX,
    ReaderGroup,
    Reserved,
)
from leveret.operations.reservations import described
from leveret.protocols.http.fields import TEXT, WHOLE, Number, PatternText, RecordField, Schema, Whole, array, shape
from leveret.protocols.http.response import Answer, Response, json_response
from leveret.protocols.rest.messages import CONDITIONS
from leveret.protocols.rest.operation import DONE, RestCall, RestOperation, routes
from leveret.runtime.message import Peeked, look
from leveret.runtime.queue import RuntimeQueue
from leveret.runtime.redrive import filter_of
from leveret.runtime.verbs import Durable

if TYPE_CHECKING:
    from leveret.core.browse import Cursor

PAGE_BYTES = 8 << 20
"""When a page is full: it is in memory as a whole, here and where it is read."""
STEP = 250  # messages that one hold of the lock looks at
STEP_BYTES = 1 << 20
NEXT_CHARS_MAX = 79
_FIELDS: dict[str, Schema] = {
    "start": {"type": "integer", "description": "Up to where the group is done."},
    "end": {"type": "integer", "description": "The number of the reservation; start when nothing is reserved."},
    "messages": WHOLE,
    "bytes": WHOLE,
}
_WAITING: Schema = {"type": "integer", "description": "Messages that are ready in the queue."}
_RESERVED = shape("start end messages bytes", **_FIELDS, waiting=_WAITING)
_GROUP: dict[str, Schema] = {
    "name": TEXT,
    "user": {"type": "string", "description": "The user that made the group; its limit counts it."},
    "idle_seconds": {"type": "number", "description": "Since the last request, or the last restart."},
    "lease_seconds": {"type": ["number", "null"], "description": "null: it ends by no clock."},
}
_GROUPS = shape(groups=array(shape(**_GROUP, **_FIELDS)))
_PAGE = {"type": "string", "contentMediaType": MEDIA_TYPE}
Row = tuple[Held, Peeked] | None
"""A message that was looked at; None for one that is gone."""
_NEXT = PatternText(
    "What the page before named as the next one.",
    re.compile(r"(?:[0-9]{1,19}(?:\.[0-9]{1,19}){3})?"),
    "what the page before named as the next one, or left out to begin",
    NEXT_CHARS_MAX,
    chars_min=0,
)
_LEASE = Number(
    "Seconds after which other clients may have the messages unless it is renewed; default: it lasts until the group "
    "moves on or is deleted.",
    LEASE_MS_MIN / 1e3,
    LEASE_MS_MAX / 1e3,
)
OPERATIONS: list[RestOperation] = []
route = routes(OPERATIONS)


def _lease_ms(call: RestCall) -> int:
    """How long a reservation lasts without news; 0: until the group moves on."""
    return round(1000 * (call.body.get("lease_seconds") or 0))


def _described(reserved: Reserved, queue: RuntimeQueue) -> Response:
    """The answer about a reservation."""
    return json_response({**reserved._asdict(), "waiting": queue.anyway.depth})


@route(
    "POST /queues/{queue}/reservations/{group}",
    "queue.reserve",
    {200: ("What is reserved; it stays so after a restart.", _RESERVED)},
    body=RecordField(
        "Up to where the group is done, and how much it wants.",
        {
            "start": Whole("The end of the last reservation; default: that of the group.", 0, NUMBER_MAX),
            "max_messages": Whole("How many at most; 0: only acknowledge.", 0, MESSAGES_MAX),
            "max_bytes": Whole("How many bytes, about.", 1, BYTES_MAX),
            "lease_seconds": _LEASE,
        },
    ),
)
def reserve(call: RestCall) -> Any:
    """Reserve the next messages for a group, and acknowledge those before; the same start gets the same ones."""
    queue, body = call.queue, call.body
    count, size = body.get("max_messages", MESSAGES_MAX), body.get("max_bytes", BYTES_MAX)
    name, start = call.request.parameters["group"], body.get("start")

    def verb() -> Durable[Response]:
        with queue.runtime as core:
            turns = core.reservations.reserve(queue.core, name, start, count, size, _lease_ms(call), call.owner)
        while True:
            with queue.runtime:
                try:
                    next(turns)
                except StopIteration as end:
                    return queue.runtime.commit(), _described(end.value, queue)
            give_turn()

    return call.async_broker.durably(verb)


@route("GET /queues/{queue}/reservations", "queue.reserve", {200: ("Groups by name.", _GROUPS)})
def list_groups(call: RestCall) -> Any:
    """List the groups that read a queue by reservations."""
    queue = call.queue
    with queue.runtime as core:
        groups = [described(group, core.now_ms) for group in core.reservations.of(queue.core)]
    return json_response({"groups": sorted(groups, key=lambda row: row["name"])})


def _group(call: RestCall, core: Core, queue: RuntimeQueue) -> ReaderGroup:
    """The group that the path names. Under the lock."""
    return core.reservations.get(queue.core, call.request.parameters["group"])


@route("GET /queues/{queue}/reservations/{group}", "queue.reserve", {200: ("What is reserved.", _RESERVED)})
def show_reservation(call: RestCall) -> Any:
    """Look at what a group has reserved."""
    queue = call.queue
    with queue.runtime as core:
        group = core.reservations.find(queue.core, call.request.parameters["group"])
        return _described(Reserved(0, 0, 0, 0) if group is None else group.reserved, queue)


@route(
    "PATCH /queues/{queue}/reservations/{group}",
    "queue.reserve",
    {204: ("It is kept.", None)},
    body=RecordField("For how long.", {"lease_seconds": _LEASE}),
)
def renew(call: RestCall) -> Any:
    """Keep what is reserved for longer."""
    queue = call.queue
    with queue.runtime as core:
        _group(call, core, queue).renew(_lease_ms(call))
    return Response(204)


@route("DELETE /queues/{queue}/reservations/{group}", "queue.reserve", DONE)
def end(call: RestCall) -> Any:
    """Give back what a group has reserved, and forget the group."""
    queue = call.queue
    return call.change(lambda core: core.reservations.delete(queue.core, call.request.parameters["group"]))


@route(
    "GET /queues/{queue}/reservations/{group}/messages",
    "queue.reserve",
    {200: ("Messages in columns, and the index of the next one.", _PAGE)},
    query=RecordField(
        "Which ones.",
        {
            "reservation": Whole(
                "The number of the reservation: the `end` of its answer.", 0, NUMBER_MAX, required=True
            ),
            "at": Whole("The index of the first one; default: 0.", 0, MESSAGES_MAX),
            "end": Whole("The index after the last one; default: all.", 0, MESSAGES_MAX),
            "share": Whole("Only this share of the message groups, counted from 0.", 0, SHARES_MAX - 1),
            "shares": Whole("How many shares there are; default: 1.", 1, SHARES_MAX),
        },
    ),
)
async def read_reserved(call: RestCall) -> Answer:
    """Read a page of what is reserved, as often as you like."""
    queue, number = call.queue, call.query["reservation"]
    at, to = call.query.get("at", 0), call.query.get("end", MESSAGES_MAX)
    share, shares = call.query.get("share", 0), call.query.get("shares", 1)
    if share >= shares:
        raise InvalidArgument(f"share {share} of {shares}: shares are counted from 0")

    def step(at: int) -> list[Row]:
        """The messages from an index on, in one hold of the lock."""
        with queue.runtime as core:
            found = _group(call, core, queue).messages(number, at, max(0, min(STEP, to - at)))
            return _looked_at(queue, found)

    def page() -> bytes:
        filling, place = Page(), at
        while filling.bytes < PAGE_BYTES:
            rows = step(place)
            if not rows:
                return filling.finish()
            _fill(filling, rows if shares == 1 else [row for row in rows if _share_of(row, shares) == share])
            place += len(rows)
        return filling.finish(str(place))

    return Response(200, await call.async_broker.in_thread(page), MEDIA_TYPE)


def _looked_at(queue: RuntimeQueue, found: Iterable[Held | None]) -> list[Row]:
    """Messages with their contents, up to some bytes. Under the lock."""
    rows: list[Row] = []
    size = 0
    for held in found:
        rows.append(None if held is None else (held, look(queue, held)))
        size += 0 if held is None else held.size
        if size >= STEP_BYTES:
            break
    return rows


def _share_of(row: Row, shares: int) -> int:
    """Which share a message is in: that of its group, or any if it has none."""
    if row is None:
        return 0
    held, peeked = row
    return (group_of(peeked.content.properties.headers or {}) or held.seq) % shares


def _fill(page: Page, rows: Iterable[Row]) -> None:
    """Put messages on a page. Not under the lock: large bodies are in another store, and getting them takes time."""
    for row in rows:
        if row is not None:
            page.add(row[0], row[1].content, row[1].data)


@route(
    "GET /queues/{queue}/pages",
    "queue.browse",
    {200: ("Messages in columns in the order of delivery, and where the next page begins.", _PAGE)},
    query=RecordField("Which ones.", {"after": _NEXT, **CONDITIONS}),
)
async def browse_page(call: RestCall) -> Answer:
    """Read a page of messages without taking them."""
    queue, query = call.queue, dict(call.query)
    cursor: Cursor | None = _cursor(query.pop("after", ""))
    if queue.anyway.recorder is not None:
        raise NotSupported(f"'{queue.name}' is a stream, no queue: its records have offsets; read it as a stream")
    chosen = filter_of(queue.tag, query)

    def page() -> bytes:
        nonlocal cursor
        filling = Page()
        while cursor is not None and filling.bytes < PAGE_BYTES:
            with queue.runtime:
                seen, cursor = browse.ready_after(queue.core, cursor, STEP)
                rows = [(held, look(queue, held)) for held in seen if chosen.accepts(browse.read(held))]
            _fill(filling, rows)
            give_turn()
        return filling.finish("" if cursor is None else ".".join(map(str, cursor)))

    return Response(200, await call.scans.run(page), MEDIA_TYPE)


def _cursor(text: str) -> Cursor:
    """The place that a page named as the begin of the next one."""
    if not text:
        return ()
    index, lane_seq, after_ms, after_seq = map(int, text.split("."))
    return min(index, 1 << 31), lane_seq, after_ms, after_seq
