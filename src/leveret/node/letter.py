"""A dead letter on its way to queues of other shards, a message that is moved to one of them, or a row of a sink.

In the outbox of its shard it is a message with one more header, which names the virtual host; a row has another one, in
JSON, for what its receivers decide by. Between nodes:

    head (JSON): letter, shard, version, vhost, exchange, routing_key, keys, priority, persistent, moved, header_len,
                 queue, bag, turn, place, of a row: sent, due_ms, expiry_ms, key
    | line feed | content header and body
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any

from leveret.core.broker import Broker
from leveret.core.deadletter import all_keys, forms_cycle
from leveret.core.dedup import digest
from leveret.core.errors import InvalidArgument, QueueFull, TooMany
from leveret.core.ids import format_id
from leveret.core.message import Message
from leveret.core.properties import Properties, content, decode_header
from leveret.core.publish import group_of, route_of
from leveret.core.queue import Queue

ADDRESS = "x-leveret-address"
MOVED = "x-leveret-moved"
SENT = "x-leveret-sent"
PERSISTENT = 1  # of Message.flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter; `letter` is the name that its receivers know it by when it comes again.

    One that is `moved` did not die: it goes to its queue whatever its history is, and waits until that has room. One
    that is `sent` was not published before: it waits, too, has times, and a key if it is not to be published twice.
    """

    letter: str
    vhost: str
    exchange: str
    routing_key: str
    keys: list[str]
    priority: int
    persistent: bool
    moved: bool
    header_len: int
    content: bytes
    sent: bool = False
    due_ms: int = 0
    expiry_ms: int = 0
    key: str = ""
    queue: str = ""
    """The only queue that it is for, if it waits."""
    bag: str = ""
    turn: int = 0
    place: int = 0
    """Of letters of one bag and turn, one is taken only after the one before it."""

    @property
    def properties(self) -> Properties:
        """What it carries."""
        return decode_header(self.content[: self.header_len])

    @property
    def guide(self) -> Properties:
        """What it is routed by."""
        return Properties() if self.moved else self.properties


def addressed(
    properties: Properties, vhost: str, moved: bool = False, sent: Mapping[str, Any] | None = None
) -> Properties:
    """The properties of a letter in the outbox, whatever its publisher made up; `sent` is what is told of a row."""
    headers = {name: value for name, value in (properties.headers or {}).items() if name not in (MOVED, SENT)}
    more = {ADDRESS: vhost, **({MOVED: True} if moved else {}), **({} if sent is None else {SENT: json.dumps(sent)})}
    return replace(properties, headers={**headers, **more})


def letter_of(home: str, tag: int, message: Message, body: bytes) -> Letter:
    """A message of the outbox of a shard; `tag` is that of its broker, `body` what the message or a blob has."""
    properties = message.properties
    headers = dict(properties.headers or {})
    vhost, moved = str(headers.pop(ADDRESS)), bool(headers.pop(MOVED, False))
    sent = headers.pop(SENT, None)
    if sent is not None:
        headers.pop("BCC", None)  # the keys are told beside it
    wire, header_len = content(replace(properties, headers=headers or None), body)
    return Letter(
        letter=f"{home}/{format_id(tag, message.seq)}",
        vhost=vhost,
        exchange=message.exchange,
        routing_key=message.routing_key,
        keys=[message.routing_key] if moved else _keys(properties, message.routing_key),
        priority=message.priority,
        persistent=bool(message.flags & PERSISTENT),
        moved=moved,
        header_len=header_len,
        content=wire,
        **({} if sent is None else {"sent": True, **json.loads(str(sent))}),
    )


def encode(letter: Letter, home: str, version: int) -> bytes:
    """A letter for a shard of another node, which should know this version of the catalog."""
    head = {name: value for name, value in asdict(letter).items() if name != "content"}
    return json.dumps({**head, "shard": home, "version": version}).encode() + b"\n" + letter.content


def decode(head: dict[str, Any], wire: bytes) -> Letter:
    """The reverse, of a head that was read already."""
    try:
        named = [each for each in fields(Letter) if each.name in head or each.default is MISSING]
        told = {each.name: head[each.name] for each in named if each.name != "content"}
        letter = Letter(content=wire, **told)
        if not 0 <= letter.header_len <= len(wire):
            raise ValueError(f"a header of {letter.header_len} bytes")
        bytes.fromhex(letter.key)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"no dead letter: {error}") from None
    return letter


def deliver(core: Broker, letter: Letter) -> None:
    """Give a letter to those queues of a shard that its exchange leads to, unless they had it before.

    Nobody can be told that a dead letter is refused: as in one broker it is dropped where it is. QueueFull: it did not
    die, and is to be brought again.
    """
    home = core.topology.vhosts.get(letter.vhost)
    if home is None or letter.exchange not in home.exchanges:
        return
    properties, guide = letter.properties, letter.guide
    size_bytes = len(letter.content) - letter.header_len
    key = bytes.fromhex(letter.key) or digest(letter.letter)
    found = [
        queue
        for queue in home.route(letter.exchange, letter.keys, guide.headers)
        if letter.queue in ("", queue.name)
        and not forms_cycle(guide, queue.name)
        and _fits(queue, size_bytes)
        and queue.duplicate_of(key) is None
    ]
    if (letter.sent or letter.moved) and any(_is_full(queue, size_bytes) for queue in found):
        raise _full(letter)
    plain = [queue for queue in found if queue.recorder is None]
    for queues in (plain, *([queue] for queue in found if queue.recorder is not None)):
        with suppress(InvalidArgument, TooMany):  # a stream may refuse what its headers ask for
            core.publish(
                queues,
                route_of(letter.exchange, letter.routing_key),
                letter.content,
                letter.header_len,
                priority=letter.priority,
                persistent=letter.persistent,
                group=group_of(properties.headers or {}),
                key=key,
                due_ms=letter.due_ms,
                expiry_ms=letter.expiry_ms,
            )


def _full(letter: Letter) -> QueueFull:
    """That a letter waits."""
    return QueueFull(f"a queue for '{letter.routing_key}' is at its limit: what did not die waits for room")


def _is_full(queue: Queue, size_bytes: int) -> bool:
    """Whether a queue would refuse a message now."""
    return queue.policy.overflow != "drop-head" and queue.would_overflow(size_bytes)


def _fits(queue: Queue, size_bytes: int) -> bool:
    most = queue.policy.max_message_bytes
    return most is None or size_bytes <= most


def _keys(properties: Properties, routing_key: str) -> list[str]:
    """What a dead letter is routed by; a bad CC header does not stop it."""
    try:
        return all_keys(properties, routing_key)
    except InvalidArgument:
        return [routing_key]
