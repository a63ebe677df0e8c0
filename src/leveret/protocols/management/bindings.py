"""Bindings: between an exchange and a queue or another exchange, known by a key made of routing key and arguments.

properties_key      %23             the routing key # without arguments
                    ~               an empty routing key without arguments
                    new~Xq3vLw      the routing key new, and a digest of the arguments
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote

from leveret.core.broker import Broker
from leveret.core.exchanges import Binding, Exchange
from leveret.core.jsonable import canonical, plain
from leveret.core.topology import Vhost
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.call import ManagementCall, needed, sees
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, row, rows
from leveret.protocols.management.refusals import Missing, done
from leveret.security.authorisation import Role

DIGEST_BYTES = 4
KINDS = {"q": "queue", "e": "exchange"}


def shown(virtual_host: Vhost, binding: Binding) -> Row:
    """A binding."""
    return {
        "source": binding.source,
        "vhost": virtual_host.name,
        "destination": binding.destination.name,
        "destination_type": binding.destination_type,
        "routing_key": plain(binding.key),
        "arguments": plain(binding.arguments),
        "properties_key": properties_key(binding.key, binding.arguments),
    }


def implied(virtual_host: Vhost, queue: Any) -> Row:
    """The binding of every queue to the default exchange."""
    return shown(virtual_host, Binding("", queue, queue.name, {}, 0))


def properties_key(key: str, arguments: Any) -> str:
    """What a binding between two ends is known by."""
    quoted = quote(key.encode("utf-8", "surrogateescape"), safe="").replace("~", "%7E")
    if not arguments:
        return quoted or "~"
    digest = sha256(canonical(arguments).encode()).digest()[:DIGEST_BYTES]
    return f"{quoted}~{urlsafe_b64encode(digest).decode().rstrip('=')}"


def bindings_to(virtual_host: Vhost, destination: Any) -> list[Row]:
    """Those that lead to a queue or exchange."""
    first = [] if isinstance(destination, Exchange) else [implied(virtual_host, destination)]
    return first + [shown(virtual_host, binding) for binding in virtual_host.bindings_of(destination)]


# Looking


def list_all(call: ManagementCall) -> Answered:
    """The bindings of the virtual host that the path names, or of all that the user sees."""
    with call.runtime as core:
        if "vhost" in call.request.parameters:
            virtual_hosts = [call.virtual_host(core)]
        else:
            virtual_hosts = [each for each in core.topology.vhosts.values() if sees(call, each.name)]
        # The queue stands for the binding by its name.
        handles: list[tuple[Vhost, Any]] = []
        for virtual_host in virtual_hosts:
            handles += ((virtual_host, queue) for queue in virtual_host.queues.values())
            handles += ((virtual_host, binding) for binding in virtual_host.bindings())

    def make(handle: tuple[Vhost, Any]) -> Row:
        virtual_host, found = handle
        return shown(virtual_host, found) if isinstance(found, Binding) else implied(virtual_host, found)

    return listed(call, handles, make, lambda handle: str(getattr(handle[1], "source", "")))


@rows
def list_from(call: ManagementCall, core: Broker) -> list[Row]:
    """Those that come from an exchange."""
    virtual_host = call.virtual_host(core)
    exchange = find_exchange(virtual_host, call.named_exchange())
    if not exchange.name:
        return [implied(virtual_host, queue) for queue in virtual_host.queues.values()]
    return [shown(virtual_host, binding) for binding in exchange.bindings.values()]


@rows
def list_to(call: ManagementCall, core: Broker) -> list[Row]:
    """Those that lead to an exchange."""
    virtual_host = call.virtual_host(core)
    return bindings_to(virtual_host, find_exchange(virtual_host, call.named_exchange()))


def find_exchange(virtual_host: Vhost, name: str) -> Exchange:
    """An exchange that is there."""
    return needed(virtual_host.exchanges.get(name))


def ends(call: ManagementCall, virtual_host: Vhost) -> tuple[Exchange, Any]:
    """Both ends that a path names."""
    source = find_exchange(virtual_host, call.named_exchange("source"))
    if KINDS.get(call.named("kind")) == "exchange":
        return source, find_exchange(virtual_host, call.named_exchange("destination"))
    target = virtual_host.queues.get(call.named("destination")) if call.named("kind") in KINDS else None
    return source, needed(target)


def between(call: ManagementCall, virtual_host: Vhost) -> list[Row]:
    """The bindings between the ends that a path names."""
    source, target = ends(call, virtual_host)
    return [each for each in bindings_to(virtual_host, target) if each["source"] == source.name]


def find(call: ManagementCall, virtual_host: Vhost) -> Row:
    """The binding that a path names; clients quote its key once more, or do not."""
    given, rows = call.named("properties"), between(call, virtual_host)
    for same in (lambda key: key == given, lambda key: unquote(key) == unquote(given)):
        for each in rows:
            if same(each["properties_key"]):
                return each
    raise Missing()


list_between = rows(lambda call, core: between(call, call.virtual_host(core)))
look = row(lambda call, core: find(call, call.virtual_host(core)))


# Changing


def bind(call: ManagementCall) -> Answered:
    """Bind a queue or exchange to an exchange."""
    key, arguments = call.field("routing_key", str, ""), call.arguments()

    def make(core: Broker) -> Answer:
        virtual_host = call.virtual_host(core)
        source, target = ends(call, virtual_host)
        authorized(call, source, target, "bind", key)
        core.bind(virtual_host.name, source.name, target.name, key, arguments, KINDS[call.named("kind")])
        location = f"{quote(call.named('destination'), safe='')}/{quote(properties_key(key, arguments), safe='')}"
        return done(201, (("Location", location),))

    return call.change(make)


def unbind(call: ManagementCall) -> Answered:
    """Remove a binding."""

    def remove(core: Broker) -> Answer:
        virtual_host = call.virtual_host(core)
        found = find(call, virtual_host)
        source, target = ends(call, virtual_host)
        chosen = next((each for each in virtual_host.bindings_of(target) if shown(virtual_host, each) == found), None)
        # The key itself, not the one that is shown: bytes that are not UTF-8 look different there.
        authorized(call, source, target, "unbind", "" if chosen is None else chosen.key)
        if chosen is not None:
            core.unbind(
                virtual_host.name, source.name, target.name, chosen.key, chosen.arguments, found["destination_type"]
            )
        return done()

    return call.change(remove)


def authorized(call: ManagementCall, source: Exchange, target: Any, verb: str, key: str) -> None:
    """Refuse who may not; also the default exchange, to which everything is bound already."""
    kind = KINDS[call.named("kind")]
    names: dict[Role, str] = {"queue": target.name, "exchange": source.name}
    if kind == "exchange":
        names = {"destination": target.name, "source": source.name}
    call.authorize(f"{kind}.{verb}", names, key if source.type == "topic" else None)
