"""Frames and methods under random and damaged bytes: an answer or a ProtocolError, in bounded memory."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.properties import Properties, content
from leveret.wire.codec import decode, encode
from leveret.wire.frames import METHOD, FrameReader, FrameWriter
from leveret.wire.methods import METHODS
from leveret.wire.replies import ProtocolError, Reply
from tests.protocols.amqp.strategies import ANY_METHOD

FRAME_MAX = 4096
PREFIXES = [spec.class_id.to_bytes(2, "big") + spec.method_id.to_bytes(2, "big") for spec in METHODS]
CONTENT, HEADER_LEN = content(Properties(headers={"a": [1, {"b": "c"}]}, delivery_mode=2, message_id="m"), bytes(5000))
Outcome = tuple[list[tuple[int, int, bytes]], Reply | None]

edits = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4)
cuts = st.lists(st.integers(1, 6000), max_size=8)


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    """Frames in any order, as a client without manners would send them."""
    writer = FrameWriter()
    for _ in range(draw(st.integers(1, 5))):
        channel = draw(st.integers(0, 3))
        match draw(st.sampled_from(["method", "content", "heartbeat", "noise"])):
            case "method":
                writer.method(channel, encode(draw(ANY_METHOD)))
            case "content":
                writer.content(channel, encode(draw(ANY_METHOD)), CONTENT, HEADER_LEN)
            case "noise":
                writer.method(channel, draw(st.sampled_from(PREFIXES)) + draw(st.binary(max_size=50)))
            case "heartbeat":
                writer.heartbeat()
    return writer.take()


def damaged(wire: bytes, edits: list[tuple[int, int]]) -> bytes:
    changed = bytearray(wire)
    for position, value in edits:
        changed[position % len(changed)] = value
    return bytes(changed)


def pieces(wire: bytes, cuts: list[int]) -> list[bytes]:
    ends = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    return [wire[start:end] for start, end in pairwise(ends)]


def outcome(parts: list[bytes]) -> Outcome:
    """The frames in what is fed piece by piece, and the error that ended it; no more is buffered than one frame."""
    reader = FrameReader()
    reader.tune(FRAME_MAX, 2)
    found: list[tuple[int, int, bytes]] = []
    for part in parts:
        reader.feed(part)
        try:
            found.extend(iter(reader.next_frame, None))
        except ProtocolError as error:
            return found, error.code
        assert reader.buffered_bytes < FRAME_MAX + 8
    return found, None


def check_method(payload: bytes) -> None:
    """What decodes can be encoded again, and reads the same from then on."""
    try:
        method = decode(payload)
    except ProtocolError:
        return
    again = encode(method)
    assert encode(decode(again)) == again


@given(st.binary(max_size=300))
def test_random_bytes_as_frames(data: bytes) -> None:
    _, code = outcome([data])
    assert code is None or code in {Reply.FRAME_ERROR, Reply.CHANNEL_ERROR, Reply.UNEXPECTED_FRAME}


@given(st.sampled_from(PREFIXES), st.binary(max_size=200))
def test_random_bytes_as_a_method(prefix: bytes, data: bytes) -> None:
    check_method(data)
    check_method(prefix + data)


@given(ANY_METHOD.map(encode), edits)
def test_a_damaged_method(payload: bytes, edits: list[tuple[int, int]]) -> None:
    check_method(payload[:4] + damaged(payload[4:], edits) if len(payload) > 4 else payload)


@given(conversations(), edits, cuts)
def test_a_damaged_conversation_reads_the_same_however_it_is_cut(
    wire: bytes, edits: list[tuple[int, int]], cuts: list[int]
) -> None:
    wire = damaged(wire, edits)
    found, code = outcome([wire])
    assert outcome(pieces(wire, cuts)) == (found, code)
    for kind, _, payload in found:
        if kind == METHOD:
            check_method(payload)
