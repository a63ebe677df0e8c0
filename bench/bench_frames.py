"""AMQP frames of publishes, read and written without a socket: nanoseconds for method, header and body together."""

from bench.measure import report, timed
from leveret.core.properties import Properties, content
from leveret.wire.codec import decode, encode
from leveret.wire.frames import FrameReader, FrameWriter
from leveret.wire.methods import BasicPublish

FRAME_MAX = 131_072
BODY_BYTES = 100
TRIPLES = 400  # in one read of a socket, about 64 KiB
ROUNDS = 1_000


def main() -> None:
    method = encode(BasicPublish("exchange", "routing.key"))
    whole, header_len = content(Properties(content_type="text/plain", delivery_mode=2), bytes(BODY_BYTES))
    reader, writer = FrameReader(), FrameWriter()
    reader.tune(FRAME_MAX, 2047)
    writer.tune(FRAME_MAX)
    with timed() as writing:
        for _ in range(ROUNDS):
            for _ in range(TRIPLES):
                writer.content(1, method, whole, header_len)
            wire = writer.take()
    frames = 0
    with timed() as reading:
        for _ in range(ROUNDS):
            reader.feed(wire)
            while reader.next_frame() is not None:
                frames += 1
    assert frames == 3 * TRIPLES * ROUNDS
    with timed() as decoding:
        for _ in range(TRIPLES):
            decode(method)
    report(
        "frames",
        body_bytes=BODY_BYTES,
        read_ns_per_publish=round(1e9 * reading.seconds / (TRIPLES * ROUNDS)),
        written_ns_per_publish=round(1e9 * writing.seconds / (TRIPLES * ROUNDS)),
        decoded_ns_per_method=round(1e9 * decoding.seconds / TRIPLES),
    )


if __name__ == "__main__":
    main()
