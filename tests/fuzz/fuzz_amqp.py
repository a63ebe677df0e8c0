"""Feeds the AMQP codec with atheris: `python tests/fuzz/fuzz_amqp.py -runs=100000`.

atheris sees the coverage of Python code only, which is all of the method codec and nothing of the frame reader: each
input is therefore a good conversation after a few mutations, and its frames as well as its bytes are tried.
"""

import sys
from contextlib import suppress

import atheris  # type: ignore

with atheris.instrument_imports(include=["leveret.protocols.amqp"]):
    from leveret.protocols.amqp import handshake
    from leveret.wire.codec import decode, encode

from leveret.core.properties import Properties, content
from leveret.wire import methods as m
from leveret.wire.frames import FrameReader, FrameWriter
from leveret.wire.replies import ProtocolError

ARGUMENTS = {"x-max-length": 5, "x-overflow": "reject-publish", "deep": [{"a": None}]}
FRAME_HEADER_BYTES = 7


def conversation() -> bytes:
    """What a client sends that logs in, declares and publishes."""
    writer = FrameWriter()
    for channel, method in (
        (0, m.ConnectionStartOk({"capabilities": {"basic.nack": True}}, "PLAIN", b"\0guest\0guest", "en_US")),
        (0, m.ConnectionTuneOk(2047, 131072, 60)),
        (1, m.QueueDeclare("q", durable=True, arguments=ARGUMENTS)),
        (1, m.BasicConsume("q", "tag", no_ack=True, arguments=ARGUMENTS)),
        (1, m.BasicAck(7, True)),
    ):
        writer.method(channel, encode(method))
    whole, header_len = content(Properties(headers=ARGUMENTS, delivery_mode=2), b"body")
    writer.content(1, encode(m.BasicPublish("ex", "rk", True)), whole, header_len)
    return writer.take()


SEED = conversation()


def mutated(_data: bytes, size_max: int, seed: int) -> bytes:
    """The good conversation, a little or thoroughly changed."""
    data = SEED
    for _ in range(1 + seed % 6):
        data = atheris.Mutate(data, size_max)
    return data


def fuzz(data: bytes) -> None:
    """One input as frames, as a method and as a login: answers and ProtocolError only."""
    reader = FrameReader()
    reader.tune(4096, 2047)
    reader.feed(data)
    with suppress(ProtocolError):
        while (frame := reader.next_frame()) is not None:
            again = encode(decode(frame[2]))
            assert encode(decode(again)) == again
    for mechanism in handshake.MECHANISMS:
        with suppress(ProtocolError):
            handshake.parse_response(mechanism, data)
    with suppress(ProtocolError):
        encode(decode(data[FRAME_HEADER_BYTES:]))


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], "-len_control=0", *sys.argv[1:]], fuzz, custom_mutator=mutated)
    atheris.Fuzz()
