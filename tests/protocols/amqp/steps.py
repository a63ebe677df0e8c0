"""Steps of a client on the wire, and what the server is to say to the last of them."""

from typing import NamedTuple

from leveret.core.properties import Properties
from leveret.wire import methods as m
from leveret.wire.codec import decode
from leveret.wire.frames import METHOD
from leveret.wire.methods import Method
from leveret.wire.replies import Reply
from tests.protocols.amqp.wire import Client

# What comes without being asked for.
UNASKED = (m.BasicDeliver, m.BasicReturn, m.BasicAck, m.BasicNack, m.BasicCancel)


class Publish(NamedTuple):
    """A publish with its content."""

    exchange: str = ""
    routing_key: str = "q"
    properties: Properties | None = None
    body: bytes = b"body"
    immediate: bool = False


class On(NamedTuple):
    """A step on another channel than the first."""

    channel: int
    step: Method | Publish


class Elsewhere(NamedTuple):
    """A step on another connection."""

    step: Method | Publish


class Raw(NamedTuple):
    """Bytes; the ids are those of the method that the answer names."""

    data: bytes
    ids: tuple[int, int] = (0, 0)


Step = Method | Publish | On | Elsewhere | Raw


class Row(NamedTuple):
    """Steps of which the last one goes wrong, and the answer.

    `older` is what RabbitMQ 3.10 says instead; without a text it has words of its own, without a code it
    hangs or breaks.
    """

    name: str
    steps: tuple[Step, ...]
    reply: Reply
    text: str
    older: tuple[Reply | None, str | None] | None = None


def perform(client: Client, step: Step, channel: int = 1) -> None:
    """Do a step and do not wait for its answer."""
    match step:
        case Raw(data):
            client.raw(data)
        case On(other, inner):
            perform(client, inner, other)
        case Publish(exchange, key, properties, body, immediate):
            client.publish(channel, m.BasicPublish(exchange, key, immediate=immediate), properties, body)
        case Method():
            client.send(channel, step)
        case Elsewhere():
            raise AssertionError("whoever has the other connection does this")


def ids_of(step: Step) -> tuple[int, int]:
    """The class and the method that a step sends."""
    match step:
        case Raw(_, ids):
            return ids
        case On(_, inner) | Elsewhere(inner):
            return ids_of(inner)
        case Publish():
            return ids_of(m.BasicPublish())
        case Method():
            spec = step.spec
            return spec.class_id, spec.method_id


def answer(client: Client) -> tuple[int, Method]:
    """The next method that was asked for, with its channel; contents are passed over."""
    while True:
        kind, channel, payload = client.frame()
        if kind == METHOD and not isinstance(method := decode(payload), UNASKED):
            return channel, method


def complete(client: Client, step: Step) -> None:
    """Do a step and wait for its answer, if it has one."""
    perform(client, step)
    inner = step.step if isinstance(step, On) else step
    if isinstance(inner, Method) and inner.spec.replies:
        _, method = answer(client)
        assert method.spec.name in inner.spec.replies, f"{inner} was answered by {method}"
