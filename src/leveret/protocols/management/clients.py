"""Connections, channels and consumers: who is there, and how to close a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import OBJECT, ManagementCall, has, needed, sees
from leveret.protocols.management.context import ClientEntry, Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import BadRequest, NotAuthorised, done

REASON = "Closed via management plugin"
REASON_CHARS_MAX = 200


def connections(call: ManagementCall) -> list[ClientEntry]:
    """Every connection that the user may see: all for monitors, one's own for others."""
    with call.runtime:
        return _own(call, call.context.clients.connections())


def channels(call: ManagementCall) -> list[ClientEntry]:
    """The same for channels."""
    with call.runtime:
        return _own(call, call.context.clients.channels())


def _own(call: ManagementCall, entries: Sequence[ClientEntry]) -> list[ClientEntry]:
    return [each for each in entries if each.user == call.user or has(call, "monitoring")]


def _listed(call: ManagementCall, entries: list[ClientEntry]) -> Answer | Awaitable[Answer]:
    """Those in the virtual host and of the user that the path names, if it does; each row is made when it is wanted."""
    vhost, user = call.request.parameters.get("vhost"), call.request.parameters.get("user")
    named = [each for each in entries if vhost in (None, each.vhost) and user in (None, each.user)]

    def make(entry: ClientEntry) -> Row:
        with call.runtime:
            return entry.row()

    return listed(call, named, make, lambda entry: entry.name)


def list_connections(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Connections: all, those in a virtual host, or those of a user."""
    _check_vhost(call)
    return _listed(call, connections(call))


def list_channels(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Channels: all, or those in a virtual host."""
    _check_vhost(call)
    return _listed(call, channels(call))


def _check_vhost(call: ManagementCall) -> None:
    """Refuse a virtual host that is not there, if the path names one."""
    if "vhost" in call.request.parameters:
        with call.runtime as core:
            call.virtual_host(core)


def list_consumers(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Consumers in the virtual hosts that the user sees, or in one of them; nothing where the user sees nothing."""
    with call.runtime:
        entries = [each for each in call.context.clients.consumers() if sees(call, each.vhost)]
    return _listed(call, entries)


def list_connection_channels(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of a connection."""
    owner = _found(call, call.context.clients.connections, "connection")
    return _listed(call, [each for each in channels(call) if each.owner == owner.name])


def look_at_connection(call: ManagementCall) -> Answer:
    """One connection."""
    found = _found(call, call.context.clients.connections, "connection")
    with call.runtime:
        return one(call, found.row())


def look_at_channel(call: ManagementCall) -> Answer:
    """One channel, with its consumers."""
    found = _found(call, call.context.clients.channels, "channel")
    with call.runtime:
        details = [each.row() for each in call.context.clients.consumers() if each.owner == found.name]
        return one(call, {**found.row(), "consumer_details": details, "deliveries": [], "publishes": []})


def _found(call: ManagementCall, entries: Callable[[], Sequence[ClientEntry]], place: str) -> ClientEntry:
    """What the path names, if the user may see it."""
    with call.runtime:
        found = needed(next((each for each in entries() if each.name == call.named(place)), None))
    if found.user != call.user and not has(call, "monitoring"):
        raise NotAuthorised(OBJECT)
    return found


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
    with call.runtime:
        for name in names:
            call.context.clients.close(name, reason)
    return done()
