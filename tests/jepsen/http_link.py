"""A connection to a port for HTTP of a node, for REST or SQS."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, Self

from tests.jepsen.wanderer import PATIENCE_S, Gone

LOST = (Gone, OSError, http.client.HTTPException)
"""What is raised when a node is not there any more, or does not do what it is asked for."""


class HttpLink:
    """One connection, which stays open."""

    def __init__(self, host: str, port: int) -> None:
        self.host = f"{host}:{port}"
        self._connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        self._connection.connect()

    def request(self, method: str, path: str, body: bytes, fields: Mapping[str, str]) -> Any:
        """What is answered, as JSON gives it; raises Gone when it was not done."""
        self._connection.request(method, path, body, dict(fields))
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise Gone(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text or b"{}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


class RestLink(HttpLink):
    """A connection to the REST API."""

    def __init__(self, host: str, port: int, token: str) -> None:
        super().__init__(host, port)
        self._fields = {"authorization": f"Bearer {token}"}

    def ask(self, line: str, body: object = None) -> Any:
        """Ask for something: "GET /queues", with a body of bytes, or of what JSON has."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        method, path = line.split(" ", 1)
        return self.request(method, path, data, self._fields)
