"""What an application with OpenTelemetry sends carries its context, and what it works on continues one."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, format_span_id, format_trace_id

import leveret
from tests.protocols.rest.world import RestWorld
from tests.waiting import PATIENCE_S


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    provider = TracerProvider()
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def traceparent(span: trace.Span) -> str:
    context = span.get_span_context()
    return f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-01"


def test_what_is_sent_in_a_span_carries_it(exporter: InMemorySpanExporter) -> None:
    with leveret.open() as broker:
        orders = broker.queue("orders")
        with trace.get_tracer("test").start_as_current_span("checkout") as span:
            orders.send("one")
            orders.send_many([b"two", leveret.Outgoing(b"three", headers={"a": 1})])
            orders.send("four", headers={"traceparent": "its own"})
            broker.exchange("amq.fanout").bind(orders)
            broker.exchange("amq.fanout").publish("", "five")
        orders.send("six")
        found = [message.headers for message in orders.receive(10)]
    own = {"traceparent": traceparent(span)}
    assert found == [own, own, {"a": 1, **own}, {"traceparent": "its own"}, own, {}]


def test_what_a_task_sends_in_a_span_carries_it(exporter: InMemorySpanExporter) -> None:
    async def send(broker: leveret.Broker) -> None:
        await leveret.AsyncQueue(broker.queue("orders")).send("one")
        await leveret.AsyncQueue(broker.queue("orders")).send_many(["two"])

    with leveret.open() as broker:
        with trace.get_tracer("test").start_as_current_span("checkout") as span:
            asyncio.run(send(broker))
        found = [message.headers for message in broker.queue("orders").receive(10)]
    assert found == [{"traceparent": traceparent(span)}] * 2


@pytest.mark.parametrize("works", ["embedded", "client"])
def test_a_worker_continues_the_trace(exporter: InMemorySpanExporter, works: str) -> None:
    with leveret.open() as here, RestWorld(here) as world, leveret.connect(world.url, token=world.token) as client:
        orders = (here if works == "embedded" else client).queue("orders")
        with trace.get_tracer("test").start_as_current_span("checkout") as sender:
            message_id = orders.send("x")
        seen: list[trace.Span] = []
        done = threading.Event()

        @orders.worker(concurrency=1)
        def work(message: leveret.Message) -> None:
            seen.append(trace.get_current_span())
            done.set()

        assert done.wait(PATIENCE_S)
        work.stop()
    (process,) = [span for span in exporter.get_finished_spans() if span.name == "process orders"]
    assert seen[0].get_span_context() == process.context
    assert process.parent is not None
    assert process.parent.span_id == sender.get_span_context().span_id
    assert process.kind is SpanKind.CONSUMER
    assert process.attributes is not None
    assert process.attributes["messaging.message.id"] == message_id


def test_a_coroutine_continues_it_too_and_its_failure_is_in_the_span(exporter: InMemorySpanExporter) -> None:
    done = threading.Event()
    with leveret.open() as broker:
        orders = broker.queue("orders")
        orders.send("x")

        @orders.worker(concurrency=1)
        async def work(message: leveret.Message) -> None:
            trace.get_current_span().set_attribute("seen", True)
            done.set()
            raise leveret.Reject("never")

        assert done.wait(PATIENCE_S)
        work.stop()
    (process,) = exporter.get_finished_spans()
    assert process.attributes is not None
    assert process.attributes["seen"] is True
    assert not process.status.is_ok
    assert process.parent is None
