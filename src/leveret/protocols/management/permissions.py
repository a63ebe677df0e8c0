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

TOPICS = "topic-permissions"


def rows(call: ManagementCall, kind: str = "permissions", **only: str) -> list[Row]:
    """Permissions, or those on keys: of all users or of one, everywhere or in one virtual host."""
    return sorted(call.run(f"{kind}.list", **only), key=lambda row: (row["vhost"], row["user"]))


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
    found = rows(call, user=call.named("user"), vhost=call.named("vhost"))
    if not found:
        raise Missing()
    return one(call, found[0])


def put(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """What a user may do in a virtual host."""
    patterns = _patterns(call, "configure", "write", "read")

    def keep(core: Broker) -> Answer:
        user, vhost = _owner(call, core)
        known = call.context.access.permissions.may_enter(user, vhost)
        call.run("permissions.set", user=user, vhost=vhost, **patterns)
        return done(204 if known else 201)

    return call.change(keep)


def delete(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """A user may not enter a virtual host any more."""

    def found(core: Broker) -> Row:
        if not rows(call, user=call.named("user"), vhost=call.named("vhost")):
            raise Missing()
        return {"user": call.named("user"), "vhost": call.named("vhost")}

    return call.changed("permissions.clear", found)


def _patterns(call: ManagementCall, *names: str) -> dict[str, str]:
    """Fields that are all needed."""
    call.need(*names)
    return {name: call.field(name, str) for name in names}


def _owner(call: ManagementCall, core: Broker) -> tuple[str, str]:
    """User and virtual host, if there are such."""
    user, vhost = call.named("user"), call.named("vhost")
    if user not in call.context.access.users or vhost not in core.topology.vhosts:
        raise BadRequest("vhost_or_user_not_found")
    return user, vhost


# Keys


def list_all_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Of all users, on keys."""
    return listed(call, rows(call, TOPICS))


def list_user_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of a user."""
    return listed(call, rows(call, TOPICS, user=users.find(call).name))


def list_vhost_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    with call.context.async_broker.runtime as core:
        vhost = call.virtual_host(core).name
    return listed(call, rows(call, TOPICS, vhost=vhost))


def look_at_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one user in one virtual host, on one exchange or on all."""
    found = _topics(call)
    if not found:
        raise Missing()
    return listed(call, found)


def _topics(call: ManagementCall) -> list[Row]:
    exchange = call.request.parameters.get("exchange")
    found = rows(call, TOPICS, user=call.named("user"), vhost=call.named("vhost"))
    return [row for row in found if exchange in (None, row["exchange"])]


def put_topic(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Which keys of an exchange a user may publish with and bind."""
    patterns = _patterns(call, "exchange", "write", "read")

    def keep(core: Broker) -> Answer:
        user, vhost = _owner(call, core)
        known = bool(rows(call, TOPICS, user=user, vhost=vhost))
        call.run("topic-permissions.set", user=user, vhost=vhost, **patterns)
        return done(204 if known else 201)

    return call.change(keep)


def delete_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """A user may use every key again, of one exchange or of all."""

    def found(core: Broker) -> Row:
        if not _topics(call):
            raise Missing()
        return {name: call.request.parameters.get(name) for name in ("user", "vhost", "exchange")}

    return call.changed("topic-permissions.clear", found)
