"""The life of a traced message as spans, in the words of OpenTelemetry's conventions for messaging.

    span of the publisher           not ours: its context is in the headers of the message, which never change
      |- publish orders             until the message is durable
      |    `- commit orders         its wait for the frame of the journal
      |- deliver orders             from the time when it could be taken until it was
      |    `- ack orders            or nack, reject, expire, ...: how that ended
      `- process orders             not ours: the consumer's, by the same headers

A message that brings no context gets one, once in 1 / ratio messages: then `publish` is the first span of its trace.
"""

import math
import random
import secrets
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from leveret.clock import Clock
from leveret.core.consumer import Consumer
from leveret.core.filters import BLOB
from leveret.core.held import Held
from leveret.core.ids import format_id
from leveret.core.message import Message
from leveret.core.queue import Queue
from leveret.core.tracing import Tracer
from leveret.observability.spans import Attribute, Spans, TraceSpan
from leveret.observability.trace_context import TraceContext, context_of

SYSTEM = "leveret"
QUEUES_MAX = 16  # that a span names
TEXT_CHARS_MAX = 255
UNWRITTEN_MAX = 10_000  # publishes that wait for the disk: one that is stuck must not cost more than that
PERSISTENT = 1  # of core/message.pxd
NS_PER_MS = 1_000_000
ID_MASK = (1 << 64) - 1
ODD = 0x9E3779B97F4A7C15  # multiplying by it gives every number another one of 64 bits

SETTLED = ("ack", "reject", "expire", "drop", "reject", "purge", "cancel", "move", "expire")
"""The operation of each way to leave a queue; see Settled in core/ports.pxd."""
REASONS = ("acked", "rejected", "expired", "maxlen", "delivery_limit", "purged", "cancelled", "moved", "retired")
RETURNED = ("nack", "timeout", "requeue", "delay")
"""The same for going back to it; see Returned."""


NO_SPANS = {"exported": 0, "dropped": 0, "avoided": 0}
"""What a broker counts that traces nothing."""


class Unwritten(NamedTuple):
    """A publish that waits for a frame of the journal."""

    frame: int
    publish: TraceSpan
    entered_ns: int


class SpanPart(NamedTuple):
    """What a span is of its trace."""

    name: str
    span_id: int
    parent_id: int


class BrokerTracer(Tracer):
    """Makes spans of what the core tells. All but `durable` is called under the lock of the broker."""

    def __init__(
        self, clock: Clock, spans: Spans, tag: int, pending: Callable[[], int], *, ratio: float, rate_max: int
    ) -> None:
        """Trace one message of 1 / ratio of those that bring no context, and at most so many of all in a second.

        `tag` is the broker's part of message ids; `pending` gives the frame that has all that was appended.
        """
        self.rate_max = rate_max
        self.spans = spans
        self._clock = clock
        self._tag = tag
        self._pending = pending
        self._ratio = ratio
        self._salt = secrets.randbits(64)
        self._given: TraceContext | None = None
        self._unwritten: deque[Unwritten] = deque()
        self._mutex = threading.Lock()
        self.start()

    # Which messages

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def next_gap(self) -> int:
        """See Tracer: the gaps between messages of which each is chosen by chance."""
        if self._ratio <= 0:
            return 0
        if self._ratio >= 1:
            return 1
        return min(int(math.log(1 - random.random()) / math.log(1 - self._ratio)) + 1, ID_MASK)

    def new_context(self) -> str:
        self._given = TraceContext(secrets.randbits(128) or 1, new_id(), True)
        return self._given.traceparent

    # Their lives

    def published(self, message: Message, queues: list[Queue], start_ns: int) -> None:
        context = context_of(message.properties.headers)
        given, self._given = self._given, None
        if context is None:
            return
        where = message.exchange or queues[0].name
        named = [clipped(queue.name) for queue in queues[:QUEUES_MAX]]
        attributes = {**self._attributes("publish", "send", where, message), "messaging.leveret.queues": named}
        attributes["messaging.leveret.vhost"] = clipped(queues[0].vhost)
        if not message.flags & BLOB:  # of such a one only the place of the body is here
            attributes["messaging.message.body.size"] = len(message.content) - message.header_len
        if message.routing_key:
            attributes["messaging.rabbitmq.destination.routing_key"] = clipped(message.routing_key)
        is_first = given is not None and given.span_id == context.span_id
        now_ns = self.now_ns()
        publish = TraceSpan(
            name=f"publish {clipped(where)}",
            kind="SERVER",
            trace_id=context.trace_id,
            span_id=context.span_id if is_first else new_id(),
            parent_id=0 if is_first else context.span_id,
            state=context.state,
            start_ns=start_ns,
            end_ns=now_ns,
            attributes=attributes,
        )
        frame = self._pending() if message.flags & PERSISTENT else 0
        if not frame:
            self.spans.add(publish)
        elif len(self._unwritten) < UNWRITTEN_MAX:
            self._unwritten.append(Unwritten(frame, publish, now_ns))
        else:
            self.spans.dropped += 1

    def durable(self, frame: int) -> None:
        """A frame of the journal is on the disk, and all before it; in whatever thread."""
        now_ns = self.now_ns()
        with self._mutex:
            while self._unwritten and self._unwritten[0].frame <= frame:
                _, publish, entered_ns = self._unwritten.popleft()
                destination = publish.attributes["messaging.destination.name"]
                commit = publish._replace(
                    name=f"commit {destination}",
                    kind="INTERNAL",
                    span_id=new_id(),
                    parent_id=publish.span_id,
                    start_ns=entered_ns,
                    end_ns=now_ns,
                    attributes={"messaging.system": SYSTEM, "messaging.destination.name": destination},
                )
                self.spans.add(publish._replace(end_ns=now_ns))
                self.spans.add(commit)

    def delivered(self, queue: Queue, held: Held, message: Message) -> None:
        context = context_of(message.properties.headers)
        if context is None:
            return
        attributes = self._attributes("deliver", "receive", queue.name, message)
        attributes["messaging.leveret.delivery_count"] = held.deliveries
        consumer = held.consumer.name if isinstance(held.consumer, Consumer) else held.consumer
        if isinstance(consumer, str) and consumer:
            attributes["messaging.client.id"] = clipped(consumer)
        self._add(
            SpanPart("deliver", self._delivery_id(held), context.span_id),
            queue,
            context,
            attributes,
            since_ns=held.ready_ms * NS_PER_MS if held.deliveries == 1 else None,
        )

    def settled(self, queue: Queue, held: Held, message: Message, how: int) -> None:
        self._ended(SETTLED[how], REASONS[how], queue, held, message)

    def returned(self, queue: Queue, held: Held, message: Message, how: int) -> None:
        self._ended(RETURNED[how], "returned", queue, held, message)

    def _ended(self, name: str, outcome: str, queue: Queue, held: Held, message: Message) -> None:
        """A delivery ended, or a message left without one."""
        context = context_of(message.properties.headers)
        if context is None:
            return
        attributes = self._attributes(name, "settle", queue.name, message)
        attributes["messaging.leveret.outcome"] = outcome
        parent_id = context.span_id
        if held.lease:
            parent_id = self._delivery_id(held)
            attributes["messaging.leveret.held_ms"] = max(0, self._clock.now_ms() - held.delivered_ms)
        self._add(SpanPart(name, new_id(), parent_id), queue, context, attributes)

    def _add(
        self,
        part: SpanPart,
        queue: Queue,
        context: TraceContext,
        attributes: dict[str, Attribute],
        since_ns: int | None = None,
    ) -> None:
        """Leave a span of a queue that ends now; it began now as well, unless something else is said."""
        attributes["messaging.leveret.vhost"] = clipped(queue.vhost)
        end_ns = self.now_ns()
        self.spans.add(
            TraceSpan(
                name=f"{part.name} {clipped(queue.name)}",
                kind="SERVER",
                trace_id=context.trace_id,
                span_id=part.span_id,
                parent_id=part.parent_id,
                state=context.state,
                start_ns=end_ns if since_ns is None else min(since_ns, end_ns),
                end_ns=end_ns,
                attributes=attributes,
            )
        )

    def _attributes(self, name: str, kind: str, destination: str, message: Message) -> dict[str, Attribute]:
        """What every span of a message says."""
        attributes: dict[str, Attribute] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
            "messaging.destination.name": clipped(destination),
            "messaging.message.id": format_id(self._tag, message.seq),
        }
        correlation = message.properties.correlation_id
        if correlation:
            attributes["messaging.message.conversation_id"] = clipped(correlation)
        return attributes

    def _delivery_id(self, held: Held) -> int:
        """The span of a delivery: found again by the number of the lease, so that it need not be kept."""
        return (self._salt + held.lease * ODD) & ID_MASK or 1

    # For operators

    @property
    def counts(self) -> dict[str, int]:
        """What became of spans; those of messages that were too many in a second to be traced were never made."""
        spans = self.spans
        return {"exported": spans.exported, "dropped": spans.dropped + self.failures, "avoided": self.limited}

    def close(self) -> None:
        self.spans.close()


def new_id() -> int:
    """The id of a span."""
    return random.getrandbits(64) or 1


def clipped(text: str) -> str:
    """A name that is not too long, and can be written as UTF-8."""
    return text[:TEXT_CHARS_MAX].encode("utf-8", "replace").decode()
