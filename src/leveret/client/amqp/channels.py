"""Channels of a client's connection: calls in turn, and publishes with confirms.

A channel keeps what it was asked for until it is answered. `write_more` writes what can be written now, `lost` begins
again after the connection was lost, `closed` after the server closed the channel.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from leveret.client.amqp.traffic import Delivery
from leveret.core.errors import LeveretError, Unreachable
from leveret.core.properties import Properties, decode_header
from leveret.core.tables import MalformedTable
from leveret.wire import methods
from leveret.wire.codec import decode
from leveret.wire.methods import METHODS, Method
from leveret.wire.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.client.amqp.connection import ClientConnection

UNCONFIRMED_MAX = 100_000
UNCONFIRMED_BYTES_MAX = 32 * 2**20
"""Publishes wait for room beyond that: all of it is kept in memory until it is confirmed."""
UNWRITTEN = 1 << 64
KINDS = {spec.name: spec.kind for spec in METHODS}
REPLIES = {spec.kind: tuple(KINDS[name] for name in spec.replies) for spec in METHODS}


class Wakeable(Protocol):
    """Who waits for something."""

    def wake(self) -> None:
        """Let it look."""


class Pending:
    """An answer that is waited for; `wake` is called when it is here."""

    __slots__ = ("done", "error", "result")

    def __init__(self) -> None:
        self.done = False
        self.error: LeveretError | None = None
        self.result: Any = None

    def wake(self) -> None:
        """Let go on who waits."""

    def finish(self, result: Any = None, error: LeveretError | None = None) -> None:
        """Here it is; what was given up is not finished any more."""
        if not self.done:
            self.done, self.result, self.error = True, result, error
            self.wake()


class ClientChannel:
    """What all channels have: their opening, and answers in the order of what was asked."""

    def __init__(self, connection: ClientConnection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.opened = False
        self._expected: deque[tuple[tuple[type[Method], ...], Pending | None]] = deque()

    @property
    def wanted(self) -> bool:
        """Whether it has to do something that needs a connection."""
        return False

    def ask(self, method: Method, pending: Pending | None = None) -> None:
        """Write a method that is answered; what comes after it need not wait for that."""
        if not self.opened and not isinstance(method, methods.ChannelOpen):
            self.open()
        self._expected.append((REPLIES[type(method)], pending))
        self.connection.say(self.number, method)

    def open(self) -> None:
        """Open it, and be what it is for."""
        self.opened = True
        self.ask(methods.ChannelOpen())

    def on_method(self, method: Method) -> None:
        """An answer came."""
        pending = self._answered(type(method))
        if pending is not None:
            pending.finish(method)

    def _answered(self, kind: type[Method]) -> Pending | None:
        """Who waits for the next answer of that kind: RabbitMQ cancels a consumer while it answers other things."""
        for place, (kinds, pending) in enumerate(self._expected):
            if kind in kinds:
                del self._expected[place]
                return pending
        raise ProtocolError(Reply.COMMAND_INVALID, f"the server sent {kind.spec.name} unasked")

    def on_delivery(self, delivery: Delivery) -> None:
        """A message came."""
        raise ProtocolError(Reply.UNEXPECTED_FRAME, f"a message on channel {self.number}, where none is received")

    def write_more(self) -> None:
        """Write what can be written now."""

    def closed(self, error: LeveretError) -> None:
        """The server closed it."""
        self._forget(error)

    def lost(self, error: LeveretError) -> None:
        """The connection is lost."""
        self._forget(error)

    def fail(self, error: LeveretError) -> None:
        """Nothing comes of what was asked until now."""

    def _forget(self, error: LeveretError) -> None:
        self.opened = False
        expected, self._expected = self._expected, deque()
        for _, pending in expected:
            if pending is not None:
                pending.finish(error=error)


class Call:
    """A method and its answer. `again`: it may be asked twice."""

    def __init__(self, method: Method, pending: Pending, again: bool) -> None:
        self.method, self.pending, self.again = method, pending, again


class CallChannel(ClientChannel):
    """Declares, binds, deletes: one after the other, because one that is refused takes the channel along."""

    def __init__(self, connection: ClientConnection, number: int) -> None:
        super().__init__(connection, number)
        self._calls: deque[Call] = deque()
        self._asked = False

    @property
    def wanted(self) -> bool:
        return bool(self._calls)

    def add(self, call: Call) -> None:
        """Ask as soon as it is its turn."""
        self._calls.append(call)
        self.write_more()

    def write_more(self) -> None:
        while self._calls and self._calls[0].pending.done and not self._asked:
            self._calls.popleft()
        if self._calls and not self._asked and self.connection.up:
            self.ask(self._calls[0].method)
            self._asked = True

    def on_method(self, method: Method) -> None:
        self._answered(type(method))
        if not isinstance(method, methods.ChannelOpenOk):
            self._next(method)

    def closed(self, error: LeveretError) -> None:
        super().closed(error)
        self._next(error=error)

    def lost(self, error: LeveretError) -> None:
        super().lost(error)
        if self._asked and not self._calls[0].again:
            self._next(
                error=Unreachable(f"the connection was lost, it may have been done or not ({error}): look there")
            )
        self._asked = False

    def fail(self, error: LeveretError) -> None:
        while self._calls:
            self._next(error=error)

    def _next(self, result: Method | None = None, error: LeveretError | None = None) -> None:
        if self._calls:
            self._calls.popleft().pending.finish(result, error)
        self._asked = False
        self.write_more()


class Publish:
    """Messages that are published together: `bodies` with one header, the first of which has the id `number`."""

    __slots__ = (
        "bodies", "header", "last", "message_id", "method", "number", "number_at", "outcome", "pending", "size",
    )  # fmt: skip

    def __init__(
        self, method: bytes, header: bytes, number_at: int, number: int, bodies: list[bytes], message_id: str | None
    ) -> None:
        self.method, self.header, self.number_at, self.number = method, header, number_at, number
        self.bodies, self.message_id = bodies, message_id
        self.size = sum(map(len, bodies)) + len(bodies) * len(header)
        self.last = UNWRITTEN
        self.pending: Pending
        self.outcome: Outcome | None = None
        """What happened to those that no queue has; None: all is well."""


class Outcome:
    """The places of messages that the broker did not take, and of those that no queue got, with the reason."""

    def __init__(self) -> None:
        self.refused: list[int] = []
        self.returned: dict[int, str] = {}


def outcome(publish: Publish) -> Outcome:
    """What happened to messages; made when it is first needed."""
    if publish.outcome is None:
        publish.outcome = Outcome()
    return publish.outcome


class PublishChannel(ClientChannel):
    """Publishes, any number of them before the first is confirmed.

    When the server closes the channel it does not say for which of them. They are published again then, one at a time,
    until one closes it alone.
    """

    def __init__(self, connection: ClientConnection, number: int) -> None:
        super().__init__(connection, number)
        self._unwritten: deque[Publish] = deque()
        self._written: deque[Publish] = deque()
        self._suspects = 0
        self._size = self._count = 0
        self._crowd: deque[Wakeable] = deque()

    @property
    def wanted(self) -> bool:
        return bool(self._unwritten or self._written)

    @property
    def full(self) -> bool:
        """Whether more have to wait."""
        return self._size >= UNCONFIRMED_BYTES_MAX or self._count >= UNCONFIRMED_MAX

    def wait_for_room(self, waiter: Wakeable) -> None:
        """Be woken when there is room."""
        self._crowd.append(waiter)

    def add(self, publish: Publish) -> None:
        """Publish as soon as that is possible."""
        self._size += publish.size
        self._count += len(publish.bodies)
        self._unwritten.append(publish)
        self.write_more()

    def write_more(self) -> None:
        connection = self.connection
        if not connection.up or connection.blocked is not None or not self._unwritten:
            return
        if not self.opened:
            self.ask(methods.ConfirmSelect())
            connection.traffic.begin_confirms(self.number)
        traffic = connection.traffic
        while self._unwritten and not (self._suspects and self._written):
            publish = self._unwritten.popleft()
            if publish.pending.done:
                self._left(publish)
                continue
            traffic.publish(
                self.number, publish.method, publish.header, publish.number_at, publish.number, publish.bodies
            )
            publish.last = traffic.published
            self._written.append(publish)

    def settle(self) -> None:
        """Finish what is confirmed."""
        traffic, written = self.connection.traffic, self._written
        if traffic.refused:
            self._refuse(sorted(traffic.refused))
            traffic.refused.clear()
        if not written or written[0].last > traffic.confirmed:
            return
        while written and written[0].last <= traffic.confirmed:
            publish = written.popleft()
            self._left(publish)
            publish.pending.finish(publish)
        if self._suspects:
            self.write_more()

    def outstanding(self) -> list[Pending]:
        """What is not confirmed."""
        return [publish.pending for publish in (*self._written, *self._unwritten)]

    def _left(self, publish: Publish) -> None:
        """One is not here any more."""
        self._size -= publish.size
        self._count -= len(publish.bodies)
        self._suspects = max(0, self._suspects - 1)
        while self._crowd and not self.full:
            self._crowd.popleft().wake()

    def _refuse(self, tags: list[int]) -> None:
        """Note which messages the broker did not take."""
        found = iter(self._written)
        publish = next(found, None)
        for tag in tags:
            while publish is not None and publish.last < tag:
                publish = next(found, None)
            if publish is not None:
                outcome(publish).refused.append(tag - publish.last + len(publish.bodies) - 1)

    def on_method(self, method: Method) -> None:
        if isinstance(method, methods.BasicAck | methods.BasicNack):
            raise ProtocolError(Reply.SYNTAX_ERROR, "the server sent a confirm of the wrong length")
        super().on_method(method)

    def on_delivery(self, delivery: Delivery) -> None:
        """A message was returned: no queue has got it."""
        method, message_id = decode(delivery.method), received_properties(delivery).message_id or ""
        if not isinstance(method, methods.BasicReturn):
            return super().on_delivery(delivery)
        for publish in self._written:
            if publish.number_at < 0:
                if publish.message_id == message_id:
                    outcome(publish).returned[0] = method.reply_text
                    break
            elif message_id[:12] == publish.header[publish.number_at - 12 : publish.number_at].decode():
                place = int(message_id[12:], 16) - publish.number
                if 0 <= place < len(publish.bodies):
                    outcome(publish).returned[place] = method.reply_text
                    break
        return None

    def closed(self, error: LeveretError) -> None:
        super().closed(error)
        if len(self._written) <= 1:
            for publish in self._written or self._unwritten:
                self._left(publish)
                publish.pending.finish(error=error)
            (self._written or self._unwritten).clear()
        self._again()

    def lost(self, error: LeveretError) -> None:
        super().lost(error)
        if not self.connection.idempotent:
            for publish in self._written:
                publish.pending.finish(
                    error=Unreachable(
                        f"the connection was lost before the broker confirmed ({error}): send again, or look"
                    )
                )
        self._again()

    def fail(self, error: LeveretError) -> None:
        for publish in [*self._written, *self._unwritten]:
            self._left(publish)
            publish.pending.finish(error=error)
        self._written.clear()
        self._unwritten.clear()

    def _again(self) -> None:
        """What was written is to be written once more, before the rest."""
        if self.connection.up:
            self._suspects = len(self._written)
        for publish in self._written:
            publish.last = UNWRITTEN
            publish.outcome = None
        self._unwritten.extendleft(reversed(self._written))
        self._written.clear()
        self.write_more()


def received_properties(delivery: Delivery) -> Properties:
    """The properties in the header of a message."""
    try:
        return decode_header(delivery.header)
    except MalformedTable as error:
        raise ProtocolError(Reply.SYNTAX_ERROR, f"the header of a message: {error}") from None
