"""Permissions of users in virtual hosts, and on the keys of topic exchanges."""

from __future__ import annotations

from collections.abc import Awaitable

from leveret.core.broker import Broker
from leveret.protocols.http.router import Answer
from leveret.protocols.management import users
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import BadRequest, Missing, done


def rows(call: ManagementCall, user: str | None = None, vhost: str | None = None) -> list[Row]:
    """Permissions, of all users or of one, everywhere or in one virtual host."""
    found = call.context.access.permissions
    chosen = [row.shown() for row in found if user in (None, row.user) and vhost in (None, row.vhost)]
    return sorted(chosen, key=lambda row: (row["vhost"], row["user"]))


def topic_rows(call: ManagementCall, user: str | None = None, vhost: str | None = None) -> list[Row]:
    """The same for keys."""
    found = call.context.access.permissions.topics()
    chosen = [row.shown() for row in found if user in (None, row.user) and vhost in (None, row.vhost)]
    return sorted(chosen, key=lambda row: (row["vhost"], row["user"], row["exchange"]))


def list_all(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Of all users."""
    return listed(call, rows(call))


def list_user(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of a user."""
    return listed(call, rows(call, user=users.find(call).name))


def list_vhost(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    with call.context.async_broker.runtime as core:
        vhost = call.virtual_host(core).name
    return listed(call, rows(call, vhost=vhost))


def look(call: ManagementCall) -> Answer:
    """Those of one user in one virtual host."""
    found = rows(call, call.named("user"), call.named("vhost"))
    if not found:
        raise Missing()
    return one(call, found[0])


def put(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """What a user may do in a virtual host."""
    patterns = _patterns(call, "configure", "write", "read")

    def keep(core: Broker) -> Answer:
        user, vhost = _owner(call, core)
        known = call.context.access.permissions.may_enter(user, vhost)
        call.context.access.set_permission(user, vhost, *patterns)
        return done(204 if known else 201)

    return call.change(keep)


def delete(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """A user may not enter a virtual host any more."""

    def remove(core: Broker) -> Answer:
        if not rows(call, call.named("user"), call.named("vhost")):
            raise Missing()
        call.context.access.clear_permission(call.named("user"), call.named("vhost"))
        return done()

    return call.change(remove)


def _patterns(call: ManagementCall, *names: str) -> list[str]:
    """Fields that are all needed."""
    call.need(*names)
    return [call.field(name, str) for name in names]


def _owner(call: ManagementCall, core: Broker) -> tuple[str, str]:
    """User and virtual host, if there are such."""
    user, vhost = call.named("user"), call.named("vhost")
    if user not in call.context.access.users or vhost not in core.topology.vhosts:
        raise BadRequest("vhost_or_user_not_found")
    return user, vhost


# Keys


def list_all_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Of all users, on keys."""
    return listed(call, topic_rows(call))


def list_user_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of a user."""
    return listed(call, topic_rows(call, user=users.find(call).name))


def list_vhost_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    with call.context.async_broker.runtime as core:
        vhost = call.virtual_host(core).name
    return listed(call, topic_rows(call, vhost=vhost))


def look_at_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one user in one virtual host, on one exchange or on all."""
    found = _topics(call)
    if not found:
        raise Missing()
    return listed(call, found)


def _topics(call: ManagementCall) -> list[Row]:
    exchange = call.request.parameters.get("exchange")
    found = topic_rows(call, call.named("user"), call.named("vhost"))
    return [row for row in found if exchange in (None, row["exchange"])]


def put_topic(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Which keys of an exchange a user may publish with and bind."""
    exchange, write, read = _patterns(call, "exchange", "write", "read")

    def keep(core: Broker) -> Answer:
        user, vhost = _owner(call, core)
        known = bool(topic_rows(call, user, vhost))
        call.context.access.set_topic_permission(user, vhost, exchange, write, read)
        return done(204 if known else 201)

    return call.change(keep)


def delete_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """A user may use every key again, of one exchange or of all."""

    def remove(core: Broker) -> Answer:
        if not _topics(call):
            raise Missing()
        exchange = call.request.parameters.get("exchange")
        call.context.access.clear_topic_permission(call.named("user"), call.named("vhost"), exchange)
        return done()

    return call.change(remove)
