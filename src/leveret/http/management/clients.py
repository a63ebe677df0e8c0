"""Connections, channels and consumers: who is there, and how to send somebody away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from leveret.http.management.call import Call
from leveret.http.management.listing import listed, one
from leveret.http.management.refusals import BadRequest, Missing, done
from leveret.http.management.rules import ADMINISTRATORS, MONITORS, check_own, has, sees
from leveret.http.management.site import Row
from leveret.http.router import Answer

REASON = "Closed via management plugin"
REASON_CHARS_MAX = 200


def connections(call: Call) -> list[Row]:
    """Every connection."""
    with call.site.desk.guard:
        return call.site.clients.connections()


def channels(call: Call) -> list[Row]:
    """Every channel."""
    with call.site.desk.guard:
        return call.site.clients.channels()


def _own(call: Call, rows: list[Row]) -> list[Row]:
    """All for monitors, one's own for others."""
    return rows if has(call, MONITORS) else [row for row in rows if row["user"] == call.user]


def _in_vhost(call: Call, rows: list[Row]) -> list[Row]:
    """Those of the virtual host that the path names."""
    with call.site.desk.guard as core:
        call.home(core)
    return [row for row in rows if row["vhost"] == call.named("vhost")]


def list_connections(call: Call) -> Answer | Awaitable[Answer]:
    """Connections that the user may see."""
    return listed(call, _own(call, connections(call)))


def list_vhost_connections(call: Call) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    return listed(call, _in_vhost(call, _own(call, connections(call))))


def list_user_connections(call: Call) -> Answer | Awaitable[Answer]:
    """Those of a user."""
    return listed(call, [row for row in connections(call) if row["user"] == call.named("user")])


def list_channels(call: Call) -> Answer | Awaitable[Answer]:
    """Channels that the user may see."""
    return listed(call, _own(call, channels(call)))


def list_vhost_channels(call: Call) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    return listed(call, _in_vhost(call, _own(call, channels(call))))


def list_connection_channels(call: Call) -> Answer | Awaitable[Answer]:
    """Those of a connection."""
    owner = _found(call, connections, "connection")
    return listed(call, [row for row in channels(call) if row["connection_details"]["name"] == owner["name"]])


def look_at_connection(call: Call) -> Answer:
    """One connection."""
    return one(call, _found(call, connections, "connection"))


def look_at_channel(call: Call) -> Answer:
    """One channel, with its consumers."""
    found = _found(call, channels, "channel")
    with call.site.desk.guard:
        consumers = call.site.clients.consumers()
    details = [each for each in consumers if each["channel_details"]["name"] == found["name"]]
    return one(call, {**found, "consumer_details": details, "deliveries": [], "publishes": []})


def _found(call: Call, rows: Callable[[Call], list[Row]], place: str) -> Row:
    """What the path names, if the user may see it."""
    found = next((row for row in rows(call) if row["name"] == call.named(place)), None)
    if found is None:
        raise Missing()
    check_own(call, found["user"])
    return found


def list_consumers(call: Call) -> Answer | Awaitable[Answer]:
    """Consumers in the virtual hosts that the user sees."""
    return listed(call, [row for row in _consumers(call) if sees(call, row["queue"]["vhost"])], name=_tag)


def list_vhost_consumers(call: Call) -> Answer | Awaitable[Answer]:
    """Those in one; nothing where the user sees nothing."""
    vhost = call.named("vhost")
    rows = [row for row in _consumers(call) if row["queue"]["vhost"] == vhost and sees(call, vhost)]
    return listed(call, rows, name=_tag)


def _consumers(call: Call) -> list[Row]:
    with call.site.desk.guard:
        return call.site.clients.consumers()


def _tag(row: Row) -> str:
    return str(row["consumer_tag"])


# Closing


def close(call: Call) -> Answer:
    """Ask a client to go; the header X-Reason says why."""
    name = call.named("connection")
    found = next((row for row in connections(call) if row["name"] == name), None)
    if found is None:
        raise Missing()
    if not has(call, ADMINISTRATORS):
        check_own(call, found["user"])
    return _closed(call, [name])


def close_user(call: Call) -> Answer:
    """Ask all clients of a user to go."""
    names = [row["name"] for row in connections(call) if row["user"] == call.named("user")]
    return _closed(call, names)


def _closed(call: Call, names: list[str]) -> Answer:
    reason = call.request.header(b"x-reason") or REASON
    if len(reason) > REASON_CHARS_MAX:
        raise BadRequest(f"X-Reason has {len(reason)} characters, the limit is {REASON_CHARS_MAX}: shorten it")
    with call.site.desk.guard:
        for name in names:
            call.site.clients.close(name, reason)
    return done()
