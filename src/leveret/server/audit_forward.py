"""Where the rows of the audit log are forwarded to, as the options say: a syslog server, or an HTTP endpoint.

    syslog://HOST:514   UDP            syslog+tcp://HOST:601           syslog+tls://HOST:6514
    syslog+unix:///dev/log             https://HOST/PATH, http://HOST/PATH

To HTTP rows go as lines of JSON (application/x-ndjson), as they are in the files; the headers X-Leveret-Log and
X-Leveret-Node say which log of which node it is. Every status of 2xx is a yes.

To a syslog server they go as RFC 5424 has messages:

    <110>1 2026-01-02T03:04:05.678Z HOST leveret PID audit-clients - {"at_ms": ..., "by": ..., "seq": 7, "prev": ...}

The facility is 13 (log audit), the severity 6 (informational), or 4 (warning) for refusals. By UDP (RFC 5426) and to a
local socket one datagram is one message; by TCP and TLS (RFC 6587, RFC 5425) the length of a message comes before it.
Only TLS proves who the server is. No transport of syslog acknowledges messages: what a server loses after it was sent
is lost.
"""

import os
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from leveret.clock import iso_second
from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.observability.alerting.addresses import (
    TLS_BY_SCHEME,
    AddressRefused,
    WebhookEndpoint,
    allows,
    connect,
    endpoint_of,
)
from leveret.observability.alerting.transports import DeliveryFailed, Transports, post_body
from leveret.observability.forwarding import AuditForwarder, ForwardSender, Line, NotTaken
from leveret.security.peers import is_loopback

FACILITY = 13
SEVERITY, SEVERITY_OF_REFUSALS = 6, 4
NAME = "leveret"
STEP_S = 10.0  # to connect, and for the other side to take a batch
HOST_CHARS_MAX = 255  # RFC 5424

UDP, TCP, TLS, UNIX = "syslog", "syslog+tcp", "syslog+tls", "syslog+unix"
PORTS = {UDP: 514, TCP: 601, TLS: 6514}
CONTENT = "application/x-ndjson"
FOR_GOOD = frozenset((400, 413, 422))
"""Statuses with which the same rows would be refused again; after others an operator may change a setting."""


class SyslogAddress(NamedTuple):
    """Where a syslog server is; of a local socket, `host` is its path."""

    scheme: str
    host: str
    port: int = 0


def message(line: Line, host: str) -> bytes:
    """A row as a message."""
    priority = FACILITY * 8 + (SEVERITY_OF_REFUSALS if line.is_refusal else SEVERITY)
    time = f"{iso_second(line.at_ms // 1_000)}.{line.at_ms % 1_000:03d}Z"
    return f"<{priority}>1 {time} {host} {NAME} {os.getpid()} {line.log} - ".encode() + line.text


class SyslogSender:
    """A syslog server; see observability/forwarding.py:ForwardSender."""

    def __init__(self, place: SyslogAddress, host: str, tls: Callable[[], ssl.SSLContext], plain_remote: bool) -> None:
        """Nothing is connected yet; `host` is what this machine or node is called."""
        self._place = place
        self._host = "".join(each if "!" <= each <= "~" else "_" for each in host)[:HOST_CHARS_MAX] or "-"
        self._tls = tls
        self._plain_remote = plain_remote
        self._socket: socket.socket | None = None

    def send(self, lines: Sequence[Line]) -> None:
        messages = [message(line, self._host) for line in lines]
        try:
            connection = self._connected()
            if self._place.scheme in (TCP, TLS):
                connection.sendall(b"".join(b"%d %b" % (len(each), each) for each in messages))
            else:
                for each in messages:
                    connection.send(each)
        except (OSError, UnicodeError) as error:
            self.close()
            reason = str(error) if isinstance(error, AddressRefused) else getattr(error, "strerror", None)
            raise NotTaken(f"the syslog server cannot be reached: {reason or type(error).__name__}") from None

    def close(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            with suppress(OSError):
                connection.close()

    def _connected(self) -> socket.socket:
        """The connection; a server says nothing, so that one from which something comes has been closed."""
        if self._socket is not None and self._place.scheme in (TCP, TLS):
            readable, _, _ = select.select([self._socket], [], [], 0)
            if readable:
                self.close()
        if self._socket is None:
            self._socket = self._connect()
        return self._socket

    def _connect(self) -> socket.socket:
        scheme, host, port = self._place
        if scheme == UNIX:
            return _datagrams(socket.AF_UNIX, host)
        if scheme == UDP:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
            allowed = [row for row in found if allows(str(row[4][0]), False, self._plain_remote)]
            if not allowed:
                raise AddressRefused(f"{host} is at an address that must not be sent to without audit_forward_plain")
            return _datagrams(allowed[0][0], allowed[0][4])
        bare = connect(host, port, STEP_S, scheme == TLS, self._plain_remote)
        if scheme == TCP:
            return bare
        try:
            return self._tls().wrap_socket(bare, server_hostname=host)
        except BaseException:
            bare.close()
            raise


def _datagrams(family: int, address: object) -> socket.socket:
    """A socket whose datagrams go to an address."""
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.settimeout(STEP_S)
    try:
        made.connect(address)  # type: ignore[arg-type]
    except BaseException:
        made.close()
        raise
    return made


class HttpSender:
    """An HTTP endpoint; see observability/forwarding.py:ForwardSender."""

    def __init__(self, transports: Transports, endpoint: WebhookEndpoint, authorization: str) -> None:
        self._transports = transports
        self._endpoint = endpoint
        self._authorization = authorization

    def send(self, lines: Sequence[Line]) -> None:
        headers = {"Content-Type": CONTENT, "X-Leveret-Log": lines[0].log, "X-Leveret-Node": self._transports.node}
        if self._authorization:
            headers["Authorization"] = self._authorization
        body = b"".join(line.text + b"\n" for line in lines)
        try:
            post_body(self._transports, self._endpoint, body, headers)
        except DeliveryFailed as failed:
            raise NotTaken(f"the endpoint: {failed}", again=failed.status not in FOR_GOOD) from None

    def close(self) -> None:
        """See ForwardSender."""


def forwarder_of(options: ServerOptions) -> AuditForwarder | None:
    """What forwards rows, if they are to be forwarded; refuses what cannot be used."""
    if options.audit_forward is None:
        return None
    return AuditForwarder(sender_of(options, options.audit_forward), options.audit_forward_rows_max)


def sender_of(options: ServerOptions, url: str) -> ForwardSender:
    """What knows the collector at a URL."""
    authority = options.audit_forward_ca or options.alerts_ca

    def trusted() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=authority)

    try:
        trusted()
    except OSError as error:
        raise InvalidArgument(f"audit_forward_ca cannot be used: {error.strerror or error}") from None
    node = options.node or socket.gethostname()
    if urlsplit(url).scheme in TLS_BY_SCHEME:
        endpoint = endpoint_of(url)
        _check_plain(options, endpoint.host, endpoint.tls)
        return HttpSender(
            Transports(node, options.audit_forward_plain, trusted), endpoint, options.audit_forward_authorization
        )
    place = place_of(url)
    if place.scheme != UNIX:
        _check_plain(options, place.host, place.scheme == TLS)
    return SyslogSender(place, node, trusted, options.audit_forward_plain)


def place_of(url: str) -> SyslogAddress:
    """A syslog server by its URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidArgument("audit_forward is a URL such as syslog+tls://logs.example.org: correct it") from None
    if parts.scheme == UNIX and parts.path and not parts.netloc:
        return SyslogAddress(UNIX, parts.path)
    if parts.scheme not in PORTS or not parts.hostname or parts.path.strip("/") or parts.username is not None:
        schemes = ", ".join(f"{each}://" for each in (*PORTS, UNIX, *TLS_BY_SCHEME))
        raise InvalidArgument(f"audit_forward is a URL with a host and one of {schemes}: correct it")
    return SyslogAddress(parts.scheme, parts.hostname, port or PORTS[parts.scheme])


def _check_plain(options: ServerOptions, host: str, tls: bool) -> None:
    """Refuse to send rows in clear to other machines; the address is looked at again when it is connected to."""
    if not tls and not options.audit_forward_plain and host != "localhost" and not is_loopback(host):
        raise InvalidArgument(
            f"audit_forward would send rows to {host} without TLS: use syslog+tls:// or https://, or set "
            "audit_forward_plain"
        )
