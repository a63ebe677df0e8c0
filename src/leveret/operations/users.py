"""Users, their limits, and what they may do in virtual hosts. Passwords come hashed: they are never seen here."""

from collections.abc import Mapping
from typing import Annotated, Any

from leveret.operations.context import OperationContext
from leveret.operations.operation import (
    ADMINISTERED,
    MANAGED,
    VHOST,
    Force,
    Name,
    OnlyUser,
    OnlyVhost,
    User,
    Vhost,
    changes,
    looks,
)
from leveret.security.passwords import NO_PASSWORD, scheme_of
from leveret.security.users import User as KnownUser

Tags = Annotated[list[str] | None, "administrator, monitoring, management, policymaker, impersonator; by commas"]
Write = Annotated[str, "pattern of what may be published to"]
Read = Annotated[str, "pattern of what may be consumed and bound"]


def shown(user: KnownUser) -> dict[str, Any]:
    """A user without anything secret."""
    kept = user.to_dict()
    password = scheme_of(user.password_hash)
    return {"name": user.name, "tags": kept["tags"], "password": password, "limits": kept["limits"]}


def list_users(context: OperationContext) -> list[dict[str, Any]]:
    """List users."""
    return [shown(user) for user in context.access.users]


def add(context: OperationContext, name: Name, password_hash: str = NO_PASSWORD, tags: Tags = None) -> dict[str, Any]:
    """Add a user, who may do nothing before permissions are set."""
    return shown(context.access.add_user(name, password_hash, tags or ()))


def put(context: OperationContext, name: Name, password_hash: str, tags: str | list[str]) -> dict[str, Any]:
    """Add a user, or give one another password and other tags."""
    users = context.access.users
    limits = users.get(name).to_dict()["limits"] if name in users else {}
    user = KnownUser.from_dict({"name": name, "password_hash": password_hash, "tags": tags, "limits": limits})
    return shown(context.access.import_user(user))


def delete(context: OperationContext, name: Name, force: Force = False) -> None:
    """Delete a user, with all permissions."""
    context.access.delete_user(name, force=force)


def password(context: OperationContext, name: Name, password_hash: str) -> dict[str, Any]:
    """Change a password."""
    return shown(context.access.change_password(name, password_hash))


def tags(
    context: OperationContext, name: Name, tags: Annotated[list[str], "a tag"], force: Force = False
) -> dict[str, Any]:
    """Give a user other tags, or none."""
    return shown(context.access.set_tags(name, tags, force=force))


def limits(context: OperationContext, name: Name, limits: Mapping[str, int]) -> dict[str, Any]:
    """Change the limits of a user."""
    return shown(context.access.set_user_limits(name, limits))


def list_permissions(context: OperationContext, user: OnlyUser = None, vhost: OnlyVhost = None) -> list[dict[str, Any]]:
    """List permissions."""
    rows = (row for row in context.access.permissions if user in (None, row.user) and vhost in (None, row.vhost))
    return sorted((row.shown() for row in rows), key=lambda row: (row["user"], row["vhost"]))


def permit(
    context: OperationContext,
    user: User,
    configure: Annotated[str, "pattern of what may be declared"],
    write: Write,
    read: Read,
    vhost: Vhost = VHOST,
) -> dict[str, Any]:
    """Let a user into a virtual host, and say what is allowed there."""
    return context.access.set_permission(user, vhost, configure, write, read).to_dict()


def clear_permission(context: OperationContext, user: User, vhost: Vhost = VHOST) -> None:
    """Keep a user out of a virtual host."""
    context.access.clear_permission(user, vhost)


def list_topics(context: OperationContext, user: OnlyUser = None, vhost: OnlyVhost = None) -> list[dict[str, Any]]:
    """List permissions on routing keys."""
    topics = context.access.permissions.topics()
    rows = [row.shown() for row in topics if user in (None, row.user) and vhost in (None, row.vhost)]
    return sorted(rows, key=lambda row: (row["user"], row["vhost"], row["exchange"]))


def permit_topic(
    context: OperationContext,
    user: User,
    exchange: Annotated[str, "the topic exchange"],
    write: Write,
    read: Read,
    vhost: Vhost = VHOST,
) -> dict[str, Any]:
    """Say which routing keys of a topic exchange a user may use."""
    return context.access.set_topic_permission(user, vhost, exchange, write, read).to_dict()


def clear_topic(
    context: OperationContext,
    user: User,
    exchange: Annotated[str | None, "only of this exchange"] = None,
    vhost: Vhost = VHOST,
) -> None:
    """Let a user use every routing key again."""
    context.access.clear_topic_permission(user, vhost, exchange)


OPERATIONS = (
    *looks("node", MANAGED, ("users.who", "users.hash-password")),
    *looks("catalog", ADMINISTERED, {"users.list": list_users}),
    *changes(
        "catalog",
        ADMINISTERED,
        {
            "users.add": add,
            "users.put": put,
            "users.delete": delete,
            "users.password": password,
            "users.tags": tags,
            "users.limits": limits,
        },
    ),
    *looks("catalog", MANAGED, ("users.list-limits",)),
    *looks("catalog", ADMINISTERED, {"permissions.list": list_permissions, "topic-permissions.list": list_topics}),
    *changes(
        "catalog",
        ADMINISTERED,
        {
            "permissions.set": permit,
            "permissions.clear": clear_permission,
            "topic-permissions.set": permit_topic,
            "topic-permissions.clear": clear_topic,
        },
    ),
)
