"""Connections, channels and consumers: who is there, and how to close a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import Call
from leveret.protocols.management.context import Entry, Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import BadRequest, Missing, done
from leveret.protocols.management.rules import check_own, has, sees

REASON = "Closed via management plugin"
REASON_CHARS_MAX = 200


def connections(call: Call) -> list[Entry]:
    """Every connection that the user may see: all for monitors, one's own for others."""
    with call.site.desk.guard:
        return _own(call, call.site.clients.connections())


def channels(call: Call) -> list[Entry]:
    """The same for channels."""
    with call.site.desk.guard:
        return _own(call, call.site.clients.channels())


def consumers(call: Call) -> list[Entry]:
    """Every consumer in the virtual hosts that the user sees."""
    with call.site.desk.guard:
        return [each for each in call.site.clients.consumers() if sees(call, each.vhost)]


def _own(call: Call, entries: Sequence[Entry]) -> list[Entry]:
    return [each for each in entries if each.user == call.user or has(call, "monitoring")]


def _listed(call: Call, entries: list[Entry]) -> Answer | Awaitable[Answer]:
    """A list, each row made when it is wanted."""

    def make(entry: Entry) -> Row:
        with call.site.desk.guard:
            return entry.row()

    return listed(call, entries, make, lambda entry: entry.name)


def _in_vhost(call: Call, entries: list[Entry]) -> list[Entry]:
    """Those of the virtual host that the path names."""
    with call.site.desk.guard as core:
        call.home(core)
    return [each for each in entries if each.vhost == call.named("vhost")]


def list_connections(call: Call) -> Answer | Awaitable[Answer]:
    """Connections that the user may see."""
    return _listed(call, connections(call))


def list_vhost_connections(call: Call) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    return _listed(call, _in_vhost(call, connections(call)))


def list_user_connections(call: Call) -> Answer | Awaitable[Answer]:
    """Those of a user."""
    return _listed(call, [each for each in connections(call) if each.user == call.named("user")])


def list_channels(call: Call) -> Answer | Awaitable[Answer]:
    """Channels that the user may see."""
    return _listed(call, channels(call))


def list_vhost_channels(call: Call) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    return _listed(call, _in_vhost(call, channels(call)))


def list_connection_channels(call: Call) -> Answer | Awaitable[Answer]:
    """Those of a connection."""
    owner = _found(call, call.site.clients.connections, "connection")
    return _listed(call, [each for each in channels(call) if each.owner == owner.name])


def look_at_connection(call: Call) -> Answer:
    """One connection."""
    found = _found(call, call.site.clients.connections, "connection")
    with call.site.desk.guard:
        return one(call, found.row())


def look_at_channel(call: Call) -> Answer:
    """One channel, with its consumers."""
    found = _found(call, call.site.clients.channels, "channel")
    with call.site.desk.guard:
        details = [each.row() for each in call.site.clients.consumers() if each.owner == found.name]
        return one(call, {**found.row(), "consumer_details": details, "deliveries": [], "publishes": []})


def _found(call: Call, entries: Callable[[], Sequence[Entry]], place: str) -> Entry:
    """What the path names, if the user may see it."""
    with call.site.desk.guard:
        found = next((each for each in entries() if each.name == call.named(place)), None)
    if found is None:
        raise Missing()
    check_own(call, found.user)
    return found


def list_consumers(call: Call) -> Answer | Awaitable[Answer]:
    """Consumers that the user may see."""
    return _listed(call, consumers(call))


def list_vhost_consumers(call: Call) -> Answer | Awaitable[Answer]:
    """Those in a virtual host; nothing where the user sees nothing."""
    return _listed(call, [each for each in consumers(call) if each.vhost == call.named("vhost")])


# Closing


def close(call: Call) -> Answer:
    """Ask a client to go; the header X-Reason says why."""
    return _closed(call, [_found(call, call.site.clients.connections, "connection").name])


def close_user(call: Call) -> Answer:
    """Ask all clients of a user to go."""
    return _closed(call, [each.name for each in connections(call) if each.user == call.named("user")])


def _closed(call: Call, names: list[str]) -> Answer:
    reason = call.request.header(b"x-reason") or REASON
    if len(reason) > REASON_CHARS_MAX:
        raise BadRequest(f"X-Reason has {len(reason)} characters, the limit is {REASON_CHARS_MAX}: shorten it")
    with call.site.desk.guard:
        for name in names:
            call.site.clients.close(name, reason)
    return done()
