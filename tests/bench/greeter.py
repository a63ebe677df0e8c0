"""A broker that says what a test wants, whatever it is told."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bench.amqp.brokers import AMQP_HEADER
from tests.waiting import PATIENCE_S


def frame(payload: bytes, channel: int = 0) -> bytes:
    return b"\x01" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port where the first connection is answered with these bytes, after its first eight."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            connection.settimeout(PATIENCE_S)
            with connection:
                assert connection.recv(8, socket.MSG_WAITALL) == AMQP_HEADER
                connection.sendall(answer)
                # Closing with bytes unread would reset the connection, and the answer could be lost.
                connection.shutdown(socket.SHUT_WR)
                with suppress(ConnectionResetError):
                    while connection.recv(4096):
                        pass

        server = threading.Thread(target=serve)
        server.start()
        yield listener.getsockname()[1]
        server.join()


def start(version: str) -> bytes:
    """connection.start with this version in its server properties."""
    properties = b"\x07versionS" + len(version).to_bytes(4, "big") + version.encode()
    return frame(b"\x00\x0a\x00\x0a\x00\x09" + len(properties).to_bytes(4, "big") + properties)
