"""The frames of a client's connection in Python alone: see leveret/client/amqp/traffic.pyx."""

from dataclasses import dataclass
from typing import Any

from leveret.wire.replies import ProtocolError, Reply

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END, OVERHEAD = 0xCE, 8
FRAME_MAX_UNTUNED, FRAME_MAX_MIN = 24_576, 4_096
LEAST = {METHOD: 4, HEADER: 14, BODY: 0, HEARTBEAT: 0}
DELIVER, GET_OK, RETURN, ACK, NACK = 0x003C003C, 0x003C0047, 0x003C0032, 0x003C0050, 0x003C0078
SETTLE_BYTES = 13
EXPECTED = {
    METHOD: "expected method frame, got non method frame instead",
    HEADER: "expected content header for class 60, got non content header frame instead",
    BODY: "expected content body, got non content body frame instead",
}


@dataclass(slots=True, eq=False)
class Delivery:
    """A message that came: by basic.deliver, basic.get-ok or basic.return, whose payload is `method`."""

    channel: int
    kind: int
    tag: int
    redelivered: bool
    method: bytes
    header: bytes = b""
    body: bytes = b""


@dataclass(slots=True)
class Unfinished:
    """A delivery whose content is on its way; `left` bytes of its body are missing, None: its header, too."""

    delivery: Delivery
    body: bytearray
    left: int | None = None


def _unexpected(kind: int) -> ProtocolError:
    return ProtocolError(Reply.UNEXPECTED_FRAME, EXPECTED[kind])


class ClientTraffic:
    """Bytes in, events out; and frames in, bytes out. After a ProtocolError it is of no use."""

    def __init__(self, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._in, self._out = bytearray(), bytearray()
        self._frame_max, self._channel_max = FRAME_MAX_UNTUNED, 0
        self._unfinished: dict[int, Unfinished] = {}
        self._early: set[int] = set()
        self.publishing = self.published = self.confirmed = 0
        self.refused: list[int] = []

    def tune(self, frame_max: int, channel_max: int) -> None:
        """Set what was agreed on."""
        self._frame_max, self._channel_max = frame_max, channel_max

    def begin_confirms(self, channel: int) -> None:
        """Count publishes of a channel from now on."""
        self.publishing, self.published, self.confirmed = channel, 0, 0
        self.refused, self._early = [], set()

    def forget(self, channel: int) -> None:
        """Drop what has come in part on a channel that is closed."""
        self._unfinished.pop(channel, None)

    def receive(self, data: bytes | bytearray | memoryview) -> list[Any]:
        """Deliveries, and other methods as (channel, payload), in their order; confirms are counted."""
        events: list[Any] = []
        self._in += data
        at = 0
        while len(self._in) - at >= OVERHEAD - 1:
            kind, channel = self._in[at], int.from_bytes(self._in[at + 1 : at + 3])
            size = int.from_bytes(self._in[at + 3 : at + 7])
            self._check(kind, channel, size)
            end = at + 7 + size
            if len(self._in) <= end:
                break
            if self._in[end] != FRAME_END:
                raise ProtocolError(Reply.FRAME_ERROR, f"frame ends with {self._in[end]:#x}, not {FRAME_END:#x}")
            payload = bytes(self._in[at + 7 : end])
            at = end + 1
            if kind == METHOD:
                self._method(channel, payload, events)
            elif kind != HEARTBEAT:
                self._content(kind, channel, payload, events)
        del self._in[:at]
        return events

    def _check(self, kind: int, channel: int, size: int) -> None:
        """Refuse a frame by its first seven bytes."""
        if size > self._frame_max:
            raise ProtocolError(Reply.FRAME_ERROR, f"frame of {size} bytes, the limit is {self._frame_max}: split it")
        if channel and not self._channel_max:
            raise ProtocolError(Reply.CHANNEL_ERROR, f"channel {channel} is used before connection.tune-ok")
        if size < LEAST.get(kind, 1 << 32):
            raise ProtocolError(Reply.FRAME_ERROR, f"frame of {size} bytes, its kind has at least {LEAST.get(kind)}")
        if kind == HEARTBEAT and (channel or size):
            raise ProtocolError(Reply.UNEXPECTED_FRAME, "a heartbeat has no payload and belongs on channel 0")
        if kind in (HEADER, BODY) and not channel:
            raise ProtocolError(Reply.UNEXPECTED_FRAME, "content on channel 0")

    def _method(self, channel: int, payload: bytes, events: list[Any]) -> None:
        kind = int.from_bytes(payload[:4])
        if (unfinished := self._unfinished.get(channel)) is not None:
            raise _unexpected(HEADER if unfinished.left is None else BODY)
        if kind in (ACK, NACK) and len(payload) == SETTLE_BYTES and channel == self.publishing:
            self._answered(int.from_bytes(payload[4:12]), bool(payload[12] & 1), kind == NACK)
        elif kind not in (DELIVER, GET_OK, RETURN):
            events.append((channel, payload))
        else:
            at = 4 if kind == GET_OK or len(payload) < 16 else 5 + payload[4]
            if kind == RETURN:
                payload_tag, redelivered = 0, False
            elif at + 9 > len(payload):
                raise ProtocolError(Reply.SYNTAX_ERROR, "a delivery without its tag")
            else:
                payload_tag, redelivered = int.from_bytes(payload[at : at + 8]), bool(payload[at + 8] & 1)
            self._unfinished[channel] = Unfinished(
                Delivery(channel, kind, payload_tag, redelivered, payload), bytearray()
            )

    def _content(self, kind: int, channel: int, piece: bytes, events: list[Any]) -> None:
        found = self._unfinished.get(channel)
        if found is None or (found.left is None) != (kind == HEADER):
            raise _unexpected(METHOD if found is None else HEADER if found.left is None else BODY)
        if found.left is None:
            found.left = int.from_bytes(piece[4:12])
            if found.left > self._body_bytes_max:
                limit = self._body_bytes_max
                raise ProtocolError(
                    Reply.CONTENT_TOO_LARGE, f"a message of {found.left} bytes, this client takes {limit} at most"
                )
            found.delivery.header = piece
        elif len(piece) > found.left:
            raise ProtocolError(Reply.FRAME_ERROR, "a body is longer than its header says")
        else:
            found.left -= len(piece)
            found.body += piece
        if found.left:
            held = sum(len(each.body) for each in self._unfinished.values())
            if held > self._body_bytes_max:
                raise ProtocolError(Reply.RESOURCE_ERROR, f"{held} bytes of unfinished messages")
            return
        found.delivery.body = bytes(found.body)
        del self._unfinished[channel]
        events.append(found.delivery)

    def _answered(self, tag: int, multiple: bool, refused: bool) -> None:
        """Count what a confirm speaks of."""
        if multiple and tag == 0:
            tag = self.published
        if tag > self.published or (tag == 0 and not multiple):
            raise ProtocolError(Reply.COMMAND_INVALID, f"a confirm of message {tag}, {self.published} were published")
        if tag <= self.confirmed:
            return
        if refused:
            first = self.confirmed + 1 if multiple else tag
            self.refused += [each for each in range(first, tag + 1) if each not in self._early]
        if multiple:
            self._early = {number for number in self._early if number > tag}
            self.confirmed = tag
        else:
            self._early.add(tag)
        while self.confirmed + 1 in self._early:
            self.confirmed += 1
            self._early.remove(self.confirmed)

    @property
    def pending_bytes(self) -> int:
        """What was written and not taken."""
        return len(self._out)

    def _put(self, kind: int, channel: int, payload: bytes) -> None:
        self._out += kind.to_bytes(1) + channel.to_bytes(2) + len(payload).to_bytes(4) + payload + b"\xce"

    def write(self, channel: int, payload: bytes) -> None:
        """Write a method."""
        self._put(METHOD, channel, payload)

    def heartbeat(self) -> None:
        """Write a heartbeat."""
        self._put(HEARTBEAT, 0, b"")

    def publish(
        self, channel: int, method: bytes, header: bytes, number_at: int, number: int, bodies: list[bytes]
    ) -> None:
        """Publish bodies by one method; `number_at` is where the number of each goes in the header, -1: nowhere."""
        for place, body in enumerate(bodies):
            head = bytearray(header)
            head[4:12] = len(body).to_bytes(8)
            if number_at >= 0:
                head[number_at : number_at + 12] = b"%012x" % (number + place)
            self._put(METHOD, channel, method)
            self._put(HEADER, channel, bytes(head))
            size = max(self._frame_max, FRAME_MAX_MIN) - OVERHEAD
            for at in range(0, len(body), size):
                self._put(BODY, channel, body[at : at + size])
        if channel == self.publishing:
            self.published += len(bodies)

    def take(self) -> bytes:
        """Everything that was written since the last time."""
        taken = bytes(self._out)
        self._out.clear()
        return taken
