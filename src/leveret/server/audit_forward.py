"""Where the rows of the audit log are forwarded to, as the options say: a syslog server, or an HTTP endpoint.

    syslog://HOST:514   UDP            syslog+tcp://HOST:601           syslog+tls://HOST:6514
    syslog+unix:///dev/log             https://HOST/PATH, http://HOST/PATH

To HTTP rows go as lines of JSON (application/x-ndjson), as they are in the files; the headers X-Leveret-Log and
X-Leveret-Node say which log of which node it is. Every status of 2xx is a yes.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.observability.alerting.addresses import TLS_BY_SCHEME, WebhookEndpoint, endpoint_of
from leveret.observability.alerting.transports import DeliveryFailed, Transports, post_body
from leveret.observability.forwarding import AuditForwarder, ForwardSender, Line, NotTaken
from leveret.security.peers import is_loopback
from leveret.server.syslog import PORTS, TLS, UNIX, SyslogAddress, SyslogSender

CONTENT = "application/x-ndjson"
FOR_GOOD = frozenset((400, 413, 422))
"""Statuses with which the same rows would be refused again; after others an operator may change a setting."""


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
