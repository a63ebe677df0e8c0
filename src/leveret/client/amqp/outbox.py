"""Messages on their way out: headers that are made once, ids, and what became of them.

A message without an id gets one of ours: twelve digits of its client and twelve that count, in hexadecimal. A return of
the broker is found by it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from leveret.client.amqp.channels import Publish
from leveret.core.errors import InvalidArgument, NotSupported
from leveret.core.properties import Properties, encode_header
from leveret.observability.propagation import context_headers, traced
from leveret.runtime.bodies import BYTES_TYPE
from leveret.runtime.bodies import encode as encode_body
from leveret.runtime.keywords import SendOptions
from leveret.runtime.outgoing import PLAIN, Outgoing, properties_of
from leveret.wire.codec import encode
from leveret.wire.methods import BasicPublish

DIGITS = 12
CHUNK = 1_000
"""Messages that are written at once: the broker confirms the first ones while the next are made."""
CHUNK_BYTES = 2 * 2**20
AFTER_ID = ("timestamp", "type", "user_id", "app_id", "cluster_id")
HEADER_BYTES_MAX = 100_000
"""Of all properties and headers: a content header has to fit into one frame."""


class Template(NamedTuple):
    """A content header, and where in it the number of a message is; -1: it has an id of its own."""

    header: bytes
    number_at: int
    message_id: str | None


class Outbox:
    """What a client publishes."""

    def __init__(self) -> None:
        self.prefix = secrets.token_hex(DIGITS // 2)
        self._next = 0
        self._lock = threading.Lock()
        self._plain: dict[str, Template] = {}

    def numbers(self, count: int) -> int:
        """The first of so many numbers."""
        with self._lock:
            self._next += count
            return self._next - count

    def one(self, method: bytes, body: Any, options: SendOptions) -> Publish:
        """A message to publish."""
        message = Outgoing(body, **options) if options else None
        if message is None and type(body) is bytes and not context_headers():
            found = self._plain.get(BYTES_TYPE)
            if found is not None:
                return Publish(method, found.header, found.number_at, self.numbers(1), [body], None)
        message = message or Outgoing(body)
        content_type, data = encode_body(message.body)
        template = self._template(message, content_type)
        return Publish(method, template.header, template.number_at, self.numbers(1), [data], template.message_id)

    def many(self, method: bytes, bodies: Iterable[Any], options: Mapping[str, Any]) -> Iterator[Publish]:
        """Messages to publish, those together that are alike."""
        source = iter(bodies)
        while chunk := list(islice(source, CHUNK)):
            if not options and all(type(body) is bytes for body in chunk) and sum(map(len, chunk)) <= CHUNK_BYTES:
                template = self._template(Outgoing(b""), BYTES_TYPE)
                yield Publish(
                    method, template.header, template.number_at, self.numbers(len(chunk)), chunk, template.message_id
                )
            else:
                yield from self._runs(method, chunk, options)

    def _runs(self, method: bytes, chunk: list[Any], options: Mapping[str, Any]) -> Iterator[Publish]:
        """Messages of one chunk, those behind one another that have the same header."""
        run: list[bytes] = []
        size, before = 0, None
        for body in chunk:
            message = body if isinstance(body, Outgoing) else Outgoing(body, **options)
            content_type, data = encode_body(message.body)
            template = self._template(message, content_type)
            if run and (template != before or template.number_at < 0 or size > CHUNK_BYTES):
                assert before is not None
                yield Publish(method, before.header, before.number_at, self.numbers(len(run)), run, before.message_id)
                run, size = [], 0
            run.append(data)
            size += len(data)
            before = template
        if before is not None:
            yield Publish(method, before.header, before.number_at, self.numbers(len(run)), run, before.message_id)

    def _template(self, message: Outgoing, content_type: str) -> Template:
        """The header of a message; of one without options it is made once."""
        plain = message[1:] == PLAIN and not context_headers()
        found = self._plain.get(content_type) if plain else None
        if found is None:
            found = self._made(message._replace(headers=traced(message.headers)), content_type)
            if plain:
                self._plain[content_type] = found
        return found

    def _made(self, message: Outgoing, content_type: str) -> Template:
        if message.delay is not None:
            message = message._replace(headers={**(message.headers or {}), "x-delay": delay_ms(message.delay)})
        properties = properties_of(message, content_type)
        own = properties.message_id
        if own is None:
            properties.message_id = self.prefix + "0" * DIGITS
        header = encode_header(properties, 0)
        if len(header) > HEADER_BYTES_MAX:
            raise InvalidArgument(f"headers of {len(header)} bytes are too many: put what is large into the body")
        after = Properties(**{name: getattr(properties, name) for name in AFTER_ID})
        number_at = len(header) - (len(encode_header(after, 0)) - len(encode_header(Properties(), 0))) - DIGITS
        return Template(header, -1 if own is not None else number_at, own)

    def ids(self, publish: Publish) -> list[str | None]:
        """The ids of messages; None for those that the broker refused."""
        if publish.number_at < 0:
            found: list[str | None] = [publish.message_id]
        else:
            first = publish.number
            found = [f"{self.prefix}{number:012x}" for number in range(first, first + len(publish.bodies))]
        for place in publish.outcome.refused if publish.outcome is not None else ():
            found[place] = None
        return found

    def id(self, publish: Publish) -> str:
        """The id of a single message."""
        return publish.message_id or f"{self.prefix}{publish.number:012x}"


def publish_method(exchange: str, routing_key: str) -> bytes:
    """The method that publishes; what no queue gets comes back."""
    return encode(BasicPublish(exchange, routing_key, mandatory=True))


def refuse_delay(options: Mapping[str, Any]) -> None:
    """Only exchanges of a type for that delay messages over AMQP."""
    if options.get("delay") is not None:
        raise NotSupported(
            "AMQP sends no message with a delay to a queue: publish to an exchange of the type x-delayed-message, or "
            "send by leveret.connect('http://...')"
        )


def delay_ms(seconds: Any) -> int:
    """A delay as the exchange counts it."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 2**31:
        raise InvalidArgument(f"delay is a number of seconds, not {seconds!r}")
    return round(seconds * 1000)
