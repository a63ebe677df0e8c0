"""Users: names, tags, limits, and passwords as hashes."""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections.abc import Awaitable
from hashlib import sha256
from typing import Any

from leveret.core.broker import Broker
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import BadRequest, Missing, answer, done
from leveret.security import passwords
from leveret.security.users import User

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
