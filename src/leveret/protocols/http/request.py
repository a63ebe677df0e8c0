"""A request as handlers see it: what was sent, decoded only where asked for."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

from leveret.core.errors import LeveretError
from leveret.observability.trace_context import parse
from leveret.protocols.net.admission import Slot
from leveret.security.identity import Identity
from leveret.security.peers import is_loopback, through_proxy

REQUEST_ID = b"x-request-id"
PASSWORD_PATH = b"/api/auth/hash_password/"  # RabbitMQ's tools send a password behind it
FORWARDED_PROTO = b"x-forwarded-proto"
FORWARDED = frozenset((b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", FORWARDED_PROTO, b"x-real-ip"))
"""What proxies add to a request."""
_ID = re.compile(rb"[A-Za-z0-9._~+/=:-]{1,128}")  # nothing that could forge a line of a log or of an answer
OBJECT_BYTES = 1_000  # that a request takes beside its head and its body, about
FIELDS_MAX = 1_000  # of a query or a form: each costs a string and a place in a dictionary


class Refusal(LeveretError):
    """What is refused for a reason of HTTP: a status, a sentence for the client, and headers if need be."""

    def __init__(self, status: int, detail: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers


class Proof(NamedTuple):
    """Credentials that were good a moment ago, on their way from this client and not through a proxy."""

    header: bytes
    identity: Identity
    generation: int
    """Of the rights of all users."""
    until_ms: int


@dataclass(slots=True)
class HttpPeer:
    """Who is at the other end of a connection."""

    host: str
    port: int
    tls: bool = False
    certificate_name: str | None = None
    """Of a client certificate that was verified."""
    slot: Slot | None = field(default=None, compare=False, repr=False)
    """The place of the connection in the budget of its protocol."""
    proof: Proof | None = field(default=None, compare=False, repr=False)
    """The credentials of its last request."""

    def authenticated(self) -> None:
        """A request of the connection has passed authentication: it is not evicted for a new one any more."""
        if self.slot is not None and not self.slot.authenticated:
            self.slot.authenticate()


class Request:
    """One request, complete with its body. Names of headers are lower-case bytes.

    A server asks its handler about a large body when the headers are there (`is_body_pending`), and again when the body
    is. The first answer is Admitted, or the last one of the connection.
    """

    is_body_pending = False
    is_admitted = False
    is_counted = False
    """Whether it was counted by the rate limit."""
    head_bytes = 0

    def __init__(
        self, method: str, target: bytes, headers: dict[bytes, bytes], peer: HttpPeer, version: str = "1.1"
    ) -> None:
        self.method = method
        self.target = target
        self.raw_path, _, self.raw_query = target.partition(b"?")
        self.headers = headers
        self.peer = peer
        self.version = version
        self.body = b""
        self.parameters: Mapping[str, str] = {}
        """What stood in the places of a route's names; set by the router."""
        self.identity: Identity | None = None
        """Who asks; set by the authentication."""

    @property
    def size(self) -> int:
        """The memory that it takes, in bytes, until it is answered."""
        return OBJECT_BYTES + self.head_bytes + len(self.body)

    def header(self, name: bytes) -> str:
        """The value of a header as text, "" when it is not there."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def sender(self) -> str:
        """The address that logins and rights of loopback are decided by: one of a proxy is marked as such."""
        host = self.peer.host
        return host if FORWARDED.isdisjoint(self.headers) else through_proxy(host)

    @property
    def is_local(self) -> bool:
        """Whether it was sent on this machine, and not by a proxy for a client that may be anywhere."""
        return is_loopback(self.sender)

    @property
    def is_encrypted(self) -> bool:
        """Whether it came by TLS: up to here, or to a proxy on this machine that says so."""
        if self.peer.tls:
            return True
        return self.header(FORWARDED_PROTO).lower() == "https" and is_loopback(self.peer.host)

    @cached_property
    def id(self) -> str:
        """What it is called in logs: as its sender calls it, if that is well formed."""
        given = self.headers.get(REQUEST_ID, b"")
        return given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)

    @property
    def is_named(self) -> bool:
        """Whether its sender is told the id: it asked for that, or something about it was logged."""
        return REQUEST_ID in self.headers or "id" in self.__dict__

    def facts(self) -> dict[str, object]:
        """What connects the events that it leads to."""
        trace = parse(self.header(b"traceparent")) if b"traceparent" in self.headers else None
        named: dict[str, object] = {"request": self.id}
        return named if trace is None else {**named, "trace_id": f"{trace.trace_id:032x}"}

    @cached_property
    def path(self) -> str:
        """The path with its percent signs decoded: for logs and exact matches, not to be split."""
        return _text(self.raw_path, "path")

    @property
    def shown_path(self) -> str:
        """The path as it was sent, for logs: without the password that one path has."""
        if unquote_to_bytes(self.raw_path).startswith(PASSWORD_PATH):
            return f"{PASSWORD_PATH.decode()}(hidden)"
        return self.raw_path.decode("latin-1")

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path between slashes, each decoded once: an encoded slash stays inside of its segment."""
        if b"%" not in self.raw_path and self.raw_path.isascii():
            return tuple(self.raw_path[1:].decode().split("/"))
        return tuple(_text(part, "path") for part in self.raw_path[1:].split(b"/"))

    @cached_property
    def query(self) -> dict[str, str]:
        return parse_fields(self.raw_query, "query")

    @cached_property
    def form(self) -> dict[str, str]:
        """The fields of a body that is application/x-www-form-urlencoded."""
        return parse_fields(self.body, "form")

    @property
    def media_type(self) -> str:
        """The content type without its parameters, in lower case."""
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")


def parse_fields(data: bytes, what: str) -> dict[str, str]:
    """Fields of a query or a form; each may be given once, since it would be unclear which of two counts."""
    if not data:
        return {}
    try:
        pairs = parse_qsl(
            data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX, separator="&"
        )
    except ValueError:
        raise Refusal(
            400, f"the {what} has over {FIELDS_MAX} fields, or bytes that are no percent-encoded UTF-8: correct it"
        ) from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Refusal(400, f"the {what} has a field twice: give each once")
    return fields


def _text(part: bytes, what: str) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Refusal(400, f"the {what} is not UTF-8 when it is decoded: encode it with percent signs") from None
