"""Real receivers on this machine: a web server and a mail server that keep what they are sent."""

import asyncio
import json
import queue
import socket
import ssl
import threading
from contextlib import suppress
from email import message_from_bytes
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword

from tests.waiting import PATIENCE_S


class Post(NamedTuple):
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: Any


class WebSink:
    """Answers each POST with the next of some statuses, then with 200."""

    def __init__(self, *statuses: int, context: ssl.SSLContext | None = None, silent: bool = False) -> None:
        self.posts: queue.Queue[Post] = queue.Queue()
        self._statuses = list(statuses)
        self._released = threading.Event()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                sink.posts.put(Post(self.path, dict(self.headers), body))
                if silent:
                    sink._released.wait(PATIENCE_S)
                status = sink._statuses.pop(0) if sink._statuses else 200
                with suppress(OSError):
                    self.send_response(status)
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                    self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if context is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        """Where to send to."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}/hooks/s3cret?room=ops"

    def next(self) -> Post:
        """What came next."""
        return self.posts.get(timeout=PATIENCE_S)

    def release(self) -> None:
        """Answer those who wait."""
        self._released.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class FreePort(Controller):
    """A controller that may be given any port."""

    def _trigger_server(self) -> None:
        assert isinstance(self.server, asyncio.Server)
        self.port = self.server.sockets[0].getsockname()[1]
        with socket.create_connection((self.hostname, self.port), PATIENCE_S) as connection:
            connection.recv(1024)


class MailSink:
    """Takes letters, on an encrypted connection if there is a certificate; with a password, from one user only."""

    def __init__(self, context: ssl.SSLContext | None = None, password: str | None = None) -> None:
        self.letters: queue.Queue[Message] = queue.Queue()
        self.encrypted: list[bool] = []
        self._controller = FreePort(
            self,
            hostname="127.0.0.1",
            port=0,
            ready_timeout=PATIENCE_S,
            tls_context=context,
            require_starttls=context is not None,
            authenticator=lambda server, session, envelope, mechanism, given: AuthResult(
                success=isinstance(given, LoginPassword) and given.password == (password or "").encode(),
                handled=False,
            ),
            auth_required=password is not None,
        )

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:
        """Keep a letter."""
        self.encrypted.append(session.ssl is not None)
        assert isinstance(envelope.content, bytes)
        self.letters.put(message_from_bytes(envelope.content, policy=default))
        return "250 kept"

    @property
    def port(self) -> int:
        """Where to send to."""
        return int(self._controller.port)

    def next(self) -> Message:
        """What came next."""
        return self.letters.get(timeout=PATIENCE_S)

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._controller.stop()
