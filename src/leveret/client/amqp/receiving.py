"""Messages that a client receives over AMQP: taken one by one, or pushed by a consumer, and how they are settled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from leveret.client.amqp.channels import ClientChannel, Pending, Wakeable
from leveret.client.amqp.traffic import Delivery
from leveret.core.errors import InvalidReceipt, LeveretError, QueueNotFound, Unreachable
from leveret.wire import methods
from leveret.wire.methods import Method
from leveret.wire.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.client.amqp.connection import ClientConnection

TAG = "leveret"
"""Of the one consumer that a channel has."""
DELIVER, GET_OK = 0x003C003C, 0x003C0047
ACK = bytes((0, 60, 0, 80))


class Get:
    """So many basic.get at once."""

    def __init__(self, count: int, pending: Pending) -> None:
        self.left = self.count = count
        self.pending = pending
        self.found: list[Delivery] = []


class ReceiveChannel(ClientChannel):
    """Messages of one queue, and how they are settled: taken one by one, or pushed by a consumer that waits for acks.

    Acks are written when something is sent anyway, those below the oldest message that is not settled by one frame.
    """

    def __init__(self, connection: ClientConnection, number: int, queue: str) -> None:
        super().__init__(connection, number)
        self.queue = queue
        self.epoch = 0
        """Of the connection: what came over an earlier one cannot be settled any more."""
        self.error: LeveretError | None = None
        """Why nothing comes."""
        self.buffer: deque[Delivery] = deque()
        self.waiters: deque[Wakeable] = deque()
        self.prefetch = 0
        self._arguments: Callable[[], Mapping[str, Any]] = dict
        self._consuming = self._ending = self._closing = False
        self._last_words: Pending | None = None
        self._starting: Pending | None = None
        self._farewell: list[Pending] = []
        self._gets: deque[Get] = deque()
        self._unsettled: dict[int, None] = {}
        self._acked: set[int] = set()

    @property
    def wanted(self) -> bool:
        return bool((self.prefetch and not self._ending) or self._gets)

    @property
    def unsent_acks(self) -> int:
        """So many acks are not written yet."""
        return len(self._acked)

    # Asking for messages

    def leave(self, waiter: Wakeable) -> None:
        """Wait no more; what it was woken for is for the next one."""
        if waiter in self.waiters:
            self.waiters.remove(waiter)
        elif self.buffer and self.waiters:
            self.waiters.popleft().wake()

    def get(self, get: Get) -> None:
        """Take up to so many messages that are there."""
        self._gets.append(get)
        if self.connection.up:
            self._write_get(get)

    def _write_get(self, get: Get) -> None:
        get.left, get.found = get.count, []
        for _ in range(get.count):
            self.ask(methods.BasicGet(self.queue))

    def consume(self, prefetch: int, arguments: Callable[[], Mapping[str, Any]] = dict) -> None:
        """Have messages pushed, so many before they are settled; `arguments` are asked for at each beginning."""
        self.prefetch, self._arguments, self.error = prefetch, arguments, None
        self.write_more()

    def write_more(self) -> None:
        if not self.connection.up or self.opened or not self.wanted:
            return
        self.error = None
        if self.prefetch:
            self._consuming = True
            self.ask(methods.BasicQos(0, self.prefetch))
            self.ask(methods.BasicConsume(self.queue, TAG, arguments=dict(self._arguments())))
        for get in self._gets:
            self._write_get(get)

    def started(self, pending: Pending) -> None:
        """Finish when the broker has read that messages are to be pushed, or says that they are not."""
        self._starting = pending

    def take(self, count: int) -> list[Delivery]:
        """Take up to so many of what was pushed; why nothing comes is raised after the last of it."""
        if not self.buffer and self.error is not None:
            raise self.error
        return [self.buffer.popleft() for _ in range(min(count, len(self.buffer)))]

    # What comes

    def on_delivery(self, delivery: Delivery) -> None:
        tag = delivery.tag
        if delivery.kind == GET_OK:
            self._answered(methods.BasicGetOk)
            self._unsettled[tag] = None
            self._gets[0].found.append(delivery)
            self._got()
            return
        if not self._consuming or len(self.buffer) >= self.prefetch or delivery.kind != DELIVER:
            raise ProtocolError(Reply.RESOURCE_ERROR, f"the server pushed more than {self.prefetch} messages at a time")
        self._unsettled[tag] = None
        self.buffer.append(delivery)
        if self.waiters:
            self.waiters.popleft().wake()

    def _got(self) -> None:
        """One more of the answers to the first get."""
        get = self._gets[0]
        get.left -= 1
        if get.left == 0:
            self._gets.popleft()
            if get.pending.done:  # it was given up
                for each in get.found:
                    self.refuse(each.tag, self.epoch, True)
            get.pending.finish(get.found)

    def on_method(self, method: Method) -> None:
        if isinstance(method, methods.BasicCancel):
            self._stop(QueueNotFound(f"the broker ended the consumer of queue '{self.queue}': was it deleted?"))
            return
        if isinstance(method, methods.ChannelCloseOk):
            self._answered(type(method))
            self.opened = False
            self.connection.channels.pop(self.number, None)
            while self._farewell:
                self._farewell.pop().finish()
            return
        super().on_method(method)
        if isinstance(method, methods.BasicConsumeOk) and self._starting is not None:
            self._starting.finish()
        if isinstance(method, methods.BasicGetEmpty):
            self._got()
        elif isinstance(method, methods.BasicCancelOk):
            self._ended()

    def _ended(self) -> None:
        """Nothing is pushed any more: what has been is for who ended it, or goes back when the channel is closed.

        To refuse what no program has seen would count as an attempt at it.
        """
        self._consuming = False
        if self._last_words is not None and not self._last_words.done:
            self._last_words.finish([*self.buffer])
            self.buffer.clear()
        for each in self.buffer:
            self._unsettled.pop(each.tag, None)
        self._close_when_settled()

    def _stop(self, error: LeveretError) -> None:
        """Nothing more is pushed."""
        self.prefetch = 0
        self._trouble(error)

    def _trouble(self, error: LeveretError) -> None:
        """Nothing comes now."""
        self.error = error
        if self._starting is not None:
            self._starting.finish(error=error)

        while self.waiters:
            self.waiters.popleft().wake()

    # Settling

    def check(self, tag: int, epoch: int) -> None:
        """Refuse to settle what is not ours any more."""
        if epoch != self.epoch or tag not in self._unsettled or tag in self._acked:
            raise InvalidReceipt(
                f"the message of queue '{self.queue}' was settled, or the connection over which it came is lost: it is "
                "redelivered then"
            )

    def ack(self, tag: int, epoch: int) -> None:
        """Done with a message; told to the broker with what is sent next."""
        self.check(tag, epoch)
        if not self._acked:
            self.connection.dirty.append(self)
        self._acked.add(tag)

    def refuse(self, tag: int, epoch: int, requeue: bool) -> None:
        """Give a message back, or make it a dead letter."""
        self.check(tag, epoch)
        del self._unsettled[tag]
        self.connection.say(self.number, methods.BasicReject(tag, requeue))
        self._close_when_settled()

    def write_acks(self) -> None:
        """Write the acks of all messages that are done."""
        acked, unsettled, last = self._acked, self._unsettled, 0
        if not self.opened:
            return
        for tag in unsettled:
            if tag not in acked:
                break
            last = tag
        if last:
            for tag in [each for each in acked if each <= last]:
                del unsettled[tag]
                acked.discard(tag)
            self.connection.traffic.write(self.number, ACK + last.to_bytes(8, "big") + b"\x01")
        for tag in sorted(acked):
            del unsettled[tag]
            self.connection.traffic.write(self.number, ACK + tag.to_bytes(8, "big") + b"\x00")
        acked.clear()
        self._close_when_settled()

    def barrier(self, pending: Pending) -> None:
        """Finish when the broker has read all acks."""
        if not self.opened:
            pending.finish()
            return
        self.write_acks()
        if self._closing:
            self._farewell.append(pending)
        else:
            self.ask(methods.ChannelFlow(True), pending)

    # The end

    def end(self, pending: Pending | None = None) -> None:
        """Have nothing pushed any more; it is closed when what was taken is settled.

        What was pushed and not taken goes back then, or is the answer that `pending` waits for.
        """
        self._ending, self._last_words = True, pending
        if self._consuming and self.opened and self.connection.up:
            self.ask(methods.BasicCancel(TAG))
        else:
            self._ended()

    def _close_when_settled(self) -> None:
        if not self._ending or self._consuming or self._unsettled or self._gets:
            return
        if self.opened and self.connection.up and not self._closing:
            self._closing = True
            self.ask(methods.ChannelClose(Reply.REPLY_SUCCESS))
        elif not self.opened:
            self.connection.channels.pop(self.number, None)

    def closed(self, error: LeveretError) -> None:
        self._begin_anew(error)
        while self._gets:
            self._gets.popleft().pending.finish(error=error)
        self._stop(error)

    def lost(self, error: LeveretError) -> None:
        self._begin_anew(error)

    def _begin_anew(self, error: LeveretError) -> None:
        self._forget(error)
        self.epoch += 1
        self._consuming = self._closing = False
        while self._farewell:
            self._farewell.pop().finish(error=error)
        self._unsettled.clear()
        self._acked.clear()
        self.buffer.clear()
        if self._ending:
            self._ended()

    def fail(self, error: LeveretError) -> None:
        while self._gets:
            self._gets.popleft().pending.finish(error=error)
        if not isinstance(error, Unreachable):  # the next attempt would be told the same
            self.prefetch = 0
        self._trouble(error)
