"""A workload of pika with a log of its own: what the client saw, for history to be compared with.

The log is made of what pika says: confirms, refusals, returns, deliveries and counts. It knows nothing of the journal.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pika
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from tests.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

    from tests.server_process import ServerProcess

DURABLE, TRANSIENT = 2, 1
LIMIT = 10
LARGE = 64
LARGE_SENT = 3


@dataclass
class ClientLog:
    """What a client did and was told."""

    outcomes: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    """Messages by queue, how they ended, and whether they were transient."""
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Publishes by queue, or `exchange NAME`, and why no queue took them."""
    streams: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Records by stream, appended or read."""


class Workload:
    """Sends and takes messages in every way, `count` in each; what is transient is chosen by the seed."""

    def __init__(self, server: ServerProcess, count: int, seed: int) -> None:
        """Connect."""
        self.log = ClientLog()
        self._server = server
        self._count = count
        self._random = Random(seed)
        self._connection = pika.BlockingConnection(pika.URLParameters(server.url))
        self._channel: BlockingChannel = self._connection.channel()
        self._channel.confirm_delivery()

    def run(self) -> ClientLog:
        """Everything, one after the other."""
        for part in (
            self._worked_on, self._auto_acked, self._expired, self._refused, self._dropped_at_head, self._too_large,
            self._unroutable, self._purged, self._deleted, self._streamed, self._left,
        ):  # fmt: skip
            part()
        self._connection.close()
        return self.log

    def _declare(self, queue: str, durable: bool = True, **arguments: Any) -> str:
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self._channel.queue_declare(queue, durable=durable, arguments=named)
        return queue

    def _send(self, queue: str, body: bytes = b"0123456789abcdef", **properties: Any) -> bool:
        """Publish to a queue; whether it was transient."""
        mode = properties.pop("delivery_mode", None) or self._random.choice((DURABLE, TRANSIENT))
        self._channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=mode, **properties), True)
        return mode == TRANSIENT

    def _depth(self, queue: str) -> int:
        return int(self._channel.queue_declare(queue, passive=True).method.message_count)

    def _worked_on(self) -> None:
        """Acknowledged, given back and acknowledged, or rejected and dead-lettered."""
        queue = self._declare("worked", dead_letter_exchange="", dead_letter_routing_key="graveyard")
        self._declare("graveyard")
        sent = {}
        for number in range(self._count):
            sent[number] = self._send(queue, str(number).encode())
        open_ones = set(sent)
        for method, _, body in self._channel.consume(queue, inactivity_timeout=PATIENCE_S):
            assert method is not None
            number = int(body)
            if number % 5 == 0:
                self._channel.basic_reject(method.delivery_tag, requeue=False)
                self.log.outcomes[queue, "rejected", sent[number]] += 1
                self.log.outcomes["graveyard", "open", sent[number]] += 1
            elif number % 7 == 0 and not method.redelivered:
                self._channel.basic_nack(method.delivery_tag, requeue=True)
                continue
            else:
                self._channel.basic_ack(method.delivery_tag)
                self.log.outcomes[queue, "acked", sent[number]] += 1
            open_ones.discard(number)
            if not open_ones:
                break
        self._channel.cancel()

    def _auto_acked(self) -> None:
        """Taken by consumers, and one by one, that need not acknowledge."""
        queue = self._declare("automatic", durable=False)
        for _ in range(self._count):
            self._send(queue)
        for number, (method, _, _) in enumerate(
            self._channel.consume(queue, auto_ack=True, inactivity_timeout=PATIENCE_S), 1
        ):
            assert method is not None
            if number == self._count:
                break
        self._channel.cancel()
        for _ in range(self._count):
            self._send(queue)
            assert self._channel.basic_get(queue, auto_ack=True)[0] is not None
        # What is in a queue that does not outlive the broker is in memory only.
        self.log.outcomes[queue, "auto_acked", True] += 2 * self._count

    def _expired(self) -> None:
        queue = self._declare("expiring")
        for _ in range(self._count):
            self.log.outcomes[queue, "expired", self._send(queue, expiration="1")] += 1
        wait_until(lambda: self._depth(queue) == 0)

    def _refused(self) -> None:
        """Refused by a full queue, with and without a dead-letter exchange."""
        for queue, overflow in (("full", "reject-publish"), ("full.dlx", "reject-publish-dlx")):
            self._declare(
                queue, max_length=LIMIT, overflow=overflow, dead_letter_exchange="", dead_letter_routing_key="refuge"
            )
            self._declare("refuge")
            for number in range(LIMIT + self._count):
                mode = self._random.choice((DURABLE, TRANSIENT))
                if number < LIMIT:
                    self.log.outcomes[queue, "open", self._send(queue, delivery_mode=mode)] += 1
                    continue
                with suppress(NackError):
                    self._send(queue, delivery_mode=mode)
                    raise AssertionError("a full queue took a message")
                dead_lettered = overflow == "reject-publish-dlx"
                self.log.refused[queue, "full_dead_lettered" if dead_lettered else "full"] += 1
                if dead_lettered:
                    self.log.outcomes["refuge", "open", mode == TRANSIENT] += 1

    def _dropped_at_head(self) -> None:
        queue = self._declare("rolling", max_length=LIMIT)
        sent = [self._send(queue) for _ in range(LIMIT + self._count)]
        for number, transient in enumerate(sent):
            self.log.outcomes[queue, "maxlen" if number < self._count else "open", transient] += 1

    def _too_large(self) -> None:
        """A body over the limit of its queue, which costs the channel."""
        queue = self._declare("small", max_message_size=LARGE)
        for _ in range(LARGE_SENT):
            channel = self._connection.channel()
            channel.confirm_delivery()
            with suppress(ChannelClosedByBroker):
                channel.basic_publish("", queue, bytes(LARGE + 1))
                raise AssertionError("a queue took a message over its limit")
            self.log.refused[queue, "too_large"] += 1

    def _unroutable(self) -> None:
        """To where no queue is: returned, or dropped."""
        for _ in range(self._count):
            with suppress(UnroutableError):
                self._channel.basic_publish("amq.direct", "nowhere", b"x", mandatory=True)
                raise AssertionError("a message without a queue did not come back")
            self.log.refused["exchange amq.direct", "returned"] += 1
            self._channel.basic_publish("amq.fanout", "nowhere", b"x")
            self.log.refused["exchange amq.fanout", "unroutable"] += 1

    def _purged(self) -> None:
        queue = self._declare("purged")
        for _ in range(self._count):
            self.log.outcomes[queue, "purged", self._send(queue)] += 1
        assert self._channel.queue_purge(queue).method.message_count == self._count

    def _deleted(self) -> None:
        """A queue of the connection, deleted with what is in it."""
        queue = self._channel.queue_declare("", exclusive=True).method.queue
        for _ in range(self._count):
            self._send(queue)
        self.log.outcomes[queue, "purged", True] += self._count
        self._channel.queue_delete(queue)

    def _streamed(self) -> None:
        queue = self._declare("log", queue_type="stream")
        for _ in range(self._count):
            self._send(queue, delivery_mode=DURABLE)
        self.log.streams[queue, "appended"] = self._count
        self._channel.basic_qos(prefetch_count=self._count)
        arguments = {"x-stream-offset": "first"}
        taken = self._channel.consume(queue, arguments=arguments, inactivity_timeout=PATIENCE_S)
        for number, (method, _, _) in enumerate(taken, 1):
            assert method is not None
            self._channel.basic_ack(method.delivery_tag)
            if number == self._count:
                break
        self._channel.cancel()
        with self._server.client() as client:
            found = client.stream(queue).read(max_records=self._count // 2)
        self.log.streams[queue, "read"] = self._count + len(found)

    def _left(self) -> None:
        """Nobody takes these."""
        queue = self._declare("left")
        for _ in range(self._count):
            self.log.outcomes[queue, "open", self._send(queue)] += 1


def restarted(log: ClientLog) -> ClientLog:
    """What is to be known after the broker was started again: transient messages are gone."""
    outcomes: Counter[tuple[str, str, bool]] = Counter()
    for (queue, outcome, transient), count in log.outcomes.items():
        outcomes[queue, "lost" if outcome == "open" and transient else outcome, transient] += count
    return ClientLog(outcomes, log.refused, log.streams)
