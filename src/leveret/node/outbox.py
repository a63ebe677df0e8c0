"""The outbox of a shard: dead letters for queues of other shards, messages that are moved to them, rows of sinks.

    dies -> [one frame: settled, and in the outbox] -> sent to each shard, which may have it already -> [acknowledged]

Whatever goes wrong in between, it is still in the outbox. It is a queue in a virtual host of its own, which the catalog
does not know: no client can name it, and no policy reaches it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from leveret.amqp.bodies import tried
from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, InvalidReceipt, JournalFailed
from leveret.core.held import Held
from leveret.core.names import INTERNAL_VHOST
from leveret.core.properties import Properties, content
from leveret.core.publish import route_of
from leveret.core.queue import Queue
from leveret.journal.blobs import body_bytes
from leveret.node.letter import Letter, addressed, letter_of
from leveret.telemetry.logs import Log

if TYPE_CHECKING:
    from leveret.amqp.hub import Hub

NAME = "outbox"
ROWS_MAX = 10_000  # letters after which rows of sinks wait
SENDING_MAX = 256  # letters that wait for an answer
SENDING_BYTES_MAX = 16 << 20  # taken at a time
ANSWER_MS = 5_000  # after which a letter is sent again
BLOB = 2  # of Message.flags

LOG = Log("node")


class Office(Protocol):
    """What an outbox needs of its node."""

    def homes(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> set[str]:
        """The shards of the queues that a dead letter goes to; from whatever thread, under the lock of a shard."""

    def definitions(self) -> AbstractContextManager[Broker]:
        """What there is in all shards, under a lock; from whatever thread, with or without the lock of a shard."""

    def post(self, home: str, letter: Letter, done: Callable[[bool], None]) -> None:
        """Bring a letter to a shard, then say, not under a lock, whether it is durable there."""

    def wake(self, job: Callable[[], None]) -> None:
        """Do something soon in the loop; from whatever thread."""


class Sending:
    """A letter that is not everywhere yet."""

    def __init__(self, held: Held) -> None:
        """It is in the outbox; what it says is not fetched."""
        self.held = held
        self.letter: Letter | None = None
        self.homes: set[str] = set()
        self.asked_ms: dict[str, int] = {}


class Outbox:
    """The dead letters of one shard for all the others."""

    def __init__(self, home: str, core: Broker, office: Office) -> None:
        """Keep them from now on; they are sent as soon as there is a hub."""
        self._home = home
        self._core = core
        self._office = office
        self._hub: Hub | None = None
        self._woken = False
        self._sending: dict[int, Sending] = {}
        self.definitions = office.definitions
        self.dropped = 0
        """Letters whose queues had gone when they could be sent."""
        core.outbox = self._keep
        core.away = self._forward

    def start(self, hub: Hub) -> None:
        """Send what there is, and what will come."""
        self._hub = hub
        self._wake()

    def close(self) -> None:
        """Send no more: the next owner has what is not acknowledged, and what still dies here."""
        hub, self._hub = self._hub, None
        sending, self._sending = self._sending, {}
        if hub is not None and sending:
            with suppress(JournalFailed, BrokerClosed), hub.locked():
                for each in sending.values():
                    with suppress(InvalidReceipt):
                        each.held.queue.nack(each.held, each.held.lease, 0)

    @property
    def depth(self) -> int:
        """How many letters are not everywhere yet."""
        known = self._core.topology.vhosts.get(INTERNAL_VHOST)
        queue = None if known is None else known.queues.get(NAME)
        return 0 if queue is None else queue.depth + queue.leased

    # Under the lock of the shard

    def _keep(
        self, vhost: str, exchange: str, keys: list[str], properties: Properties
    ) -> list[tuple[Properties, list[Queue]]]:
        """See leveret.core.deadletter.Outbox."""
        if not self._office.homes(vhost, exchange, keys, properties) - {self._home}:
            return []
        self._wake()
        return [(addressed(properties, vhost), [self._queue(self._core)])]

    def _forward(self, vhost: str, name: str, properties: Properties) -> tuple[Properties, Queue] | None:
        """See leveret.core.deadletter.Away."""
        if not self._office.homes(vhost, "", [name], Properties()) - {self._home}:
            return None
        self._wake()
        return addressed(properties, vhost, moved=True), self._queue(self._core)

    def _queue(self, core: Broker) -> Queue:
        """The queue, made when it is first needed."""
        known = core.topology.vhosts.get(INTERNAL_VHOST)
        if known is not None and NAME in known.queues:
            found: Queue = known.queues[NAME]
            return found
        core.declare_vhost(INTERNAL_VHOST)
        return core.declare_queue(INTERNAL_VHOST, NAME)

    def reaches(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> bool:
        """See leveret.sink.elsewhere.Elsewhere."""
        return bool(self._office.homes(vhost, exchange, keys, properties) - {self._home})

    def has_room(self) -> bool:
        """See Elsewhere."""
        return self.depth < ROWS_MAX

    def send(
        self, vhost: str, exchange: str, routing_key: str, properties: Properties, body: bytes, **options: Any
    ) -> None:
        """See Elsewhere."""
        told = {"due_ms": options["due_ms"], "expiry_ms": options["expiry_ms"], "key": (options["key"] or b"").hex()}
        wire = content(addressed(properties, vhost, not exchange, told), body)
        times = {"priority": options["priority"], "group": options["group"], "blob": options["blob"]}
        self._core.publish([self._queue(self._core)], route_of(exchange, routing_key), *wire, **times)
        self._wake()

    # In the loop, not under a lock

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._office.wake(self.forward)

    def forward(self) -> None:
        """Send what waits as soon as its death is durable."""
        self._woken = False
        if self._hub is not None:
            with suppress(JournalFailed, BrokerClosed), self._hub.locked() as core:
                if INTERNAL_VHOST in core.topology.vhosts:
                    self._hub.when_durable(lambda: self._office.wake(self._send_more))

    def _send_more(self) -> None:
        if self._hub is None or len(self._sending) > SENDING_MAX // 2:
            return
        taken: list[Held] = []
        with suppress(JournalFailed, BrokerClosed), self._hub.locked() as core:
            room = SENDING_MAX - len(self._sending)
            taken = self._queue(core).take(room, bytes_max=SENDING_BYTES_MAX, large_bytes=body_bytes)
        for held in taken:
            self._sending[held.seq] = sending = Sending(held)
            self._open(sending)

    def retry(self) -> None:
        """Send again what had no answer."""
        for sending in list(self._sending.values()):
            if sending.letter is None:
                self._open(sending)
            elif any(sending.asked_ms.get(home, 0) <= self._core.now_ms for home in sending.homes):
                self._send(sending, sending.letter, sending.homes)

    def _open(self, sending: Sending) -> None:
        """Read a letter; a large body is elsewhere."""
        message = sending.held.message
        if not message.flags & BLOB:
            self._opened(sending, message.body)
        elif self._hub is not None and self._hub.guard.large is not None:
            fetch = partial(self._hub.guard.large.get, message.body)
            self._hub.elsewhere(partial(tried, fetch), partial(self._opened, sending))

    def _opened(self, sending: Sending, body: bytes | Exception) -> None:
        """The whole letter is here; if its body cannot be read, that is tried again."""
        if isinstance(body, Exception):
            LOG.warning("dead letter not read", shard=self._home, reason=body)
        elif sending.letter is None:
            sending.letter = letter = letter_of(self._home, self._core.tag, sending.held.message, body)
            self._send(sending, letter, None)

    def _send(self, sending: Sending, letter: Letter, wanted: set[str] | None) -> None:
        """Send a letter to those shards that still have queues for it, of the wanted ones (None: of all)."""
        reached = self._office.homes(letter.vhost, letter.exchange, letter.keys, letter.guide) - {self._home}
        sending.homes = reached if wanted is None else reached & wanted
        if not sending.homes:
            self.dropped += 1
            self._settle(sending)
        now_ms = self._core.now_ms
        for home in list(sending.homes):
            if sending.asked_ms.get(home, 0) <= now_ms:
                sending.asked_ms[home] = now_ms + ANSWER_MS
                self._office.post(home, letter, partial(self._answered, sending, home))

    def _answered(self, sending: Sending, home: str, has_it: bool) -> None:
        """A shard has the letter, or could not be reached."""
        sending.asked_ms.pop(home, None)
        if has_it and home in sending.homes:
            sending.homes.discard(home)
            if not sending.homes:
                self._settle(sending)

    def _settle(self, sending: Sending) -> None:
        """Everybody has it."""
        if self._hub is None or self._sending.pop(sending.held.seq, None) is None:
            return
        with suppress(JournalFailed, BrokerClosed, InvalidReceipt), self._hub.locked():
            sending.held.queue.ack(sending.held, sending.held.lease)
        self._office.wake(self._send_more)
