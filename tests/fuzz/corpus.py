"""Inputs that have broken brokers and clients: every one must get an answer of the protocol, and a cheap one."""

from collections.abc import Iterator

from leveret.core.properties import Properties, encode_header
from leveret.wire import methods as m
from leveret.wire.codec import encode
from leveret.wire.frames import BODY, HEADER, HEARTBEAT, METHOD, PROTOCOL_HEADER
from leveret.wire.methods import METHODS
from tests.protocols.amqp.strategies import class_of
from tests.protocols.amqp.wire import frame, method_frame

NESTED_LEVELS = 1_000
PUBLISH = method_frame(1, m.BasicPublish("", "q"))
HUGE = (0xFFFFFFFF, 0x80000000, 0x7FFFFFFF)


def u32(number: int) -> bytes:
    """Four bytes."""
    return number.to_bytes(4, "big")


def nested(opening: bytes, levels: int = NESTED_LEVELS) -> bytes:
    """A table that holds a table, or an array, that holds one, and so on."""
    inner = b""
    for _ in range(levels):
        inner = opening + u32(len(inner)) + inner
    return u32(len(inner)) + inner


def declare(table: bytes) -> bytes:
    """A queue.declare with an arguments table as it is."""
    return frame(METHOD, 1, b"\0\x32\0\x0a\0\0\x01q\0" + table)


def publish(header: bytes) -> bytes:
    """A basic.publish with a content header as it is."""
    return PUBLISH + frame(HEADER, 1, header)


def headers(table: bytes) -> bytes:
    """A content header with nothing but a headers table."""
    return b"\0\x3c\0\0" + bytes(8) + b"\x20\0" + table


def broken_lengths() -> Iterator[tuple[str, bytes]]:
    """Lengths that are larger than what follows, or than anything."""
    for size in HUGE:
        yield f"a frame of {size:#x} bytes", b"\x01\0\0" + u32(size)
        yield f"a body of {size:#x} bytes", b"\x03\0\x01" + u32(size)
        yield f"a table of {size:#x} bytes", declare(u32(size) + b"\x01aI\0\0\0\0")
        yield f"a long string of {size:#x} bytes", declare(u32(8) + b"\x01aS" + u32(size) + b"x")
        yield f"an array of {size:#x} bytes", declare(u32(8) + b"\x01aA" + u32(size) + b"V")
        yield f"headers of {size:#x} bytes", publish(headers(u32(size)))
    for kind, size in ((METHOD, 0), (METHOD, 3), (HEADER, 0), (HEADER, 13), (METHOD, 4)):
        yield f"a frame of kind {kind} with {size} bytes", frame(kind, 1, bytes(size))


def broken_methods() -> Iterator[tuple[str, bytes]]:
    """Every method, cut off in its middle and with something behind it."""
    for spec in METHODS:
        payload = encode(class_of(spec)())
        yield f"{spec.name} cut off", frame(METHOD, 1, payload[: 4 + (len(payload) - 4) // 2])
        yield f"{spec.name} and more", frame(METHOD, 1, payload + b"\0\xff")


def broken_sequences() -> Iterator[tuple[str, bytes]]:
    """Frames that are good, but not now."""
    one = frame(HEADER, 1, encode_header(Properties(), 1))
    yield "a body before its header", PUBLISH + frame(BODY, 1, b"x")
    yield "a body without a publish", frame(BODY, 1, b"x")
    yield "a body after another method", method_frame(1, m.BasicQos()) + one + frame(BODY, 1, b"x")
    yield "more body than announced", PUBLISH + one + frame(BODY, 1, b"xy")
    yield "body after the last byte", PUBLISH + one + frame(BODY, 1, b"x") * 2
    yield "many empty bodies", PUBLISH + one + frame(BODY, 1, b"") * 500
    yield "a body of 2**64 - 1 bytes", publish(encode_header(Properties(), 0)[:4] + b"\xff" * 8 + bytes(2))
    yield "a publish inside of a publish", PUBLISH + PUBLISH
    yield "a close inside of a publish", PUBLISH + method_frame(1, m.ChannelClose(200, ""))
    yield (
        "acknowledging in the wrong order",
        method_frame(1, m.BasicAck(2**64 - 1, True)) + method_frame(1, m.BasicAck(0)),
    )
    yield "control before it is open", method_frame(0, m.ConnectionClose(200, "")) + method_frame(1, m.BasicQos())
    yield "a greeting twice", PROTOCOL_HEADER * 2
    yield "logging in twice", method_frame(0, m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "")) * 2
    yield "a frame limit of one byte", method_frame(0, m.ConnectionTuneOk(1, 1, 1))
    yield "a channel above all", method_frame(0xFFFF, m.ChannelOpen())
    yield "an unknown frame", frame(4, 0, b"")
    yield "a heartbeat on a channel", frame(HEARTBEAT, 1, b"")
    yield "a heartbeat with a payload", frame(HEARTBEAT, 0, bytes(100))
    yield "content on channel 0", frame(HEADER, 0, bytes(14))


def nestings() -> Iterator[tuple[str, bytes]]:
    """What takes a recursive reader down."""
    for name, opening in (("tables", b"\x01aF"), ("arrays", b"A")):
        table = nested(opening, 600) if name == "tables" else u32(2 + 5 * 700) + b"\x01a" + nested(b"A", 700)[4:]
        yield f"{name} in {name}, in a declaration", declare(table)
        yield f"{name} in {name}, in a message", publish(headers(table))
    wide = b"".join(b"\x01aV" for _ in range(1_300))
    yield "a table of many fields", declare(u32(len(wide)) + wide)


CORPUS = {name: data for part in (broken_lengths, broken_methods, broken_sequences, nestings) for name, data in part()}
