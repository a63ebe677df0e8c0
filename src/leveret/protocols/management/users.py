"""Users, with their permissions and limits, and the limits of virtual hosts. Passwords are kept as hashes."""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from hashlib import sha256

from leveret.core.broker import Broker
from leveret.protocols.http.cluster import awaited
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.call import ManagementCall, change, spelled
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, row, rows
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


@rows
def list_without_permissions(call: ManagementCall, core: Broker) -> list[Row]:
    """Those who may enter no virtual host."""
    access = call.context.access
    known = {row.user for row in access.permissions}
    return [shown(user) for user in access.users if user.name not in known]


list_all = rows(lambda call, core: [shown(user) for user in call.context.access.users])
look = row(lambda call, core: shown(find(call)))
delete = change("users.delete", lambda call, core: {"name": find(call).name})


def put(call: ManagementCall) -> Answered:
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
    return await awaited(_put(call, name, stored))


def _put(call: ManagementCall, name: str, stored: str) -> Answered:
    arguments = {"name": name, "password_hash": stored, "tags": call.body["tags"]}
    return call.put("users.put", lambda core: name in call.context.access.users, arguments)


def delete_some(call: ManagementCall) -> Answered:
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


def hash_password(call: ManagementCall) -> Answer:
    """The hash of a password, as RabbitMQ has it in files of definitions.

    The password is in the body, or in the path: logs do not show this path, but proxies may.
    """
    password = call.request.parameters.get("password")
    if password is None:
        password = call.field("password", str)
    secret, salt = passwords.encoded(password), secrets.token_bytes(SALT_BYTES)
    if len(secret) > passwords.PASSWORD_BYTES_MAX:
        raise BadRequest(f"the password has {len(secret)} bytes, the limit is {passwords.PASSWORD_BYTES_MAX}")
    return answer({"ok": b64encode(salt + sha256(salt + secret).digest()).decode()})


PERMISSIONS, TOPICS = "permissions", "topic-permissions"
PATTERNS = {PERMISSIONS: ("configure", "write", "read"), TOPICS: ("exchange", "write", "read")}
"""The fields of both kinds: what a user may do in a virtual host, and which keys of a topic exchange it may use."""


def list_permissions(call: ManagementCall, kind: str = PERMISSIONS) -> Answered:
    """Of all users, or of the user or the virtual host that the path names."""
    only = {}
    if "user" in call.request.parameters:
        only["user"] = find(call).name
    if "vhost" in call.request.parameters:
        with call.runtime as core:
            only["vhost"] = call.virtual_host(core).name
    return listed(call, _rows(call, kind, **only))


def _rows(call: ManagementCall, kind: str, **only: str) -> list[Row]:
    return sorted(call.run(f"{kind}.list", **only), key=lambda row: (row["vhost"], row["user"]))


def _named(call: ManagementCall, kind: str) -> list[Row]:
    """Those of one user in one virtual host; of keys, on the exchange that the path names, or on all."""
    exchange = call.request.parameters.get("exchange")
    rows = _rows(call, kind, user=call.named("user"), vhost=call.named("vhost"))
    found = [row for row in rows if exchange in (None, row.get("exchange"))]
    if not found:
        raise Missing()
    return found


look_at_permission = row(lambda call, core: _named(call, PERMISSIONS)[0])
look_at_topics = rows(lambda call, core: _named(call, TOPICS))


def put_permission(call: ManagementCall, kind: str = PERMISSIONS) -> Answered:
    """Let a user do something in a virtual host."""
    call.need(*PATTERNS[kind])
    given = {name: call.field(name, str) for name in PATTERNS[kind]}
    place = {"user": call.named("user"), "vhost": call.named("vhost")}

    def is_known(core: Broker) -> bool:
        if place["user"] not in call.context.access.users or place["vhost"] not in core.topology.vhosts:
            raise BadRequest("vhost_or_user_not_found")
        return bool(_rows(call, kind, **place))

    return call.put(f"{kind}.set", is_known, {**place, **given})


def _place(call: ManagementCall, core: Broker, kind: str) -> Row:
    """What the path names, if there is a permission."""
    _named(call, kind)
    return dict(call.request.parameters)


list_topics, put_topic = (partial(each, kind=TOPICS) for each in (list_permissions, put_permission))
delete_permission, delete_topics = (
    change(f"{kind}.clear", partial(_place, kind=kind)) for kind in (PERMISSIONS, TOPICS)
)


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


def _check_user(limits: Row) -> None:
    wrong = _wrong(limits, OF_USER, "user-limits")
    if wrong is not None:
        raise BadRequest(wrong)


def _limit(call: ManagementCall, check: Callable[[Row], None]) -> Row:
    """The limit that the path names, with its new value, -1 for none; DELETE removes it."""
    value: object = UNLIMITED
    if call.request.method != "DELETE":
        call.need("value")
        value = spelled(call.body["value"], int)
    check({call.named("limit"): value})
    return {call.named("limit"): value}


@rows
def list_vhost_limits(call: ManagementCall, core: Broker) -> list[Row]:
    """Those of the virtual host that the path names, or of all that the user sees."""
    names = [virtual_host.name for virtual_host in call.virtual_hosts(core)]
    found = [{"vhost": name, "value": call.context.access.vhost_limits(name).values()} for name in names]
    return [row for row in found if row["value"]]


@rows
def list_user_limits(call: ManagementCall, core: Broker) -> list[Row]:
    """Those of the user that the path names, or of all."""
    users = [find(call)] if "user" in call.request.parameters else call.context.access.users
    found = [{"user": user.name, "value": user.to_dict()["limits"]} for user in users]
    return [row for row in found if row["value"]]


# The limits first: what is wrong with them is told before what is missing.
change_vhost_limit = change(
    "vhosts.limits", lambda call, core: {"limits": _limit(call, check_vhost), "name": call.virtual_host(core).name}
)
change_user_limit = change(
    "users.limits", lambda call, core: {"limits": _limit(call, _check_user), "name": find(call).name}
)
