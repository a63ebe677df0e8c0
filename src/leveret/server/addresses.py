"""The addresses that the server listens on: taken before anything slow is done, because they are most often wrong."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from leveret.config import ServerOptions
from leveret.core import errors
from leveret.core.errors import InvalidArgument
from leveret.protocols.http.origins import Hosts
from leveret.protocols.net.addresses import announced_host, host_names, with_port
from leveret.protocols.net.listener import bind
from leveret.protocols.net.proxy_protocol import Proxies
from leveret.security.der import BadCertificate
from leveret.security.peers import is_loopback
from leveret.storage.journal.commit import EXIT_FAILED, EXIT_FENCED


class CannotListen(errors.LeveretError):
    """An address cannot be listened on."""


# Numbers as in sysexits.h, where there is one that fits.
EXIT_CODES: dict[type[errors.LeveretError], int] = {
    errors.LeveretError: 1,
    errors.InvalidArgument: 2,
    BadCertificate: 78,
    CannotListen: 69,
    errors.JournalError: 74,
    errors.JournalFailed: EXIT_FAILED,
    errors.Fenced: EXIT_FENCED,
    errors.DataLocked: 75,
    errors.DamagedJournal: 65,
    errors.UnknownFormat: 65,
    errors.WrongKey: 78,
}


def exit_code(error: errors.LeveretError) -> int:
    """The code for an error: its own, or that of its nearest base."""
    return next(EXIT_CODES[base] for base in type(error).__mro__ if base in EXIT_CODES)


Sockets = dict[str, list[socket.socket]]

LISTENERS = ("amqp", "amqps", "http", "https", "sqs", "sqs+tls")
WITH_TLS = ("amqps", "https", "sqs+tls")


@contextmanager
def bound_sockets(options: ServerOptions) -> Iterator[Sockets]:
    """A socket for each address, by protocol."""
    ports = {
        "amqp": options.amqp_port,
        "amqps": options.amqps_port if options.tls_cert else None,
        "http": options.http_port,
        "https": options.https_port if options.tls_cert else None,
        "sqs": options.sqs_port,
        "sqs+tls": options.sqs_tls_port if options.tls_cert else None,
    }
    hosts = listened_on(options)
    sockets: Sockets = {}
    try:
        for name, port in ports.items():
            if port is not None:
                sockets[name] = []
                for host in hosts:
                    sockets[name].append(_bound(host, port))
                    port = sockets[name][0].getsockname()[1]  # any free one is the same one everywhere
        yield sockets
    finally:
        for each in sockets.values():
            for bound in each:
                bound.close()


def proxies_of(options: ServerOptions) -> dict[str, Proxies]:
    """The load balancers whose headers tell addresses, by the listeners that they connect to."""
    if options.proxy_protocol is None:
        return {}
    names = [name.strip() for name in options.proxy_protocol.split(",")]
    if not set(names) <= set(LISTENERS):
        raise InvalidArgument(
            f"proxy_protocol is a list by commas of {', '.join(LISTENERS)}, not {options.proxy_protocol!r}"
        )
    timeout_s = options.handshake_timeout_s
    return {name: Proxies.parse(name, options.proxy_protocol_from, timeout_s) for name in names}


def _bound(host: str, port: int) -> socket.socket:
    try:
        return bind(host, port)
    except OSError as error:
        advice = "stop what uses it, or choose another port" if port else "choose another host"
        raise CannotListen(f"cannot listen on {host}:{port} ({error.strerror}): {advice}") from None


def address(bound: socket.socket) -> str:
    """The address of a socket as people write it."""
    return with_port(*bound.getsockname()[:2])


def announced(sockets: Sockets, host: str) -> dict[str, str]:
    """Where clients of other machines come to, by protocol."""
    return {name: with_port(host, bound[0].getsockname()[1]) for name, bound in sockets.items()}


def listened_on(options: ServerOptions) -> list[str]:
    """The addresses of the option `host`."""
    return [host.strip() for host in options.host.split(",")]


def hosts_of(options: ServerOptions) -> Hosts:
    """The names that clients without TLS may call the server by."""
    listening = listened_on(options)
    names = [announced_host(host) for host in listening] + host_names(options.http_hosts)
    if options.announce is not None:
        names.append(options.announce)
    return Hosts(names, options.http_origins, undotted=not all(is_loopback(host) for host in listening))
