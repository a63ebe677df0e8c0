"""Users, with their permissions and limits, and the limits of virtual hosts. Passwords are kept as hashes."""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections.abc import Awaitable
from hashlib import sha256
from typing import Any

from leveret.core.broker import Broker
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall, sees, spelled
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import BadRequest, Missing, answer, done, invalid, pairs, term
from leveret.security import passwords
from leveret.security.users import UNLIMITED, User

SALT_BYTES = 4
USERS_MAX = 1_000  # that one request deletes


def shown(user: User) -> Row:
    """A user, with what is needed to check the password elsewhere."""
    kept, stored = user.to_dict(), user.password_hash
    scheme = passwords.scheme_of(stored) if stored else passwords.SHA256
    hashed = {"hashing_algorithm": scheme, **passwords.exported(stored)}
    return {"name": user.name, **hashed, "tags": kept["tags"], "limits": kept["limits"]}


def find(call: ManagementCall) -> User:
    """The user that the path names."""
    users = call.context.access.users
    if call.named("user") not in users:
        raise Missing()
    return users.get(call.named("user"))


def list_all(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Every user."""
    return listed(call, [shown(user) for user in call.context.access.users])


def list_without_permissions(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those who may enter no virtual host."""
    access = call.context.access
    known = {row.user for row in access.permissions}
    return listed(call, [shown(user) for user in access.users if user.name not in known])


def look(call: ManagementCall) -> Answer:
    """One user."""
    return one(call, shown(find(call)))


def put(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Make or change a user: a password, its hash, or neither, which is no password."""
    name, body = call.named("user"), call.body
    if "tags" not in body:
        raise BadRequest("tags_not_present")
    if "password" in body and "password_hash" in body:
        raise BadRequest("both_password_and_password_hash_are_provided")
    if body.get("password"):
        return _put_hashed(call, name, call.field("password", str))
    return _put(call, name, passwords.stored_hash(body))


async def _put_hashed(call: ManagementCall, name: str, password: str) -> Answer:
    """Hash a password in another thread: it takes its time."""
    stored = await asyncio.to_thread(passwords.hash_new, password, call.context.access.password_chars_min)
    answered = _put(call, name, stored)
    return await answered if isinstance(answered, Awaitable) else answered


def _put(call: ManagementCall, name: str, stored: str) -> Answer | Awaitable[Answer]:
    tags: Any = call.body["tags"]

    def keep(core: Broker) -> Answer:
        known = name in call.context.access.users
        call.run("users.put", name=name, password_hash=stored, tags=tags)
        return done(204 if known else 201)

    return call.change(keep)


def delete(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Forget a user and its permissions."""
    return call.changed("users.delete", lambda core: {"name": find(call).name})


def delete_some(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Forget several users, all or none."""
    names = call.field("users", list)
    if len(names) > USERS_MAX:
        raise BadRequest(f"{len(names)} users are to be deleted, the limit is {USERS_MAX}: send fewer")

    def remove(core: Broker) -> Answer:
        unknown = [name for name in names if not isinstance(name, str) or name not in call.context.access.users]
        if unknown:
            raise BadRequest(f"no_such_user: {unknown[0]}")
        for name in names:
            call.run("users.delete", name=name)
        return done()

    return call.change(remove)


def who(call: ManagementCall) -> Answer:
    """Who asks."""
    return answer({"name": call.user, "tags": sorted(call.identity.tags)})


def hash_named(call: ManagementCall) -> Answer:
    """The hash of the password in the path, as RabbitMQ has it. Logs do not show this path; proxies may."""
    return _hashed(call.named("password"))


def hash_given(call: ManagementCall) -> Answer:
    """The hash of the password in the body, which is in no log on the way."""
    return _hashed(call.field("password", str))


def _hashed(password: str) -> Answer:
    """The hash that RabbitMQ would keep, for files of definitions."""
    secret, salt = passwords.encoded(password), secrets.token_bytes(SALT_BYTES)
    if len(secret) > passwords.PASSWORD_BYTES_MAX:
        raise BadRequest(f"the password has {len(secret)} bytes, the limit is {passwords.PASSWORD_BYTES_MAX}")
    return answer({"ok": b64encode(salt + sha256(salt + secret).digest()).decode()})


TOPICS = "topic-permissions"


def permission_rows(call: ManagementCall, kind: str = "permissions", **only: str) -> list[Row]:
    """Permissions, or those on keys: of all users or of one, everywhere or in one virtual host."""
    return sorted(call.run(f"{kind}.list", **only), key=lambda row: (row["vhost"], row["user"]))


def list_permissions(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Of all users."""
    return listed(call, permission_rows(call))


def list_user_permissions(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of a user."""
    return listed(call, permission_rows(call, user=find(call).name))


def list_vhost_permissions(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    with call.context.async_broker.runtime as core:
        vhost = call.virtual_host(core).name
    return listed(call, permission_rows(call, vhost=vhost))


def look_at_permission(call: ManagementCall) -> Answer:
    """Those of one user in one virtual host."""
    found = permission_rows(call, user=call.named("user"), vhost=call.named("vhost"))
    if not found:
        raise Missing()
    return one(call, found[0])


def put_permission(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """What a user may do in a virtual host."""
    patterns = _patterns(call, "configure", "write", "read")

    def keep(core: Broker) -> Answer:
        user, vhost = _owner(call, core)
        known = call.context.access.permissions.may_enter(user, vhost)
        call.run("permissions.set", user=user, vhost=vhost, **patterns)
        return done(204 if known else 201)

    return call.change(keep)


def delete_permission(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """A user may not enter a virtual host any more."""

    def found(core: Broker) -> Row:
        if not permission_rows(call, user=call.named("user"), vhost=call.named("vhost")):
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
    return listed(call, permission_rows(call, TOPICS))


def list_user_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of a user."""
    return listed(call, permission_rows(call, TOPICS, user=find(call).name))


def list_vhost_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those in a virtual host."""
    with call.context.async_broker.runtime as core:
        vhost = call.virtual_host(core).name
    return listed(call, permission_rows(call, TOPICS, vhost=vhost))


def look_at_topics(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one user in one virtual host, on one exchange or on all."""
    found = _topics(call)
    if not found:
        raise Missing()
    return listed(call, found)


def _topics(call: ManagementCall) -> list[Row]:
    exchange = call.request.parameters.get("exchange")
    found = permission_rows(call, TOPICS, user=call.named("user"), vhost=call.named("vhost"))
    return [row for row in found if exchange in (None, row["exchange"])]


def put_topic(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Which keys of an exchange a user may publish with and bind."""
    patterns = _patterns(call, "exchange", "write", "read")

    def keep(core: Broker) -> Answer:
        user, vhost = _owner(call, core)
        known = bool(permission_rows(call, TOPICS, user=user, vhost=vhost))
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


def list_limits_of_vhosts(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of the virtual hosts that the user sees."""
    with call.context.async_broker.runtime as core:
        names = [name for name in sorted(core.topology.vhosts) if sees(call, name)]
    found = [_of_vhost(call, name) for name in names]
    return listed(call, [row for row in found if row["value"]])


def list_limits_of_vhost(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one."""
    with call.context.async_broker.runtime as core:
        found = _of_vhost(call, call.virtual_host(core).name)
    return listed(call, [found] if found["value"] else [])


def _of_vhost(call: ManagementCall, name: str) -> Row:
    return {"vhost": name, "value": call.context.access.vhost_limits(name).values()}


def put_vhost_limit(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Set a limit; -1 is none."""
    given = _given(call)
    check_vhost(given)
    return _change_vhost(call, given)


def delete_vhost_limit(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Remove a limit."""
    removed = {call.named("limit"): UNLIMITED}
    check_vhost(removed)
    return _change_vhost(call, removed)


def _change_vhost(call: ManagementCall, limits: Row) -> Answer | Awaitable[Answer]:
    return call.changed("vhosts.limits", lambda core: {"name": call.virtual_host(core).name, "limits": limits})


# Users


def list_limits_of_users(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of every user who has some."""
    found = [_of_user(user) for user in call.context.access.users]
    return listed(call, [row for row in found if row["value"]])


def list_limits_of_user(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Those of one."""
    found = _of_user(find(call))
    return listed(call, [found] if found["value"] else [])


def _of_user(user: User) -> Row:
    return {"user": user.name, "value": user.to_dict()["limits"]}


def put_user_limit(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Set a limit; -1 is none."""
    return _change_user(call, _given(call))


def delete_user_limit(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Remove a limit."""
    return _change_user(call, {call.named("limit"): UNLIMITED})


def _change_user(call: ManagementCall, limits: Row) -> Answer | Awaitable[Answer]:
    wrong = _wrong(limits, OF_USER, "user-limits")
    if wrong is not None:
        raise BadRequest(wrong)
    return call.changed("users.limits", lambda core: {"name": find(call).name, "limits": limits})
