"""Frames out of bytes and into bytes: the limits, the order of checks, and the splitting of bodies."""

import pytest

from leveret.core.errors import InvalidArgument
from leveret.core.properties import Properties, content
from leveret.wire.frames import (
    BODY,
    FRAME_MAX_MAX,
    FRAME_MAX_MIN,
    FRAME_MAX_UNTUNED,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    FrameReader,
    FrameWriter,
    accepts,
)
from leveret.wire.replies import ProtocolError, Reply

Frames = list[tuple[int, int, bytes]]


def tuned_reader(frame_max: int = 131072, channel_max: int = 2047) -> FrameReader:
    reader = FrameReader(frame_max, channel_max)
    reader.tune(frame_max, channel_max)
    return reader


def tuned_writer(frame_max: int) -> FrameWriter:
    writer = FrameWriter()
    writer.tune(frame_max)
    return writer


def read_all(reader: FrameReader, wire: bytes) -> Frames:
    reader.feed(wire)
    return list(iter(reader.next_frame, None))


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def refused(reader: FrameReader, wire: bytes) -> Reply:
    reader.feed(wire)
    with pytest.raises(ProtocolError) as caught:
        reader.next_frame()
    return caught.value.code


def test_frames_written_by_hand() -> None:
    open_channel = b"\x01\x00\x01\x00\x00\x00\x05\x00\x14\x00\x0a\x00\xce"
    heartbeat = b"\x08\x00\x00\x00\x00\x00\x00\xce"
    assert read_all(tuned_reader(), open_channel + heartbeat) == [
        (METHOD, 1, b"\x00\x14\x00\x0a\x00"),
        (HEARTBEAT, 0, b""),
    ]
    writer = FrameWriter()
    writer.method(1, b"\x00\x14\x00\x0a\x00")
    writer.heartbeat()
    assert writer.take() == open_channel + heartbeat


def test_bytes_may_come_one_by_one() -> None:
    wire = frame(METHOD, 1, b"\x00\x3c\x00\x50") + frame(BODY, 1, b"") + frame(BODY, 2, b"body")
    reader = tuned_reader()
    found = [seen for i in range(len(wire)) for seen in read_all(reader, wire[i : i + 1])]
    assert found == [(METHOD, 1, b"\x00\x3c\x00\x50"), (BODY, 1, b""), (BODY, 2, b"body")]
    assert reader.buffered_bytes == 0


def test_what_follows_an_incomplete_frame_is_kept() -> None:
    wire = frame(BODY, 1, b"a" * 100) + frame(BODY, 1, b"b" * 100)
    reader = tuned_reader()
    assert read_all(reader, wire[:150]) == [(BODY, 1, b"a" * 100)]
    assert reader.buffered_bytes == 150 - 108
    assert read_all(reader, wire[150:]) == [(BODY, 1, b"b" * 100)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_fed(kind: type) -> None:
    reader = tuned_reader()
    reader.feed(kind(frame(BODY, 1, b"x")))
    assert reader.next_frame() == (BODY, 1, b"x")


def test_the_protocol_header_is_waited_for() -> None:
    reader = FrameReader()
    reader.feed(b"AMQP\0\0")
    assert reader.protocol_header() is None
    reader.feed(b"\x09\x01" + frame(HEARTBEAT, 0, b""))
    assert reader.protocol_header() == PROTOCOL_HEADER
    assert reader.next_frame() == (HEARTBEAT, 0, b"")


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (b"AMQP\x00\x00\x09\x01", True),
        (b"AMQP\x01\x01\x00\x09", True),
        (b"AMQP\x00\x01\x00\x00", False),
        (b"AMQP\x03\x01\x00\x00", False),
        (b"GET / HT", False),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", False),
    ],
)
def test_which_protocols_are_spoken(header: bytes, accepted: bool) -> None:
    assert accepts(header) == accepted


def test_a_stranger_may_send_small_frames_only() -> None:
    assert read_all(FrameReader(), frame(METHOD, 0, bytes(FRAME_MAX_UNTUNED))) == [
        (METHOD, 0, bytes(FRAME_MAX_UNTUNED))
    ]
    assert refused(FrameReader(), frame(METHOD, 0, bytes(FRAME_MAX_UNTUNED + 1))[:7]) == Reply.FRAME_ERROR


def test_a_payload_may_be_as_long_as_frame_max_and_no_longer() -> None:
    assert read_all(tuned_reader(8192), frame(BODY, 1, bytes(8192))) == [(BODY, 1, bytes(8192))]
    assert refused(tuned_reader(8192), frame(BODY, 1, bytes(8193))[:7]) == Reply.FRAME_ERROR


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x7f\xff\xff\xff"])
def test_a_hostile_size_is_refused_by_the_header_alone(size: bytes) -> None:
    assert refused(tuned_reader(FRAME_MAX_MAX), b"\x03\x00\x01" + size) == Reply.FRAME_ERROR


def test_a_wrong_end_is_refused() -> None:
    assert refused(tuned_reader(), frame(BODY, 1, b"x")[:-1] + b"\xcd") == Reply.FRAME_ERROR


@pytest.mark.parametrize("kind", [0, 4, 7, 9, 65, 255])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    assert refused(tuned_reader(), frame(kind, 0, b"")) == Reply.FRAME_ERROR


@pytest.mark.parametrize(("kind", "size_min"), [(METHOD, 4), (HEADER, 14)])
def test_a_frame_too_short_for_its_kind_is_refused(kind: int, size_min: int) -> None:
    assert refused(tuned_reader(), frame(kind, 1, bytes(size_min - 1))) == Reply.FRAME_ERROR
    assert read_all(tuned_reader(), frame(kind, 1, bytes(size_min))) == [(kind, 1, bytes(size_min))]


def test_a_heartbeat_is_empty_and_on_channel_0() -> None:
    assert refused(tuned_reader(), frame(HEARTBEAT, 1, b"")) == Reply.UNEXPECTED_FRAME
    assert refused(tuned_reader(), frame(HEARTBEAT, 0, b"x")) == Reply.FRAME_ERROR


@pytest.mark.parametrize("kind", [HEADER, BODY])
def test_there_is_no_content_on_channel_0(kind: int) -> None:
    assert refused(tuned_reader(), frame(kind, 0, bytes(14))) == Reply.UNEXPECTED_FRAME


def test_a_channel_is_refused_before_tuning_and_has_any_number_after_it() -> None:
    assert read_all(tuned_reader(channel_max=7), frame(BODY, 65_535, b"")) == [(BODY, 65_535, b"")]
    assert refused(FrameReader(), frame(METHOD, 1, bytes(4))) == Reply.CHANNEL_ERROR


def test_an_error_stays() -> None:
    reader = tuned_reader()
    assert refused(reader, b"\x00" * 7) == Reply.FRAME_ERROR
    assert refused(reader, frame(HEARTBEAT, 0, b"")) == Reply.FRAME_ERROR


@pytest.mark.parametrize(
    ("frame_max", "channel_max", "text"),
    [
        (0, 1, "negotiated frame_max = 0 is higher than the maximum allowed value (8192)"),
        (1, 1, "negotiated frame_max = 1 is lower than the minimum allowed value (4096)"),
        (4095, 1, "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)"),
        (8193, 1, "negotiated frame_max = 8193 is higher than the maximum allowed value (8192)"),
        (4096, 0, "negotiated channel_max = 0 is higher than the maximum allowed value (10)"),
        (4096, 11, "negotiated channel_max = 11 is higher than the maximum allowed value (10)"),
    ],
)
def test_a_client_may_not_raise_the_limits(frame_max: int, channel_max: int, text: str) -> None:
    reader = FrameReader(8192, 10)
    with pytest.raises(ProtocolError) as caught:
        reader.tune(frame_max, channel_max)
    assert caught.value.text == f"NOT_ALLOWED - {text}"
    assert (reader.frame_max, reader.channel_max) == (FRAME_MAX_UNTUNED, 0)


def test_a_client_may_lower_the_limits() -> None:
    reader = FrameReader(8192, 10)
    reader.tune(4096, 1)
    assert (reader.frame_max, reader.channel_max) == (4096, 1)


@pytest.mark.parametrize(
    ("frame_max", "channel_max"), [(0, 1), (FRAME_MAX_MIN - 1, 1), (FRAME_MAX_MAX + 1, 1), (8192, 0)]
)
def test_limits_outside_their_range_are_not_offered(frame_max: int, channel_max: int) -> None:
    with pytest.raises(InvalidArgument):
        FrameReader(frame_max, channel_max)


@pytest.mark.parametrize("frame_max", [0, FRAME_MAX_MIN - 1, FRAME_MAX_MAX + 1])
def test_a_writer_has_the_same_range(frame_max: int) -> None:
    with pytest.raises(ProtocolError, match="NOT_ALLOWED"):
        FrameWriter().tune(frame_max)


@pytest.mark.parametrize("body_bytes", [0, 1, 4088, 4089, 3 * 4088, 20_000])
def test_a_body_is_split_by_frame_max(body_bytes: int) -> None:
    body = bytes(i % 251 for i in range(body_bytes))
    whole, header_len = content(Properties(message_id="m"), body)
    writer = tuned_writer(4096)
    writer.content(3, b"\x00\x3c\x00\x3c", whole, header_len)
    wire = writer.take()
    method, header, *bodies = read_all(tuned_reader(4096), wire)
    assert method == (METHOD, 3, b"\x00\x3c\x00\x3c")
    assert header == (HEADER, 3, whole[:header_len])
    assert b"".join(payload for _, _, payload in bodies) == body
    assert all(len(payload) == 4088 for _, _, payload in bodies[:-1])
    assert all(payload and len(payload) <= 4088 for _, _, payload in bodies)


@pytest.mark.parametrize("header_len", [0, 13, 16])
def test_a_header_must_be_inside_its_content(header_len: int) -> None:
    writer = FrameWriter()
    with pytest.raises(InvalidArgument):
        writer.content(1, b"\x00\x3c\x00\x3c", bytes(15), header_len)
    assert writer.pending_bytes == 0


def test_what_was_taken_is_gone() -> None:
    writer = FrameWriter()
    writer.method(1, bytes(1_000_000))
    assert writer.pending_bytes == len(writer.take()) == 1_000_008
    assert writer.take() == b""
    writer.heartbeat()
    assert writer.take() == frame(HEARTBEAT, 0, b"")
