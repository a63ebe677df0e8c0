"""Verbs on access keys, which sign requests to the port for SQS. A secret is shown once: to the operator that makes
the key.
"""

from typing import Any

from leveret.security.access_keys import AccessKey, new_id, new_secret
from leveret.server.administration.context import Verb, VerbContext


def shown(key: AccessKey) -> dict[str, Any]:
    """A key without its secret."""
    return {"id": key.id, "user": key.user, "created_ms": key.created_ms}


def list_all(context: VerbContext, user: str | None = None) -> list[dict[str, Any]]:
    """Every key, or those of a user."""
    return sorted(
        (shown(key) for key in context.access.access_keys if user in (None, key.user)), key=lambda row: row["id"]
    )


def add(context: VerbContext, user: str, id: str | None = None, secret: str | None = None) -> dict[str, Any]:
    """A new key; id and secret are made here unless they are given."""
    key = context.access.add_key(user, id or new_id(), secret or new_secret())
    return {**shown(key), "secret": key.secret}


def rotate(context: VerbContext, id: str) -> dict[str, Any]:
    """Another key for its user; what is signed with the old one is refused at once."""
    user = context.access.access_keys.get(id).user
    context.access.delete_key(id)
    return add(context, user)


def delete(context: VerbContext, id: str) -> None:
    """A key goes."""
    context.access.delete_key(id)


VERBS: dict[str, Verb] = {"keys.list": list_all, "keys.add": add, "keys.rotate": rotate, "keys.delete": delete}
