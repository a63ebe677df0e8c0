"""Scripts for bad clients, decoded from bytes: methods of the table with likely arguments, contents, damage, silence.

The same bytes always mean the same script, so that a finding can be kept as a file. An empty input is an empty script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from leveret.core.properties import Properties, content
from leveret.wire import methods as m
from leveret.wire.codec import encode
from leveret.wire.frames import BODY, HEADER, METHOD
from leveret.wire.methods import METHODS, Method, MethodSpec
from tests.fuzz.arena import LOGIN, TAG_MAX, Arena, Fighter
from tests.protocols.amqp.strategies import class_of
from tests.protocols.amqp.wire import frame

FIGHTERS_MAX = 3
STEPS_MAX = 60
CHANNELS = (1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0, 3, 4, 5)
QUEUES = ("", "q", "q", "p", "quorum", "dead", "r", "s", "amq.rabbitmq.reply-to", "amq.x", "n\r\n", "\udc80")
EXCHANGES = ("", "", "x", "t", "h", "amq.direct", "amq.topic", "amq.headers", "amq.fanout", "missing")
KEYS = ("", "q", "p", "a.b", "a.*", "#", "quorum", "amq.rabbitmq.reply-to", "\udcff")
TAGS = ("", "a", "b")
PLACES = (
    *(("", name) for name in ("q", "q", "q", "p", "quorum", "r", "s", "dead", "nowhere", "amq.rabbitmq.reply-to")),
    *(("x", "a.b"), ("t", "a.b"), ("h", ""), ("amq.fanout", ""), ("missing", "")),
)
TABLES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"x-max-length": 2},
    {"x-max-length": 1, "x-overflow": "reject-publish"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    {"x-dead-letter-exchange": "t", "x-message-ttl": 5},
    {"x-max-priority": 3},
    {"x-queue-type": "quorum"},
    {"x-queue-type": "stream"},
    {"x-single-active-consumer": True},
    {"x-expires": 50},
    {"x-priority": 5},
    {"x-match": "any", "k": "v"},
    {"x-delivery-limit": 1, "x-queue-type": "quorum"},
    {"alternate-exchange": "h"},
    {"x-message-ttl": "soon"},
    {"x-max-length": -1},
    {"deep": [{"a": [None, {"b": 1.5}]}]},
)
NAMED: dict[str, Sequence[Any]] = {
    "queue": QUEUES,
    "exchange": EXCHANGES,
    "source": EXCHANGES,
    "destination": EXCHANGES,
    "type": ("direct", "topic", "fanout", "headers", "x-delayed-message", "curious"),
    "routing_key": KEYS,
    "consumer_tag": TAGS,
    "delivery_tag": (0, 1, 1, 2, 3, 4, 2**63, 2**64 - 1),
    "prefetch_count": (0, 1, 2, 65_535),
    "prefetch_size": (0, 0, 0, 0, 0, 0, 0, 1),
    "immediate": (False,) * 15 + (True,),
    "active": (True,) * 7 + (False,),
    "arguments": TABLES,
}
BY_KIND: dict[str, Sequence[Any]] = {
    "octet": (0, 1, 255),
    "short": (0, 1, 200, 65_535),
    "long": (0, 1, 2**32 - 1),
    "longlong": (0, 1, 2**64 - 1),
    "bit": (False, False, True),
    "shortstr": ("", "text", "ü" * 100),
    "longstr": (b"", b"\0guest\0guest", bytes(300)),
    "table": TABLES,
}
PROPERTIES = (
    None,
    None,
    Properties(delivery_mode=2),
    Properties(delivery_mode=2, priority=2),
    Properties(delivery_mode=2, expiration="1"),
    Properties(delivery_mode=2, headers={"CC": ["p", "dead"], "BCC": ["q"]}),
    Properties(delivery_mode=2, headers={"x-deduplication-id": "same", "k": "v"}),
    Properties(headers={"x-delay": 5}, reply_to="amq.rabbitmq.reply-to"),
    *(Properties(delivery_mode=2, message_id=f"m{n}", headers={"n": n}) for n in range(8)),
    Properties(expiration="soon"),
    Properties(user_id="mallory"),
    Properties(headers={"CC": 5}),
)
BODY_BYTES = (0, 1, 10, 10, 5_000, 20_000, 20_001)
# Those that get a client anywhere come more often than the rest.
LIKELY = [
    spec
    for spec in METHODS
    if spec.name.startswith(("queue.", "basic.", "exchange.", "tx.", "confirm.")) and not spec.name.endswith("-ok")
]

T = TypeVar("T")


class Choices:
    """Bytes that decide; when they are used up, everything is the first choice."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def __bool__(self) -> bool:
        return self._position < len(self._data)

    def number(self, below: int) -> int:
        """A number from 0 on."""
        if not self:
            return 0
        self._position += 1
        return self._data[self._position - 1] % below

    def pick(self, among: Sequence[T]) -> T:
        """One of several."""
        return among[self.number(len(among))]


def method_of(spec: MethodSpec, choices: Choices) -> Method:
    """A method with arguments that may even make sense."""
    named = {
        name: choices.pick(NAMED.get(name, BY_KIND[kind])) for name, kind in spec.arguments if not name.startswith("_")
    }
    return class_of(spec)(**named)


def content_frames(channel: int, choices: Choices) -> list[bytes]:
    """A content, cut where the choices say."""
    size = choices.pick(BODY_BYTES)
    whole, header_len = content(choices.pick(PROPERTIES), bytes(size))
    frames = [frame(HEADER, channel, whole[:header_len])]
    piece = choices.pick((4_000, 4_000, 1, 1_999)) if size < 100 else 4_000
    frames += [frame(BODY, channel, bytes(min(piece, size - start))) for start in range(0, size, piece)]
    return frames


def likely(fighter: Fighter, choices: Choices) -> None:
    """A method that makes sense somewhere."""
    send_method(fighter, choices.pick(LIKELY), choices)


def any_method(fighter: Fighter, choices: Choices) -> None:
    """Any method at all, also those that only servers send."""
    send_method(fighter, choices.pick(METHODS), choices)


def send_method(fighter: Fighter, spec: MethodSpec, choices: Choices) -> None:
    channel = choices.pick(CHANNELS)
    data = frame(METHOD, channel, encode(method_of(spec, choices)))
    if spec.has_content:
        data += b"".join(content_frames(channel, choices))
    fighter.send(data)


def publish(fighter: Fighter, choices: Choices) -> None:
    """A message to a likely place."""
    channel = choices.pick((1, 1, 1, 2))
    exchange, key = choices.pick(PLACES)
    data = frame(METHOD, channel, encode(m.BasicPublish(exchange, key, choices.number(4) == 3)))
    fighter.send(data + b"".join(content_frames(channel, choices)))


def declare(fighter: Fighter, choices: Choices) -> None:
    """A queue that can be used."""
    exclusive, auto_delete = choices.number(8) == 7, choices.number(8) == 7
    method = m.QueueDeclare(
        choices.pick(("r", "s", "")),
        durable=choices.number(4) < 3,
        exclusive=exclusive,
        auto_delete=auto_delete,
        arguments=choices.pick(TABLES[:11]),
    )
    fighter.send(frame(METHOD, 1, encode(method)))


def consume(fighter: Fighter, choices: Choices) -> None:
    """Messages are wanted, with or without acknowledgement."""
    channel = choices.pick((1, 1, 2))
    method = m.BasicConsume(choices.pick(QUEUES[1:8]), choices.pick(TAGS), no_ack=choices.number(3) == 2)
    fighter.send(frame(METHOD, channel, encode(method)))


def settle(fighter: Fighter, choices: Choices) -> None:
    """One or many deliveries end."""
    number = choices.pick((1, 1, 2))
    channel = fighter.connection.channels.get(number)
    tags = channel.unacked.tags(TAG_MAX) if channel is not None else []
    tag = choices.pick(tags) if tags and choices.number(8) else choices.pick(NAMED["delivery_tag"])
    multiple, requeue = choices.number(3) == 2, choices.number(2) == 1
    method = choices.pick((m.BasicAck(tag, multiple), m.BasicNack(tag, multiple, requeue), m.BasicReject(tag, requeue)))
    fighter.send(frame(METHOD, number, encode(method)))


def get(fighter: Fighter, choices: Choices) -> None:
    """One message is wanted."""
    method = m.BasicGet(choices.pick(QUEUES[1:8]), no_ack=choices.number(4) == 3)
    fighter.send(frame(METHOD, choices.pick((1, 2)), encode(method)))


def transact(fighter: Fighter, choices: Choices) -> None:
    """A transaction of publishes and settlements on a channel of its own, to its end or not."""
    fighter.send(frame(METHOD, 3, encode(m.ChannelOpen())) if 3 not in fighter.connection.channels else b"")
    fighter.send(frame(METHOD, 3, encode(m.TxSelect())))
    fighter.send(frame(METHOD, 3, encode(m.BasicGet("q"))))
    for tag in range(choices.number(3)):
        exchange, key = choices.pick(PLACES)
        fighter.send(frame(METHOD, 3, encode(m.BasicPublish(exchange, key))) + b"".join(content_frames(3, choices)))
        fighter.send(frame(METHOD, 3, encode(m.BasicAck(tag, multiple=choices.number(2) == 1))))
    fighter.send(frame(METHOD, 3, encode(choices.pick((m.TxCommit(), m.TxCommit(), m.TxRollback(), m.BasicQos())))))


def confirm(fighter: Fighter, choices: Choices) -> None:
    """Confirms are wanted from now on."""
    fighter.send(frame(METHOD, choices.pick((1, 2)), encode(m.ConfirmSelect())))


def open_channel(fighter: Fighter, choices: Choices) -> None:
    """Another channel, or one that is open."""
    fighter.send(frame(METHOD, choices.pick((1, 2, 3)), encode(m.ChannelOpen())))


def close_ok(fighter: Fighter, choices: Choices) -> None:
    """The answer to a close that may not have come."""
    channel = choices.pick((1, 2, 0))
    fighter.send(frame(METHOD, channel, encode(m.ChannelCloseOk() if channel else m.ConnectionCloseOk())))


def part_of_content(fighter: Fighter, choices: Choices) -> None:
    """A content without its beginning, or without its end."""
    frames = [frame(METHOD, 1, encode(m.BasicPublish("", "q"))), *content_frames(1, choices)]
    first = choices.number(len(frames))
    fighter.send(b"".join(frames[first : first + 1 + choices.number(len(frames))]))


def damaged(fighter: Fighter, choices: Choices) -> None:
    """A frame with one wrong byte, cut off or too long."""
    data = bytearray(frame(METHOD, choices.pick(CHANNELS), encode(method_of(choices.pick(LIKELY), choices))))
    data[choices.number(len(data))] = choices.number(256)
    end = choices.pick((len(data), len(data), len(data) - 1, len(data) // 2))
    fighter.send(bytes(data[:end]))


def noise(fighter: Fighter, choices: Choices) -> None:
    """Bytes."""
    fighter.send(bytes(choices.number(256) for _ in range(choices.number(20))))


ACTIONS: tuple[Callable[[Fighter, Choices], None], ...] = (
    *(declare, publish, publish, publish, publish, publish, consume, consume, settle, settle, settle),
    *(likely, likely, get, get, transact, confirm),
)
WILD = (any_method, any_method, open_channel, close_ok, part_of_content, damaged, noise)
SETUP = (
    *(
        m.ExchangeDeclare(name, kind, durable=True)
        for name, kind in (("x", "direct"), ("t", "topic"), ("h", "headers"))
    ),
    m.QueueDeclare("q", durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}),
    m.QueueDeclare("p", durable=True, arguments={"x-max-priority": 3, "x-max-length": 5}),
    m.QueueDeclare("quorum", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 2}),
    m.QueueDeclare("dead", durable=True),
    m.QueueBind("q", "x", "a.b"),
    m.QueueBind("p", "t", "a.*"),
    m.QueueBind("quorum", "t", "#"),
    m.QueueBind("dead", "h", "", arguments={"x-match": "any", "k": "v"}),
)


def play(arena: Arena, data: bytes) -> None:
    """Do what the bytes say, with several connections; check after each step that everything adds up."""
    choices = Choices(data)
    first = arena.enter()
    for method in SETUP:
        first.send(frame(METHOD, 1, encode(method)))
    for _ in range(STEPS_MAX):
        if not choices:
            return
        step(arena, choices)
        for fighter in list(arena.fighters):
            revive(arena, fighter)
        arena.check()


def step(arena: Arena, choices: Choices) -> None:
    """One thing happens."""
    match choices.number(40):
        case 0 if len(arena.fighters) < FIGHTERS_MAX:
            arena.enter(choices.pick((len(LOGIN), len(LOGIN), len(LOGIN), 0, 1, 2, 3)))
        case 1:
            arena.leave(choices.pick(arena.fighters))
        case 2:
            arena.pass_ms(choices.pick((1, 10, 100, 1_000, 40_000)))
        case 3:
            arena.hub.set_alarm("memory")
            act(arena, choices)
            arena.hub.set_alarm(None)
            arena.settle()
        case 6:
            arena.runtime.behind = True
            act(arena, choices)
            arena.runtime.behind = False
            arena.settle()
        case 7:
            deaf = choices.pick(arena.fighters)
            deaf.connection.writable(False)
            act(arena, choices)
            act(arena, choices)
            deaf.connection.writable(True)
            arena.settle()
        case 4 | 5:
            choices.pick(WILD)(choices.pick(arena.fighters), choices)
        case _:
            act(arena, choices)
    if not arena.fighters:
        arena.enter()


def act(arena: Arena, choices: Choices) -> None:
    """Somebody does something."""
    choices.pick(ACTIONS)(choices.pick(arena.fighters), choices)


def revive(arena: Arena, fighter: Fighter) -> None:
    """Whoever was closed opens again: the dead find nothing."""
    if fighter.connection.finished or fighter.closing:
        arena.leave(fighter)
        arena.enter()
    while fighter.closed_channels:
        channel = fighter.closed_channels.pop()
        fighter.send(
            frame(METHOD, channel, encode(m.ChannelCloseOk())) + frame(METHOD, channel, encode(m.ChannelOpen()))
        )
