"""Requests to the JSON gateway of etcd: one connection for each, answers whole or line by line.

A request is answered in a millisecond or the endpoint is in trouble, so there is no pool that would have to find out
which of its connections are still good: idle ones are kept only until the next failure.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from leveret.core.errors import InvalidArgument, Unreachable
from leveret.http_client import AsyncConnection

ANSWER_BYTES_MAX = 64 << 20  # all keys of a cluster are a few kilobytes: a server that sends more is not etcd
SHOWN_BYTES = 100  # of what is no answer
IDLE_MAX = 8
PORT = 2379


class GatewayLost(Unreachable):
    """No answer; `sent` says whether the request may have arrived."""

    def __init__(self, reason: str, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class GatewayAnswer(NamedTuple):
    """What the gateway said."""

    status: int
    body: dict[str, Any]


class EtcdEndpoint(NamedTuple):
    """Where an etcd listens."""

    host: str
    port: int
    tls: bool

    @classmethod
    def parse(cls, url: str) -> Self:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        try:
            port = parts.port or PORT
        except ValueError:
            port = 0
        if parts.scheme not in ("http", "https") or not parts.hostname or not port:
            shown = url.rpartition("@")[2]  # before that may be a password
            raise InvalidArgument(f"'{shown}' is no endpoint of etcd: write http://HOST:PORT or https://HOST:PORT")
        if "@" in parts.netloc:
            raise InvalidArgument("an endpoint of etcd has no user in it: give etcd_user and etcd_password")
        return cls(parts.hostname, port, parts.scheme == "https")


class GatewayConnection(AsyncConnection):
    """One connection to an endpoint; one request at a time."""

    def __init__(self, endpoint: EtcdEndpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer, ANSWER_BYTES_MAX)
        self.endpoint = endpoint

    @classmethod
    async def open(cls, endpoint: EtcdEndpoint, tls: ssl.SSLContext | None, timeout_s: float) -> Self:
        try:
            async with asyncio.timeout(timeout_s):
                context = tls if endpoint.tls else None
                streams = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
        except (OSError, TimeoutError) as error:
            reason = f"cannot connect to etcd at {endpoint.host}:{endpoint.port} ({str(error) or 'it took too long'})"
            raise GatewayLost(f"{reason}: see whether it runs", sent=False) from None
        return cls(endpoint, *streams)

    async def ask(self, path: str, request: dict[str, Any], token: str, timeout_s: float) -> GatewayAnswer:
        """Send a request and wait for all of its answer."""
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self.exchange(self._bytes(path, request, token))
        except (OSError, TimeoutError, Unreachable) as error:
            raise GatewayLost(
                f"etcd did not answer ({str(error) or 'it took too long'}): ask again", sent=True
            ) from None
        return GatewayAnswer(answer.status, _json(answer.body))

    async def lines(
        self, path: str, request: dict[str, Any], token: str, timeout_s: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Send a request whose answer goes on and on; ends when nothing came for some time."""
        rest = b""
        try:
            self._out.write(self._bytes(path, request, token))
            while True:
                async with asyncio.timeout(timeout_s):
                    answer = await self.read()
                if answer is not None:
                    raise ConnectionError(f"its answer {answer.status} has an end")
                *lines, rest = (rest + self._reader.take()).split(b"\n")
                if len(rest) > ANSWER_BYTES_MAX:
                    raise ConnectionError("a line of it is too large")
                for line in filter(None, lines):
                    yield _json(line)
        except TimeoutError:
            return
        except (OSError, Unreachable) as error:
            raise GatewayLost(f"the watch of etcd ended ({error})", sent=True) from None

    def _bytes(self, path: str, request: dict[str, Any], token: str) -> bytes:
        body = json.dumps(request, separators=(",", ":")).encode()
        lines = [f"POST {path} HTTP/1.1", f"Host: {self.endpoint.host}:{self.endpoint.port}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"Authorization: {token}"] if token else []
        return "\r\n".join([*lines, "", ""]).encode() + body


def _json(body: bytes) -> dict[str, Any]:
    """An object of JSON; the first one of an answer that is a stream."""
    try:
        found = json.loads(body.split(b"\n", 1)[0] or b"{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        told = body[:SHOWN_BYTES].decode(errors="replace").strip()
        raise GatewayLost(
            f"the answer is not that of etcd's JSON gateway: check the endpoint; it says {told!r}", sent=True
        )
    return found


class Gateway:
    """All endpoints of an etcd: each request goes to the one that worked last, then to the others in turn."""

    def __init__(self, endpoints: list[str], tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """Nothing is connected yet; without `tls` certificates are checked by the authorities of the machine."""
        if not endpoints:
            raise InvalidArgument("name at least one endpoint of etcd")
        self._endpoints = [EtcdEndpoint.parse(url) for url in endpoints]
        encrypted = any(endpoint.tls for endpoint in self._endpoints)
        self._tls = ssl.create_default_context() if encrypted and tls is None else tls
        self._timeout_s = timeout_s
        self._idle: list[GatewayConnection] = []

    async def ask(self, path: str, request: dict[str, Any], token: str = "", *, again: bool = False) -> GatewayAnswer:
        """The answer of any endpoint; `again`: the request may be sent twice, so that a lost answer costs nothing."""
        for left in reversed(range(len(self._endpoints))):
            endpoint = self._endpoints[0]
            try:
                return await self._ask_one(endpoint, path, request, token)
            except GatewayLost as lost:
                self._leave(endpoint)
                if not left or (lost.sent and not again):
                    raise
        raise AssertionError("there is an endpoint")

    async def _ask_one(self, endpoint: EtcdEndpoint, path: str, request: dict[str, Any], token: str) -> GatewayAnswer:
        connection = self._take(endpoint) or await GatewayConnection.open(endpoint, self._tls, self._timeout_s)
        try:
            answer = await connection.ask(path, request, token, self._timeout_s)
        except BaseException:
            # Also when the task is cancelled: the answer must not be taken for that to another request.
            connection.abort()
            raise
        if connection.reusable and len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            await connection.close()
        return answer

    async def lines(
        self, path: str, request: dict[str, Any], token: str, idle_s: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The parts of an answer that goes on and on."""
        endpoint = self._endpoints[0]
        try:
            connection = await GatewayConnection.open(endpoint, self._tls, self._timeout_s)
            try:
                async for line in connection.lines(path, request, token, idle_s):
                    yield line
            finally:
                connection.abort()
        except GatewayLost:
            self._leave(endpoint)
            raise

    def _take(self, endpoint: EtcdEndpoint) -> GatewayConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh and connection.endpoint == endpoint:
                return connection
            connection.abort()
        return None

    def _leave(self, endpoint: EtcdEndpoint) -> None:
        """Go to the next endpoint from now on, unless another request that lost this one has done so."""
        if self._endpoints[0] == endpoint:
            self._endpoints.append(self._endpoints.pop(0))

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()
