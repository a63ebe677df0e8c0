"""Verbs on users. Passwords come hashed: they are never seen here."""

from collections.abc import Mapping
from typing import Any

from leveret.security.passwords import NO_PASSWORD, scheme_of
from leveret.security.users import User
from leveret.server.administration.context import Verb, VerbContext


def shown(user: User) -> dict[str, Any]:
    """A user without anything secret."""
    kept = user.to_dict()
    return {
        "name": user.name,
        "tags": kept["tags"],
        "password": scheme_of(user.password_hash),
        "limits": kept["limits"],
    }


def list_all(context: VerbContext) -> list[dict[str, Any]]:
    """Every user."""
    return [shown(user) for user in context.access.users]


def add(
    context: VerbContext, name: str, password_hash: str = NO_PASSWORD, tags: list[str] | None = None
) -> dict[str, Any]:
    """A new user."""
    return shown(context.access.add_user(name, password_hash, tags or ()))


def delete(context: VerbContext, name: str, force: bool = False) -> None:
    """Delete a user, with its permissions."""
    context.access.delete_user(name, force=force)


def password(context: VerbContext, name: str, password_hash: str) -> dict[str, Any]:
    """Another password, or none."""
    return shown(context.access.change_password(name, password_hash))


def tags(context: VerbContext, name: str, tags: list[str], force: bool = False) -> dict[str, Any]:
    """Other tags."""
    return shown(context.access.set_tags(name, tags, force=force))


def limits(context: VerbContext, name: str, limits: Mapping[str, int]) -> dict[str, Any]:
    """Other limits; those that are not named stay."""
    return shown(context.access.set_user_limits(name, limits))


VERBS: dict[str, Verb] = {
    "users.list": list_all,
    "users.add": add,
    "users.delete": delete,
    "users.password": password,
    "users.tags": tags,
    "users.limits": limits,
}
