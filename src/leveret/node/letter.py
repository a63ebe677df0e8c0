"""A dead letter on its way to queues of other shards, or a message that is moved to one of them.

In the outbox of its shard it is a message with one more header, which names the virtual host. Between nodes:

    head (JSON): letter, shard, version, vhost, exchange, routing_key, keys, priority, persistent, moved, header_len
    | line feed | content header and body
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
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
PERSISTENT = 1  # of Message.flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter; `letter` is the name that its receivers know it by when it comes again.

    One that is `moved` did not die: it goes to its queue whatever its history is, and waits until that has room.
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

    @property
    def properties(self) -> Properties:
        """What it carries."""
        return decode_header(self.content[: self.header_len])

    @property
    def guide(self) -> Properties:
        """What it is routed by."""
        return Properties() if self.moved else self.properties


def addressed(properties: Properties, vhost: str, moved: bool = False) -> Properties:
    """The properties of a letter in the outbox."""
    more = {ADDRESS: vhost, MOVED: True} if moved else {ADDRESS: vhost}
    return replace(properties, headers={**(properties.headers or {}), **more})


def letter_of(home: str, tag: int, message: Message, body: bytes) -> Letter:
    """A message of the outbox of a shard; `tag` is that of its broker, `body` what the message or a blob has."""
    properties = message.properties
    headers = dict(properties.headers or {})
    vhost, moved = str(headers.pop(ADDRESS)), bool(headers.pop(MOVED, False))
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
    )


def encode(letter: Letter, home: str, version: int) -> bytes:
    """A letter for a shard of another node, which should know this version of the catalog."""
    head = {name: value for name, value in asdict(letter).items() if name != "content"}
    return json.dumps({**head, "shard": home, "version": version}).encode() + b"\n" + letter.content


def decode(head: dict[str, Any], wire: bytes) -> Letter:
    """The reverse, of a head that was read already."""
    try:
        told = {name: head[name] for name in Letter.__slots__ if name != "content"}
        letter = Letter(content=wire, **told)
        if not 0 <= letter.header_len <= len(wire):
            raise ValueError(f"a header of {letter.header_len} bytes")
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"no dead letter: {error}") from None
    return letter


def deliver(core: Broker, letter: Letter) -> None:
    """Give a letter to those queues of a shard that its exchange leads to, unless they had it before.

    Nobody can be told that a dead letter is refused: as in one broker it is dropped where it is. QueueFull: it was
    moved, and is to be brought again.
    """
    home = core.topology.vhosts.get(letter.vhost)
    if home is None or letter.exchange not in home.exchanges:
        return
    properties, guide = letter.properties, letter.guide
    found = [
        queue
        for queue in home.route(letter.exchange, letter.keys, guide.headers)
        if not forms_cycle(guide, queue.name) and _fits(queue, len(letter.content) - letter.header_len)
    ]
    plain = [queue for queue in found if queue.recorder is None]
    for queues in (plain, *([queue] for queue in found if queue.recorder is not None)):
        with suppress(InvalidArgument, TooMany):  # a stream may refuse what its headers ask for
            seq = core.publish(
                queues,
                route_of(letter.exchange, letter.routing_key),
                letter.content,
                letter.header_len,
                priority=letter.priority,
                persistent=letter.persistent,
                group=group_of(properties.headers or {}),
                key=digest(letter.letter),
            )
            if letter.moved and queues and not seq:
                raise QueueFull(f"queue '{letter.routing_key}' is at its limit: what was moved waits for room")


def _fits(queue: Queue, size_bytes: int) -> bool:
    most = queue.policy.max_message_bytes
    return most is None or size_bytes <= most


def _keys(properties: Properties, routing_key: str) -> list[str]:
    """What a dead letter is routed by; a bad CC header does not stop it."""
    try:
        return all_keys(properties, routing_key)
    except InvalidArgument:
        return [routing_key]
