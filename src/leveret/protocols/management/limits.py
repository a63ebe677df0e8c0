"""Limits of virtual hosts and of users: how many connections, channels and queues."""

from __future__ import annotations

from collections.abc import Awaitable

from leveret.protocols.http.router import Answer
from leveret.protocols.management import users
from leveret.protocols.management.call import ManagementCall, spelled
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed
from leveret.protocols.management.refusals import BadRequest
from leveret.protocols.management.rules import sees
from leveret.protocols.management.validation import invalid, pairs, term
from leveret.security.users import UNLIMITED, User

OF_VHOST = ("max-connections", "max-queues")
OF_USER = ("max-connections", "max-channels")


def _wrong(limits: Row, known: tuple[str, ...], where: str) -> str | None:
    """What is wrong with limits, in RabbitMQ's words."""
    unknown = {name: value for name, value in limits.items() if name not in known}
    if unknown:
        return f"Unrecognised terms {pairs(unknown)} in {where}"
    for name, value in limits.items():
        if not isinstance(value, int) or isinstance(value, bool):
            return f"{name} should be a number, actually was {term(value)}"
    return None


def check_vhost(limits: Row) -> None:
    """Refuse limits of a virtual host that do not exist or are no numbers."""
    wrong = _wrong(limits, OF_VHOST, "limits")
    if wrong is not None:
        raise invalid(wrong)


def _given(call: ManagementCall) -> Row:
    """The limit that the path names, with its value."""
    call.need("value")
    return {call.named("limit"): spelled(call.body["value"], int)}


# Virtual hosts


def list_vhosts(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of the virtual hosts that the user sees."""
    with call.context.async_broker.runtime as core:
        names = [name for name in sorted(core.topology.vhosts) if sees(call, name)]
    found = [_of_vhost(call, name) for name in names]
    return listed(call, [row for row in found if row["value"]])


def list_vhost(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one."""
    with call.context.async_broker.runtime as core:
        found = _of_vhost(call, call.virtual_host(core).name)
    return listed(call, [found] if found["value"] else [])


def _of_vhost(call: ManagementCall, name: str) -> Row:
    return {"vhost": name, "value": call.context.access.vhost_limits(name).values()}


def put_vhost(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Set a limit; -1 is none."""
    given = _given(call)
    check_vhost(given)
    return _change_vhost(call, given)


def delete_vhost(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Remove a limit."""
    removed = {call.named("limit"): UNLIMITED}
    check_vhost(removed)
    return _change_vhost(call, removed)


def _change_vhost(call: ManagementCall, limits: Row) -> Answer | Awaitable[Answer]:
    return call.changed("vhosts.limits", lambda core: {"name": call.virtual_host(core).name, "limits": limits})


# Users


def list_users(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of every user who has some."""
    found = [_of_user(user) for user in call.context.access.users]
    return listed(call, [row for row in found if row["value"]])


def list_user(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one."""
    found = _of_user(users.find(call))
    return listed(call, [found] if found["value"] else [])


def _of_user(user: User) -> Row:
    return {"user": user.name, "value": user.to_dict()["limits"]}


def put_user(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Set a limit; -1 is none."""
    return _change_user(call, _given(call))


def delete_user(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Remove a limit."""
    return _change_user(call, {call.named("limit"): UNLIMITED})


def _change_user(call: ManagementCall, limits: Row) -> Answer | Awaitable[Answer]:
    wrong = _wrong(limits, OF_USER, "user-limits")
    if wrong is not None:
        raise BadRequest(wrong)
    return call.changed("users.limits", lambda core: {"name": users.find(call).name, "limits": limits})
