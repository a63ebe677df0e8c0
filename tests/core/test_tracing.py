"""Which messages are traced, and what is told of them; nothing that goes wrong there concerns the message."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leveret.core.broker import Broker
from leveret.core.held import Held
from leveret.core.message import Message
from leveret.core.ports import Journal
from leveret.core.properties import Properties, content
from leveret.core.queue import Queue
from leveret.core.tracing import Tracer
from leveret.observability.trace_context import parse

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
GIVEN = "00-11111111111111111111111111111111-2222222222222222-01"


def headers_of(message: Message) -> dict[str, Any]:
    return message.properties.headers or {}


class Told(Tracer):
    """Remembers what it is told."""

    def __init__(self, gap: int = 0) -> None:
        self.gap = gap
        self.events: list[tuple[str, Any]] = []
        self.start()

    def now_ns(self) -> int:
        return 7

    def next_gap(self) -> int:
        return self.gap

    def new_context(self) -> str:
        return GIVEN

    def published(self, message: Message, queues: list[Queue], start_ns: int) -> None:
        self.events.append(("published", [queue.name for queue in queues]))

    def delivered(self, queue: Queue, held: Held, message: Message) -> None:
        self.events.append(("delivered", headers_of(message)["traceparent"]))

    def settled(self, queue: Queue, held: Held, message: Message, how: int) -> None:
        self.events.append(("settled", how))

    def returned(self, queue: Queue, held: Held, message: Message, how: int) -> None:
        self.events.append(("returned", how))


def traced(tracer: Tracer) -> tuple[Broker, Queue]:
    core = Broker(Journal())
    core.engine.tracer = tracer
    core.tick(1_000)
    return core, core.declare_queue("/", "orders", {})


def send(core: Broker, queue: Queue, headers: dict[str, Any] | None = None) -> None:
    core.send(queue, *content(Properties(content_type="text/plain", headers=headers), b"body"))


def test_a_message_whose_publisher_traces_it_is_told_of() -> None:
    tracer = Told()
    core, orders = traced(tracer)
    send(core, orders, {"first": {"nested": [1]}, "traceparent": TRACEPARENT})
    (held,) = orders.take(1)
    orders.nack(held, held.lease, 0)
    (held,) = orders.take(1)
    orders.ack(held, held.lease)
    assert tracer.events == [
        ("published", ["orders"]),
        ("delivered", TRACEPARENT),
        ("returned", 0),
        ("delivered", TRACEPARENT),
        ("settled", 0),
    ]


@pytest.mark.parametrize("headers", [None, {}, {"other": "x"}, {"traceparent": TRACEPARENT[:-2] + "00"}])
def test_others_are_not(headers: dict[str, Any] | None) -> None:
    tracer = Told()
    core, orders = traced(tracer)
    send(core, orders, headers)
    (held,) = orders.take(1)
    orders.ack(held, held.lease)
    assert tracer.events == []


def test_one_of_so_many_gets_a_context_and_stays_as_it_was_otherwise() -> None:
    tracer = Told(gap=3)
    core, orders = traced(tracer)
    for _ in range(6):
        send(core, orders, {"other": 1, "tracestate": "stale=1"})
    found = [held.message for held in orders.take(6)]
    assert [headers_of(each) for each in found[:3]] == [
        {"other": 1, "tracestate": "stale=1"},
        {"other": 1, "tracestate": "stale=1"},
        {"other": 1, "traceparent": GIVEN},
    ]
    assert {(each.body, each.properties.content_type) for each in found} == {(b"body", "text/plain")}
    assert [event for event, _ in tracer.events] == ["published", "published", "delivered", "delivered"]


def test_a_context_that_is_malformed_counts_as_missing() -> None:
    core, orders = traced(Told(gap=1))
    send(core, orders, {"traceparent": "00-nonsense"})
    assert headers_of(orders.take(1)[0].message)["traceparent"] == GIVEN


def test_there_is_a_limit_for_each_second() -> None:
    tracer = Told()
    tracer.rate_max = 2
    core, orders = traced(tracer)
    for now_ms in (1_000, 1_001, 1_999, 2_000):
        core.tick(now_ms)
        send(core, orders, {"traceparent": TRACEPARENT})
    assert len(tracer.events) == 3
    assert tracer.limited == 1


def test_a_tracer_that_fails_harms_nobody() -> None:
    class Failing(Told):
        def published(self, message: Message, queues: list[Queue], start_ns: int) -> None:
            raise OSError("no")

        delivered = settled = published  # type: ignore[assignment]

    tracer = Failing()
    core, orders = traced(tracer)
    send(core, orders, {"traceparent": TRACEPARENT})
    (held,) = orders.take(1)
    orders.ack(held, held.lease)
    assert tracer.failures == 3
    assert orders.depth == 0


def test_a_message_without_room_for_a_context_goes_without() -> None:
    tracer = Told(gap=1)
    core, orders = traced(tracer)
    send(core, orders, {"large": "x" * 196_580})
    assert orders.take(1)[0].message.body == b"body"
    assert tracer.failures > 0


@given(st.text("0123456789abcdef-ABf", max_size=60) | st.binary(max_size=60))
@example(TRACEPARENT)
@example(TRACEPARENT[:-1])
@example("ff" + TRACEPARENT[2:])
@example("01" + TRACEPARENT[2:] + "-x")
@example("01" + TRACEPARENT[2:] + "x")
@example(TRACEPARENT + "-x")
@example("00-" + "0" * 32 + "-b7ad6b7169203331-01")
def test_the_core_reads_contexts_as_everybody_else_does(text: str | bytes) -> None:
    tracer = Told()
    core, orders = traced(tracer)
    send(core, orders, {"traceparent": text})
    context = parse(text)
    assert bool(tracer.events) == (context is not None and context.sampled)
