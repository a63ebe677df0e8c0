"""Frames that no client should send, and the answer; every one of them closes the connection."""

from leveret.core.properties import Properties, encode_header
from leveret.wire import methods as m
from leveret.wire.frames import BODY, HEADER, HEARTBEAT, METHOD
from leveret.wire.replies import Reply
from tests.protocols.amqp.steps import Raw, Row
from tests.protocols.amqp.wire import frame, method_frame

PUBLISH = method_frame(1, m.BasicPublish("", "q"))
OTHER_METHOD = method_frame(1, m.BasicQos())
NO_METHOD = "expected method frame, got non method frame instead"
NO_HEADER = "expected content header for class 60, got non content header frame instead"
NO_BODY = "expected content body, got non content body frame instead"
BREAKS = (None, None)
IDS_PUBLISH = (60, 40)


def header(body_bytes: int) -> bytes:
    """A content header that announces so many bytes."""
    return frame(HEADER, 1, encode_header(Properties(), body_bytes))


def row(name: str, data: bytes, reply: Reply, text: str, ids: tuple[int, int] = (0, 0), **older: Reply | None) -> Row:
    """A row of one step, which is bytes."""
    return Row(name, (Raw(data, ids),), reply, text, (older["older"], None) if older else None)


FRAME_ROWS = [
    row(
        "an unknown method",
        frame(METHOD, 1, b"\0\x3c\x03\xe7"),
        Reply.COMMAND_INVALID,
        "unknown method 003c 03e7",
        (60, 999),
        older=None,
    ),
    row(
        "an unknown class",
        frame(METHOD, 1, b"\x03\xe7\0\x0a"),
        Reply.COMMAND_INVALID,
        "unknown method 03e7 000a",
        (999, 10),
        older=None,
    ),
    row(
        "arguments that end early",
        frame(METHOD, 1, b"\0\x32\0\x0a\0\0\x05q"),
        Reply.SYNTAX_ERROR,
        "queue.declare: 5 bytes announced, 1 left at byte 7",
        (50, 10),
        older=Reply.FRAME_ERROR,
    ),
    row(
        "an unknown frame type",
        frame(9, 1, b""),
        Reply.FRAME_ERROR,
        "unknown frame type 9",
        older=Reply.FRAME_ERROR,
    ),
    row(
        "a wrong end of frame",
        frame(HEARTBEAT, 0, b"")[:-1] + b"\x0a" * 8,
        Reply.FRAME_ERROR,
        "frame ends with 0xa, not 0xce",
        older=Reply.FRAME_ERROR,
    ),
    row(
        "a heartbeat on a channel",
        frame(HEARTBEAT, 1, b""),
        Reply.UNEXPECTED_FRAME,
        "heartbeat on channel 1, it belongs on channel 0",
        older=Reply.UNEXPECTED_FRAME,
    ),
    row("a body without a method", frame(BODY, 1, b"x"), Reply.UNEXPECTED_FRAME, NO_METHOD),
    row("a header without a method", header(1), Reply.UNEXPECTED_FRAME, NO_METHOD),
    row("a method where a header belongs", PUBLISH + OTHER_METHOD, Reply.UNEXPECTED_FRAME, NO_HEADER, IDS_PUBLISH),
    row(
        "a body where a header belongs", PUBLISH + frame(BODY, 1, b"x"), Reply.UNEXPECTED_FRAME, NO_HEADER, IDS_PUBLISH
    ),
    row(
        "a method where a body belongs",
        PUBLISH + header(5) + OTHER_METHOD,
        Reply.UNEXPECTED_FRAME,
        NO_BODY,
        IDS_PUBLISH,
    ),
    row("a second header where a body belongs", PUBLISH + header(5) * 2, Reply.UNEXPECTED_FRAME, NO_BODY, IDS_PUBLISH),
    row(
        "a header of another class",
        PUBLISH + frame(HEADER, 1, b"\0\x32" + encode_header(Properties(), 0)[2:]),
        Reply.UNEXPECTED_FRAME,
        "expected content header for class 60, got one for class 50 instead",
        IDS_PUBLISH,
    ),
    row(
        "a body that is longer than announced",
        PUBLISH + header(5) + frame(BODY, 1, b"123456"),
        Reply.FRAME_ERROR,
        "6 bytes of body came, 5 of the announced 5 were missing",
        IDS_PUBLISH,
        older=None,
    ),
]
