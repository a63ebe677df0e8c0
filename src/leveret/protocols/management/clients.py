"""Connections, channels and consumers: who is there, and how to close a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall, check_own, has, sees
from leveret.protocols.management.context import ClientEntry, Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import BadRequest, Missing, done

REASON = "Closed via management plugin"
REASON_CHARS_MAX = 200


def connections(call: ManagementCall) -> list[ClientEntry]:
    """Every connection that the user may see: all for monitors, one's own for others."""
    with call.context.async_broker.runtime:
        return _own(call, call.context.clients.connections())


def channels(call: ManagementCall) -> list[ClientEntry]:
    """The same for channels."""
    with call.context.async_broker.runtime:
        return _own(call, call.context.clients.channels())


def consumers(call: ManagementCall) -> list[ClientEntry]:
    """Every consumer in the virtual hosts that the user sees."""
    with call.context.async_broker.runtime:
        return [each for each in call.context.clients.consumers() if sees(call, each.vhost)]


def _own(call: ManagementCall, entries: Sequence[ClientEntry]) -> list[ClientEntry]:
    return [each for each in entries if each.user == call.user or has(call, "monitoring")]


def _listed(call: ManagementCall, entries: list[ClientEntry]) -> Answer | Awaitable[Answer]:
    """A list, each row made when it is wanted."""

    def make(entry: ClientEntry) -> Row:
        with call.context.async_broker.runtime:
            return entry.row()

    return listed(call, entries, make, lambda entry: entry.name)


def _in_vhost(call: ManagementCall, entries: list[ClientEntry]) -> list[ClientEntry]:
    """Those of the virtual host that the path names."""
    with call.context.async_broker.runtime as core:
        call.virtual_host(core)
    return [each for each in entries if each.vhost == call.named("vhost")]


def list_connections(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Connections that the user may see."""
    return _listed(call, connections(call))


def list_vhost_connections(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    return _listed(call, _in_vhost(call, connections(call)))


def list_user_connections(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of a user."""
    return _listed(call, [each for each in connections(call) if each.user == call.named("user")])


def list_channels(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Channels that the user may see."""
    return _listed(call, channels(call))


def list_vhost_channels(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    return _listed(call, _in_vhost(call, channels(call)))


def list_connection_channels(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of a connection."""
    owner = _found(call, call.context.clients.connections, "connection")
    return _listed(call, [each for each in channels(call) if each.owner == owner.name])


def look_at_connection(call: ManagementCall) -> Answer:
    """One connection."""
    found = _found(call, call.context.clients.connections, "connection")
    with call.context.async_broker.runtime:
        return one(call, found.row())


def look_at_channel(call: ManagementCall) -> Answer:
    """One channel, with its consumers."""
    found = _found(call, call.context.clients.channels, "channel")
    with call.context.async_broker.runtime:
        details = [each.row() for each in call.context.clients.consumers() if each.owner == found.name]
        return one(call, {**found.row(), "consumer_details": details, "deliveries": [], "publishes": []})


def _found(call: ManagementCall, entries: Callable[[], Sequence[ClientEntry]], place: str) -> ClientEntry:
    """What the path names, if the user may see it."""
    with call.context.async_broker.runtime:
        found = next((each for each in entries() if each.name == call.named(place)), None)
    if found is None:
        raise Missing()
    check_own(call, found.user)
    return found


def list_consumers(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Consumers that the user may see."""
    return _listed(call, consumers(call))


def list_vhost_consumers(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those in a virtual host; nothing where the user sees nothing."""
    return _listed(call, [each for each in consumers(call) if each.vhost == call.named("vhost")])


# Closing


def close(call: ManagementCall) -> Answer:
    """Ask a client to go; the header X-Reason says why."""
    return _closed(call, [_found(call, call.context.clients.connections, "connection").name])


def close_user(call: ManagementCall) -> Answer:
    """Ask all clients of a user to go."""
    return _closed(call, [each.name for each in connections(call) if each.user == call.named("user")])


def _closed(call: ManagementCall, names: list[str]) -> Answer:
    reason = call.request.header(b"x-reason") or REASON
    if len(reason) > REASON_CHARS_MAX:
        raise BadRequest(f"X-Reason has {len(reason)} characters, the limit is {REASON_CHARS_MAX}: shorten it")
    with call.context.async_broker.runtime:
        for name in names:
            call.context.clients.close(name, reason)
    return done()
