"""Rows of a piece as messages: where each goes, and what it carries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from leveret.core.errors import InvalidArgument
from leveret.core.properties import Properties, encode_header
from leveret.core.publish import Publisher
from leveret.core.queue import Queue
from leveret.core.streams import Author
from leveret.core.tables import MalformedTable, decode_table
from leveret.ingest.cells import Kind, Numbers, Packed, PackedField, Texts
from leveret.ingest.row_groups import Cell, RowGroup
from leveret.runtime.outgoing import Outgoing, PreparedMessage, check_size, prepare
from leveret.storage.stream.recorder import KEY

PROPERTIES = ("message_id", "content_type", "content_encoding", "correlation_id", "reply_to", "type", "app_id")
NAMED = (*PROPERTIES, "timestamp", "priority", "expiration", "headers", "delivery_mode")
"""Properties that a row may set, by their column or by another one."""
PLAIN = {*PROPERTIES, "timestamp", "priority", "delay_ms", "ttl_ms"}
"""Columns that say nothing about routes, groups and duplicates."""
PACKED = {*PLAIN, "key"}
"""Those that a queue takes as they are: of headers, an exchange might route by them."""
DESTINATION = ("queue", "exchange", "routing_key")
MS_PER_S = 1000
HEADER_BYTES = len(encode_header(Properties(), 0))  # of a content header without properties
FIELDS: dict[str, tuple[Kind, str | None]] = {
    "content_type": (Kind.SHORT_STRING, "content_type"),
    "content_encoding": (Kind.SHORT_STRING, "content_encoding"),
    "headers": (Kind.KEY, "key"),
    "delivery_mode": (Kind.OCTET, None),
    "priority": (Kind.OCTET, "priority"),
    "correlation_id": (Kind.SHORT_STRING, "correlation_id"),
    "reply_to": (Kind.SHORT_STRING, "reply_to"),
    "expiration": (Kind.DIGITS, "ttl_ms"),
    "message_id": (Kind.SHORT_STRING, "message_id"),
    "timestamp": (Kind.LONG, "timestamp"),
    "type": (Kind.SHORT_STRING, "type"),
    "user_id": (Kind.SHORT_STRING, None),
    "app_id": (Kind.SHORT_STRING, "app_id"),
}
"""Properties in the order of content headers: how they are written, and the plain column that sets them."""


class RowDestination(NamedTuple):
    """A queue, or an exchange and a routing key."""

    queue: str | None
    exchange: str = ""
    routing_key: str = ""


class IngestRow(NamedTuple):
    """One message; rows that are alike but for their body share what they carry."""

    destination: RowDestination
    message: PreparedMessage
    body: bytes
    sent: bytes | None = None
    """What its writer sent, if the body is a pointer to that."""


@dataclass(frozen=True, slots=True)
class RowRun:
    """Rows of a piece from `first` to before `end`, for one place: they can be published without looking at each."""

    rows: IngestRows
    packed: Packed
    destination: RowDestination
    common: PreparedMessage
    """What all of them carry, but for what columns say."""
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    def __iter__(self) -> Iterator[IngestRow]:
        return islice(self.rows.read(self.first), len(self))

    def after(self, count: int) -> RowRun:
        """The same without the first."""
        return RowRun(self.rows, self.packed, self.destination, self.common, self.first + count, self.end)

    def cut(self, rows_max: int, bytes_max: int) -> Iterator[RowRun]:
        """The same in runs that are not too long."""
        first = self.first
        while first < self.end:
            end = min(self.end, self.packed.end_of(first, rows_max, bytes_max))
            yield RowRun(self.rows, self.packed, self.destination, self.common, first, end)
            first = end

    def publish(self, publisher: Publisher, queue: Queue, author: Author) -> None:
        """Put all of them into a queue that takes everything as it is, or append them to a stream."""
        self.packed.publish(publisher, queue, author, self.first, self.end)


class IngestRows:
    """The rows of a piece, in order."""

    def __init__(self, row_group: RowGroup, body_bytes_max: int) -> None:
        self._row_group = row_group
        self._body_bytes_max = body_bytes_max
        varying = [name for name in row_group.columns if name != "value"]
        self._destination = None if set(varying) & set(DESTINATION) or not row_group.rows else self._destination_of(0)
        self._said = {name: row_group.columns[name] for name in varying if name not in DESTINATION}
        self._base = self._prepared(row_group.constants)
        self._base_properties = {name: getattr(self._base.properties, name) for name in NAMED}

    def __len__(self) -> int:
        return self._row_group.rows

    @property
    def destinations(self) -> set[RowDestination]:
        """Where the piece goes."""
        return destinations(self._row_group)

    def row_run(self, first: int) -> RowRun | None:
        """The rows from one on as a run; None if they have to be looked at one by one."""
        columns = self._row_group.columns
        bodies = columns.get("value")
        if self._destination is None or not isinstance(bodies, Texts) or bodies.longest > self._body_bytes_max:
            return None
        texts = (column for column in self._said.values() if isinstance(column, Texts))
        keyed = "key" in self._said and self._base.properties.headers is not None
        if keyed or not self._said.keys() <= PACKED or not all(column.is_utf8() for column in texts):
            return None
        return RowRun(self, self._packed(bodies), self._destination, self._base, first, self._row_group.rows)

    def _packed(self, bodies: Texts) -> Packed:
        """All rows, with what columns say."""
        base, said = self._base, self._said
        fields = []
        for place, (name, (kind, column)) in enumerate(FIELDS.items()):
            value = self._base_properties.get(name)
            common = b"" if value is None else encode_header(Properties(**{name: value}), 0)[HEADER_BYTES:]
            if common or column in said:
                fields.append(PackedField(place, kind, common, said.get(column or "")))
        return Packed(
            bodies,
            fields,
            priority=base.priority,
            delay_ms=base.delay_ms,
            ttl_ms=base.ttl_ms,
            group=base.group,
            priorities=_numbers(said, "priority"),
            delays=_numbers(said, "delay_ms"),
            ttls=_numbers(said, "ttl_ms"),
        )

    def read(self, first: int = 0) -> Iterator[IngestRow]:
        if not self._said:
            return self._rows(first, lambda row: self._base)
        return self._rows(first, self._varied if self._said.keys() <= PLAIN else self._prepared_of)

    def outline(self, first: int = 0) -> Iterator[IngestRow]:
        """The rows from one on, checked; what decides nothing about where they go is left out."""
        return self._rows(first, self._checked if self._said.keys() <= PLAIN else self._prepared_of)

    def _rows(self, first: int, message_of: Callable[[int], PreparedMessage]) -> Iterator[IngestRow]:
        destination, cell = self._destination, self._row_group.cell
        for row in range(first, self._row_group.rows):
            body = cell("value", row)
            assert not isinstance(body, int), "it is a column of bytes"
            check_size(len(body or b""), self._body_bytes_max)
            yield IngestRow(
                self._destination_of(row) if destination is None else destination, message_of(row), body or b""
            )

    def _destination_of(self, row: int) -> RowDestination:
        return _destination(*(self._row_group.cell(name, row) for name in DESTINATION))

    def _checked(self, row: int) -> PreparedMessage:
        """What all rows have in common, if the rest can be read; its range was checked with the piece."""
        for name, column in self._said.items():
            if name in PROPERTIES:
                _text(name, column[row])
        return self._base

    def _varied(self, row: int) -> PreparedMessage:
        """What all rows have in common, with what this one says: the short way, for what needs no further check."""
        base, named = self._base, dict(self._base_properties)
        priority, delay_ms, ttl_ms = base.priority, base.delay_ms, base.ttl_ms
        for name, column in self._said.items():
            cell = column[row]
            if isinstance(cell, bytes):
                named[name] = _text(name, cell)
            elif cell is None:
                continue
            elif name == "delay_ms":
                delay_ms = cell
            elif name == "ttl_ms":
                ttl_ms, named["expiration"] = cell, str(cell)
            else:
                named[name] = cell
                priority = cell if name == "priority" else priority
        return PreparedMessage(Properties(**named), b"", priority, delay_ms, ttl_ms, base.group, base.key)

    def _prepared_of(self, row: int) -> PreparedMessage:
        """What a row carries, with whatever it says."""
        return self._prepared(self._row_group.constants | {name: column[row] for name, column in self._said.items()})

    def _prepared(self, cells: Mapping[str, Cell]) -> PreparedMessage:
        """What cells say of a message, checked; without its body."""
        properties: dict[str, Any] = {
            name: _text(name, cells[name]) for name in PROPERTIES if cells.get(name) is not None
        }
        if cells.get("timestamp") is not None:
            properties["timestamp"] = cells["timestamp"]
        priority = cells.get("priority")
        assert not isinstance(priority, bytes), "it is a column of numbers"
        message = Outgoing(
            b"",
            priority,
            _seconds(cells.get("delay_ms")),
            _seconds(cells.get("ttl_ms")),
            _text("message_group_id", cells.get("message_group_id")),
            _text("dedup_id", cells.get("dedup_id")),
            _headers(cells),
            properties,
        )
        return prepare(message, self._body_bytes_max)


def _numbers(said: Mapping[str, Texts | Numbers], name: str) -> Numbers | None:
    column = said.get(name)
    assert not isinstance(column, Texts), "it is a column of numbers"
    return column


def destinations(row_group: RowGroup) -> set[RowDestination]:
    """Every queue and exchange that a piece goes to, whatever the routing key; refuse a row that goes nowhere.

    A piece without rows goes where its constants say: permissions count for it, too.
    """
    pairs = row_group.distinct("queue", "exchange")
    if (None, None) in ((queue or None, exchange or None) for queue, exchange in pairs):
        rows = row_group.distinct(*DESTINATION)
    else:
        rows = {(queue, exchange, None) for queue, exchange in pairs}
    return {_destination(*row)._replace(routing_key="") for row in rows}


def _destination(*cells: Cell) -> RowDestination:
    """Where a row goes; the default exchange is the way to the queue that the routing key names."""
    queue, exchange, key = (_text(name, cell) for name, cell in zip(DESTINATION, cells, strict=True))
    if queue is None and not exchange:
        queue = key
    if not queue and not exchange:
        raise InvalidArgument("a row has neither a queue nor an exchange: name one of them for all rows, or for each")
    return RowDestination(queue) if queue else RowDestination(None, exchange or "", key or "")


def _text(name: str, cell: Cell) -> str | None:
    assert not isinstance(cell, int), "it is a column of texts"
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        raise InvalidArgument(f"{name} has bytes that are no UTF-8: send text") from None


def _seconds(cell: Cell) -> float | None:
    assert not isinstance(cell, bytes), "it is a column of numbers"
    return None if cell is None else cell / MS_PER_S


def _headers(cells: Mapping[str, Cell]) -> dict[str, Any] | None:
    """The headers of a row, among which its key is."""
    headers, key = _table(cells.get("headers")), _text("key", cells.get("key"))
    return headers if key is None else {**(headers or {}), KEY: key}


def _table(cell: Cell) -> dict[str, Any] | None:
    if cell is None:
        return None
    assert isinstance(cell, bytes), "it is a column of bytes"
    try:
        table, end = decode_table(cell)
    except MalformedTable as error:
        raise InvalidArgument(
            f"headers are no table of AMQP ({error}): send them by a client of this version"
        ) from None
    if end != len(cell):
        raise InvalidArgument("headers have bytes after their end: send them by a client of this version")
    return table
