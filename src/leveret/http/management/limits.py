"""Limits of virtual hosts and of users: how many connections, channels and queues."""

from __future__ import annotations

from collections.abc import Awaitable

from leveret.core.broker import Broker
from leveret.http.management import users
from leveret.http.management.call import Call
from leveret.http.management.listing import listed
from leveret.http.management.refusals import BadRequest, done
from leveret.http.management.rules import sees
from leveret.http.management.site import Row
from leveret.http.router import Answer
from leveret.security.users import UNLIMITED, User

OF_VHOST = ("max-connections", "max-queues")
OF_USER = ("max-connections", "max-channels")


def _name(call: Call, known: tuple[str, ...]) -> str:
    """The limit that the path names."""
    if call.named("limit") not in known:
        raise BadRequest(f"the limit '{call.named('limit')}' is not known: use {' or '.join(known)}")
    return call.named("limit")


# Virtual hosts


def list_vhosts(call: Call) -> Answer | Awaitable[Answer]:
    """Those of the virtual hosts that the user sees."""
    with call.site.desk.guard as core:
        names = [name for name in sorted(core.topology.vhosts) if sees(call, name)]
    found = [_of_vhost(call, name) for name in names]
    return listed(call, [row for row in found if row["value"]])


def list_vhost(call: Call) -> Answer | Awaitable[Answer]:
    """Those of one."""
    with call.site.desk.guard as core:
        found = _of_vhost(call, call.home(core).name)
    return listed(call, [found] if found["value"] else [])


def _of_vhost(call: Call, name: str) -> Row:
    return {"vhost": name, "value": call.site.access.vhost_limits(name).values()}


def put_vhost(call: Call) -> Answer | Awaitable[Answer]:
    """Set a limit; -1 is none."""
    return _change_vhost(call, _name(call, OF_VHOST), call.field("value", int))


def delete_vhost(call: Call) -> Answer | Awaitable[Answer]:
    """Remove a limit."""
    return _change_vhost(call, _name(call, OF_VHOST), UNLIMITED)


def _change_vhost(call: Call, name: str, value: int) -> Answer | Awaitable[Answer]:
    def keep(core: Broker) -> Answer:
        call.site.access.set_vhost_limits(call.home(core).name, {name: value})
        return done()

    return call.change(keep)


# Users


def list_users(call: Call) -> Answer | Awaitable[Answer]:
    """Those of every user who has some."""
    found = [_of_user(user) for user in call.site.access.users]
    return listed(call, [row for row in found if row["value"]])


def list_user(call: Call) -> Answer | Awaitable[Answer]:
    """Those of one."""
    found = _of_user(users.find(call))
    return listed(call, [found] if found["value"] else [])


def _of_user(user: User) -> Row:
    return {"user": user.name, "value": user.to_dict()["limits"]}


def put_user(call: Call) -> Answer | Awaitable[Answer]:
    """Set a limit; -1 is none."""
    return _change_user(call, _name(call, OF_USER), call.field("value", int))


def delete_user(call: Call) -> Answer | Awaitable[Answer]:
    """Remove a limit."""
    return _change_user(call, _name(call, OF_USER), UNLIMITED)


def _change_user(call: Call, name: str, value: int) -> Answer | Awaitable[Answer]:
    def keep(core: Broker) -> Answer:
        call.site.access.set_user_limits(users.find(call).name, {name: value})
        return done()

    return call.change(keep)
