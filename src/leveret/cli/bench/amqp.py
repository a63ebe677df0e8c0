"""Load for AMQP 0-9-1: one connection publishes with confirms, another consumes and acknowledges.

It has as much of the protocol as a load generator needs, and not the codec of the server: what measures a server, ours
or another, should not share its mistakes.
"""

import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Self
from urllib.parse import unquote, urlsplit

from leveret.cli.bench.plan import Plan, Race, age_s, stamp
from leveret.core.errors import Unreachable

METHOD, HEADER, BODY = 1, 2, 3
END = b"\xce"
FRAME = struct.Struct(">BHI")
PREAMBLE = b"AMQP\x00\x00\x09\x01"

START, START_OK = (10, 10), (10, 11)
TUNE, TUNE_OK = (10, 30), (10, 31)
OPEN, OPEN_OK = (10, 40), (10, 41)
CLOSE, CLOSE_OK = (10, 50), (10, 51)
CHANNEL_OPEN, CHANNEL_OPEN_OK, CHANNEL_CLOSE = (20, 10), (20, 11), (20, 40)
QUEUE_DECLARE, QUEUE_DECLARE_OK = (50, 10), (50, 11)
QUEUE_DELETE, QUEUE_DELETE_OK = (50, 40), (50, 41)
QOS, QOS_OK = (60, 10), (60, 11)
CONSUME, CONSUME_OK = (60, 20), (60, 21)
PUBLISH, DELIVER, ACK, NACK = (60, 40), (60, 60), (60, 80), (60, 120)
SELECT, SELECT_OK = (85, 10), (85, 11)
REFUSALS = (CLOSE, CHANNEL_CLOSE)

PERSISTENT = b"\x10\x00\x02"  # the flags of a content header that has a delivery mode, and that mode
TAG = struct.Struct(">Q")


class BenchFrame(NamedTuple):
    """One frame."""

    kind: int
    payload: bytes

    @property
    def method(self) -> tuple[int, int]:
        """Which method it is; (0, 0) for content."""
        return struct.unpack_from(">HH", self.payload) if self.kind == METHOD else (0, 0)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """The bytes of a frame."""
    return FRAME.pack(kind, channel, len(payload)) + payload + END


def method(channel: int, which: tuple[int, int], arguments: bytes = b"") -> bytes:
    """The bytes of a method."""
    return frame(METHOD, channel, struct.pack(">HH", *which) + arguments)


def short(text: str) -> bytes:
    """A short string."""
    data = text.encode()
    return bytes([len(data)]) + data


def long(data: bytes) -> bytes:
    """A long string or table."""
    return struct.pack(">I", len(data)) + data


def publish_head(queue: str, size_bytes: int) -> bytes:
    """Everything of a publish that comes before its body: it is the same for each message."""
    start = method(1, PUBLISH, b"\x00\x00" + short("") + short(queue) + b"\x00")
    header = frame(HEADER, 1, struct.pack(">HHQ", PUBLISH[0], 0, size_bytes) + PERSISTENT)
    return start + header + FRAME.pack(BODY, 1, size_bytes)


class Frames:
    """Cuts what was read into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[BenchFrame]:
        """Every frame that is whole now."""
        data = self._rest + data if self._rest else data
        at, length = 0, len(data)
        unpack = FRAME.unpack_from
        while at + 8 <= length:
            kind, _, size = unpack(data, at)
            end = at + 7 + size
            if end >= length:
                break
            yield BenchFrame(kind, data[at + 7 : end])
            at = end + 1
        self._rest = data[at:]


PORTS = {"amqp": 5672, "amqps": 5671}
READ_BYTES = 256 << 10
ANSWER_S = 20.0
BATCH = 64  # messages of one write
PREFETCH = 2_000
POLL_S = 0.05
CEILING_MESSAGES = 4_000


class BenchLogin(NamedTuple):
    """What a URL says."""

    host: str
    port: int
    tls: bool
    user: str
    password: str
    vhost: str


def login_of(url: str) -> BenchLogin:
    """The parts of a URL; as RabbitMQ has it, guest comes into / unless told otherwise."""
    parts = urlsplit(url)
    vhost = unquote(parts.path[1:]) or "/"
    user, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
    port = parts.port or PORTS[parts.scheme]
    return BenchLogin(parts.hostname or "", port, parts.scheme == "amqps", user, password, vhost)


class BenchConnection:
    """One connection with one channel, on a blocking socket."""

    def __init__(self, plan: Plan) -> None:
        login = login_of(plan.url)
        raw = socket.create_connection((login.host, login.port), ANSWER_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = ssl.create_default_context(cafile=plan.ca_file) if login.tls else None
        self.socket = raw if context is None else context.wrap_socket(raw, server_hostname=login.host)
        self._frames = Frames()
        self._waiting: deque[BenchFrame] = deque()
        try:
            self._open(login)
        except BaseException:
            self.socket.close()
            raise

    def _open(self, login: BenchLogin) -> None:
        self.socket.sendall(PREAMBLE)
        self.expect(START)
        response = f"\0{login.user}\0{login.password}".encode()
        self.socket.sendall(method(0, START_OK, long(b"") + short("PLAIN") + long(response) + short("en_US")))
        tune = self.expect(TUNE)
        self.socket.sendall(method(0, TUNE_OK, tune.payload[4:10] + b"\x00\x00"))
        self.ask(0, OPEN, OPEN_OK, short(login.vhost) + short("") + b"\x00")
        self.ask(1, CHANNEL_OPEN, CHANNEL_OPEN_OK, short(""))

    def ask(self, channel: int, which: tuple[int, int], answer: tuple[int, int], arguments: bytes) -> BenchFrame:
        """Send a method and wait for its answer."""
        self.socket.sendall(method(channel, which, arguments))
        return self.expect(answer)

    def expect(self, which: tuple[int, int]) -> BenchFrame:
        """Wait for a method; others that come before it are left out."""
        while True:
            while self._waiting:
                found = self._waiting.popleft()
                if found.method == which:
                    return found
            self._waiting.extend(self.read(ANSWER_S))

    def read(self, wait_s: float) -> Iterator[BenchFrame]:
        """What came; nothing when nothing did for a while."""
        if self._waiting:
            yield from self._waiting
            self._waiting.clear()
        pending = isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()
        if not pending and not select.select([self.socket], [], [], wait_s)[0]:
            if wait_s >= ANSWER_S:
                raise Unreachable("the server does not answer: check that the URL is that of an AMQP server")
            return
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise Unreachable("the server closed the connection: check the URL, the user and the password")
        for found in self._frames.feed(data):
            if found.kind == METHOD and found.method in REFUSALS:
                raise Unreachable(f"the server refused it: {reason(found.payload)}")
            yield found

    def declare(self, plan: Plan) -> None:
        """Make the queue; it is durable, as messages are."""
        kind = b""
        if plan.queue_type is not None:
            kind = short("x-queue-type") + b"S" + long(plan.queue_type.encode())
        arguments = b"\x00\x00" + short(plan.queue) + b"\x02" + long(kind)
        self.ask(1, QUEUE_DECLARE, QUEUE_DECLARE_OK, arguments)

    def delete(self, queue: str) -> None:
        self.ask(1, QUEUE_DELETE, QUEUE_DELETE_OK, b"\x00\x00" + short(queue) + b"\x00")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if error[0] is None:
                self.ask(0, CLOSE, CLOSE_OK, struct.pack(">H", 200) + short("done") + b"\x00" * 4)
        finally:
            self.socket.close()


def reason(payload: bytes) -> str:
    """Why a server closes something."""
    length = payload[6]
    return payload[7 : 7 + length].decode(errors="replace")


def publish(race: Race) -> None:
    """Send messages, never more unconfirmed than the window allows."""
    plan = race.plan
    head = publish_head(plan.queue, plan.size_bytes)
    with BenchConnection(plan) as link:
        link.ask(1, SELECT, SELECT_OK, b"\x00")
        sent = confirmed = 0
        times: deque[float] = deque()  # when those that wait for their confirm were sent
        while True:
            count = min(race.left(sent), plan.window - len(times), BATCH)
            wait_s = race.due(sent)
            if count > 0 and wait_s == 0:
                count = count if plan.rate is None else 1
                link.socket.sendall(batch(head, plan.size_bytes, count))
                times.extend([time.monotonic()] * count)
                sent += count
            elif not times and race.left(sent) <= 0:
                break
            for found in link.read(0 if count > 0 and wait_s == 0 else min(wait_s or ANSWER_S / 2, ANSWER_S / 2)):
                confirmed = settle(race, found, times, confirmed)


def batch(head: bytes, size_bytes: int, count: int) -> bytes:
    """Some messages as they are written."""
    one = head + stamp(size_bytes) + END
    return one * count


def settle(race: Race, found: BenchFrame, times: "deque[float]", confirmed: int) -> int:
    """Take a confirm; give the number of the last message that is confirmed."""
    if found.method == NACK:
        raise Unreachable("the server refuses messages (basic.nack): its queue is full, or its disk")
    if found.method != ACK:
        return confirmed
    (tag,) = TAG.unpack_from(found.payload, 4)
    now_s = time.monotonic()
    count = min(max(tag - confirmed, 0), len(times)) if found.payload[12] else 1
    race.sent.note(count, [now_s - times.popleft() for _ in range(min(count, len(times)))])
    return confirmed + count


def consume(race: Race) -> None:
    """Take messages until all are there."""
    plan = race.plan
    with BenchConnection(plan) as link:
        link.ask(1, QOS, QOS_OK, struct.pack(">IHB", 0, PREFETCH, 0))
        arguments = b"\x00\x00" + short(plan.queue) + short("bench") + b"\x00" + long(b"")
        link.ask(1, CONSUME, CONSUME_OK, arguments)
        while not race.is_over():
            ages_s, last = received(link.read(POLL_S))
            if ages_s:
                race.received.note(len(ages_s), ages_s)
            if last:
                link.socket.sendall(method(1, ACK, TAG.pack(last) + b"\x01"))


def received(frames: Iterator[BenchFrame]) -> tuple[list[float], int]:
    """The ages of the messages in some frames, and the number of the last delivery that is whole."""
    ages_s: list[float] = []
    last = tag = 0
    for kind, payload in frames:
        if kind == BODY:
            ages_s.append(age_s(payload, time.monotonic_ns()))
            last = tag
        elif kind == METHOD:
            # deliver: a consumer tag, then the number of the delivery
            (tag,) = TAG.unpack_from(payload, 5 + payload[4])
    return ages_s, last


def ceiling(plan: Plan) -> float:
    """How many messages in a second this program could send and receive if the server took no time."""
    head = publish_head(plan.queue, plan.size_bytes)
    deliver = method(1, DELIVER, short("bench") + TAG.pack(1) + b"\x00" + short("") * 2)
    header = frame(HEADER, 1, struct.pack(">HHQ", 60, 0, plan.size_bytes) + PERSISTENT)
    began_s = time.perf_counter()
    for _ in range(CEILING_MESSAGES // BATCH):
        batch(head, plan.size_bytes, BATCH)
        body = frame(BODY, 1, stamp(plan.size_bytes))
        received(Frames().feed((deliver + header + body) * BATCH))
    return CEILING_MESSAGES // BATCH * BATCH / (time.perf_counter() - began_s)


def prepare(plan: Plan) -> None:
    """Make the queue."""
    with BenchConnection(plan) as link:
        link.declare(plan)


def clean(plan: Plan) -> None:
    """Remove the queue."""
    with BenchConnection(plan) as link:
        link.delete(plan.queue)
