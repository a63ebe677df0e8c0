"""A proxy that loses answers: it passes a request on, and closes the connection when the answer has come."""

import socket
import threading
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S

READ_BYTES = 65_536
UNABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 0\r\n\r\n"


class Flaky:
    """Passes each connection on to a server; loses as many answers, and refuses as many requests, as it is told to."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lose = 0
        """Answers that are not passed on."""
        self.refuse = 0
        """Requests that are not passed on."""
        self.unable = 0
        """Requests that are answered as a node does that has lost the others."""
        self.connections = 0
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target), PATIENCE_S) as server:
            self._sockets.append(client)
            while request := self._read(client):
                if self.refuse:
                    self.refuse -= 1
                    return
                if self.unable:
                    self.unable -= 1
                    client.sendall(UNABLE)
                    continue
                server.sendall(request)
                answer = self._read(server)
                if self.lose:
                    self.lose -= 1
                    return
                client.sendall(answer)

    @staticmethod
    def _read(source: socket.socket) -> bytes:
        """All that is sent at once: small requests and answers come in one piece."""
        try:
            return source.recv(READ_BYTES)
        except OSError:
            return b""
