"""A small client of etcd: leases, keys, transactions and watches, by its JSON gateway (version 3).

Keys and values are text here and base64 on the wire; whole numbers of 64 bits are text on the wire. Whatever raises
Unreachable may have been done or not: the caller looks before it tries again. NotFound is raised for a lease that is
gone; a missing key is a value.

Requests to the JSON gateway of etcd: one connection for each, answers whole or line by line.

A request is answered in a millisecond or the endpoint is in trouble, so there is no pool that would have to find out
which of its connections are still good: idle ones are kept only until the next failure.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from leveret.core.errors import AccessRefused, InvalidArgument, NotFound, Unreachable
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


TIMEOUT_S = 1.0  # for one endpoint; below a third of a lease, so that the next one is asked in time
IDLE_S = 5.0  # a watch that is silent for so long is begun anew: its endpoint may have died without a word

# Codes of gRPC, as the gateway passes them on.
INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION, UNAUTHENTICATED = 3, 5, 7, 9, 16
STALE = (INVALID_ARGUMENT, UNAUTHENTICATED)
"""What is said to a token that is older than the last change of users, or has expired."""


class KeyValue(NamedTuple):
    """A key as etcd has it."""

    key: str
    value: str
    created: int
    """The revision at which it came into being, and that of its last change."""
    changed: int
    lease: int


class KeyEvent(NamedTuple):
    """What happened to a key; without a value it is gone."""

    key: str
    revision: int
    found: KeyValue | None


class KeyRange(NamedTuple):
    """Keys at one revision."""

    revision: int
    keys: list[KeyValue]


class Done(NamedTuple):
    """Whether a transaction was carried out, and the revision after it."""

    succeeded: bool
    revision: int


class Etcd:
    """One client; safe for many tasks of one loop."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        user: str = "",
        password: str = "",
        tls: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Nothing is connected yet; `endpoints` are URLs of one cluster of etcd."""
        self._gateway = Gateway(list(endpoints), tls, timeout_s)
        self._credentials = {"name": user, "password": password} if user else None
        self._token = ""

    # Leases

    async def grant(self, ttl_s: int) -> int:
        return int((await self._call("/v3/lease/grant", {"TTL": ttl_s}))["ID"])

    async def keep_alive(self, lease: int) -> bool:
        """Renew a lease; False when it is gone."""
        answer = await self._call("/v3/lease/keepalive", {"ID": lease}, again=True)
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    async def revoke(self, lease: int) -> None:
        """End a lease, and with it its keys; one that is gone is no error."""
        with suppress(NotFound):
            await self._call("/v3/lease/revoke", {"ID": lease}, again=True)

    async def member_count(self) -> int:
        return len((await self._call("/v3/cluster/member/list", {}, again=True)).get("members", ()))

    # Keys

    async def put(self, key: str, value: str, lease: int = 0) -> int:
        """Write a key; give the revision."""
        return _revision(await self._call("/v3/kv/put", _put(key, value, lease)))

    async def delete(self, key: str) -> int:
        """Remove a key; give the revision. A missing one is no error."""
        return _revision(await self._call("/v3/kv/deleterange", {"key": _wire(key)}, again=True))

    async def get(self, key: str) -> KeyValue | None:
        """One key, as a majority of etcd has it."""
        answer = await self._call("/v3/kv/range", {"key": _wire(key)}, again=True)
        return next(map(_key_value, answer.get("kvs", ())), None)

    async def range(self, prefix: str) -> KeyRange:
        answer = await self._call("/v3/kv/range", _prefix(prefix), again=True)
        return KeyRange(_revision(answer), [_key_value(each) for each in answer.get("kvs", ())])

    async def create(self, key: str, value: str, lease: int = 0, hint: str = "") -> Done:
        """Write a key if it is not there, and remove a hint; the revision is that of its creation."""
        removals = [{"request_delete_range": {"key": _wire(hint)}}] if hint else []
        return await self._transact(_created(key, 0), [{"request_put": _put(key, value, lease)}, *removals])

    async def replace(self, key: str, created: int, value: str, lease: int = 0) -> Done:
        """Write a key if it is still the one of that creation."""
        return await self._transact(_created(key, created), [{"request_put": _put(key, value, lease)}])

    async def remove(self, key: str, created: int, hint: tuple[str, str, int] | None = None) -> Done:
        """Remove a key if it is still the one of that creation; write the hint (key, value, lease) with it."""
        puts = [{"request_put": _put(*hint)}] if hint else []
        return await self._transact(_created(key, created), [*puts, {"request_delete_range": {"key": _wire(key)}}])

    async def _transact(self, compare: dict[str, Any], success: list[dict[str, Any]]) -> Done:
        answer = await self._call("/v3/kv/txn", {"compare": [compare], "success": success})
        return Done(bool(answer.get("succeeded")), _revision(answer))

    # Watching

    async def watch(self, prefix: str, revision: int) -> AsyncGenerator[list[KeyEvent], None]:
        """What happens to keys that begin so, from a revision on; ends when it is time to look at all of them again."""
        request = {"create_request": {**_prefix(prefix), "start_revision": revision}}
        async with aclosing(self._gateway.lines("/v3/watch", request, self._token, IDLE_S)) as lines:
            async for line in lines:
                result = line.get("result")
                if result is None or (result.get("canceled") and not result.get("compact_revision")):
                    why = line.get("error") if result is None else result.get("cancel_reason")
                    raise GatewayLost(f"etcd ended the watch: {why}", sent=True)
                if result.get("canceled"):
                    return  # what was to be told is compacted
                if events := result.get("events"):
                    yield [_event(each) for each in events]

    # Asking

    async def _call(self, path: str, request: dict[str, Any], *, again: bool = False) -> dict[str, Any]:
        if self._credentials and not self._token:
            await self._log_in()
        answer = await self._gateway.ask(path, request, self._token, again=again)
        if self._credentials and _code(answer) in STALE:
            await self._log_in()
            answer = await self._gateway.ask(path, request, self._token, again=again)
        return _checked(answer)

    async def _log_in(self) -> None:
        answer = await self._gateway.ask("/v3/auth/authenticate", self._credentials or {}, again=True)
        if _code(answer) in (INVALID_ARGUMENT, FAILED_PRECONDITION):
            raise AccessRefused(f"etcd refuses user and password: {_message(answer)}")
        self._token = _checked(answer)["token"]

    async def close(self) -> None:
        await self._gateway.close()


def _code(answer: GatewayAnswer) -> int:
    return int(answer.body.get("code", 0)) if answer.status != 200 else 0


def _message(answer: GatewayAnswer) -> str:
    return str(answer.body.get("message") or answer.body.get("error") or f"status {answer.status}")


def _checked(answer: GatewayAnswer) -> dict[str, Any]:
    """What was asked for, or the refusal as ours."""
    if answer.status == 200:
        return answer.body
    code = _code(answer)
    if code == NOT_FOUND:
        raise NotFound(f"etcd does not know it any more: {_message(answer)}")
    if code in (INVALID_ARGUMENT, PERMISSION_DENIED, UNAUTHENTICATED):  # the first one: no user at all
        raise AccessRefused(f"etcd refuses: {_message(answer)}; check its user and password")
    raise GatewayLost(f"etcd cannot do it now: {_message(answer)}", sent=True)


def _wire(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(wire: str) -> str:
    return base64.b64decode(wire).decode(errors="replace")


def _put(key: str, value: str, lease: int) -> dict[str, Any]:
    return {"key": _wire(key), "value": _wire(value), "lease": lease}


def _prefix(prefix: str) -> dict[str, Any]:
    return {"key": _wire(prefix), "range_end": _wire(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


def _created(key: str, revision: int) -> dict[str, Any]:
    return {"key": _wire(key), "target": "CREATE", "result": "EQUAL", "create_revision": revision}


def _revision(answer: dict[str, Any]) -> int:
    return int(answer["header"]["revision"])


def _key_value(wire: dict[str, Any]) -> KeyValue:
    created, changed = int(wire.get("create_revision", 0)), int(wire.get("mod_revision", 0))
    return KeyValue(_text(wire["key"]), _text(wire.get("value", "")), created, changed, int(wire.get("lease", 0)))


def _event(wire: dict[str, Any]) -> KeyEvent:
    found = _key_value(wire["kv"])
    return KeyEvent(found.key, found.changed, None if wire.get("type") == "DELETE" else found)
