"""Connections, channels and consumers: who is there, and how to close a connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from leveret.core.broker import Broker
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.call import OBJECT, ManagementCall, has, needed, sees
from leveret.protocols.management.context import ClientEntry, Row
from leveret.protocols.management.listing import listed, row
from leveret.protocols.management.refusals import BadRequest, NotAuthorised, done

REASON = "Closed via management plugin"
REASON_CHARS_MAX = 200


def _seen(call: ManagementCall, entries: Callable[[], Sequence[ClientEntry]]) -> list[ClientEntry]:
    """The connections or channels that the user may see: all for monitors, one's own for others."""
    with call.runtime:
        return [each for each in entries() if each.user == call.user or has(call, "monitoring")]


def _listed(call: ManagementCall, entries: list[ClientEntry]) -> Answered:
    """Those in the virtual host and of the user that the path names, if it does; each row is made when it is wanted."""
    vhost, user = call.request.parameters.get("vhost"), call.request.parameters.get("user")
    named = [each for each in entries if vhost in (None, each.vhost) and user in (None, each.user)]

    def make(entry: ClientEntry) -> Row:
        with call.runtime:
            return entry.row()

    return listed(call, named, make, lambda entry: entry.name)


def _list(call: ManagementCall, kind: Literal["connections", "channels"]) -> Answered:
    """Connections or channels: all, those in a virtual host, or those of a user."""
    with call.runtime as core:
        if "vhost" in call.request.parameters:
            call.virtual_host(core)  # refuses one that is not there
    return _listed(call, _seen(call, getattr(call.context.clients, kind)))


list_connections, list_channels = partial(_list, kind="connections"), partial(_list, kind="channels")


def list_consumers(call: ManagementCall) -> Answered:
    """Consumers in the virtual hosts that the user sees, or in one of them; nothing where the user sees nothing."""
    with call.runtime:
        entries = [each for each in call.context.clients.consumers() if sees(call, each.vhost)]
    return _listed(call, entries)


def list_connection_channels(call: ManagementCall) -> Answered:
    """Those of a connection."""
    with call.runtime:
        owner = _found(call, call.context.clients.connections, "connection")
    return _listed(call, [each for each in _seen(call, call.context.clients.channels) if each.owner == owner.name])


look_at_connection = row(lambda call, core: _found(call, call.context.clients.connections, "connection").row())


@row
def look_at_channel(call: ManagementCall, core: Broker) -> Row:
    """One channel, with its consumers."""
    found = _found(call, call.context.clients.channels, "channel")
    details = [each.row() for each in call.context.clients.consumers() if each.owner == found.name]
    return {**found.row(), "consumer_details": details, "deliveries": [], "publishes": []}


def _found(call: ManagementCall, entries: Callable[[], Sequence[ClientEntry]], place: str) -> ClientEntry:
    """What the path names, if the user may see it. Under the lock."""
    found = needed(next((each for each in entries() if each.name == call.named(place)), None))
    if found.user != call.user and not has(call, "monitoring"):
        raise NotAuthorised(OBJECT)
    return found


# Closing


def close(call: ManagementCall) -> Answer:
    """Ask a client to go; the header X-Reason says why."""
    with call.runtime:
        found = _found(call, call.context.clients.connections, "connection")
    return _closed(call, [found.name])


def close_user(call: ManagementCall) -> Answer:
    """Ask all clients of a user to go."""
    return _closed(
        call, [each.name for each in _seen(call, call.context.clients.connections) if each.user == call.named("user")]
    )


def _closed(call: ManagementCall, names: list[str]) -> Answer:
    reason = call.request.header(b"x-reason") or REASON
    if len(reason) > REASON_CHARS_MAX:
        raise BadRequest(f"X-Reason has {len(reason)} characters, the limit is {REASON_CHARS_MAX}: shorten it")
    with call.runtime:
        for name in names:
            call.context.clients.close(name, reason)
    return done()
