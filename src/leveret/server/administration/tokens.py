"""Verbs on tokens of the REST API. A token is shown once: to the operator that adds or rotates it."""

from typing import Any

from leveret.security.api_keys import ApiKey
from leveret.server.administration.context import Verb, VerbContext

DAY_MS = 24 * 3600 * 1000


def shown(key: ApiKey) -> dict[str, Any]:
    """A token without what is secret about it."""
    stored = key.to_dict()
    return {
        "id": key.number,
        **{name: stored[name] for name in ("user", "label", "scopes", "created_ms", "expires_ms")},
    }


def list_all(context: VerbContext, user: str | None = None) -> list[dict[str, Any]]:
    """Every token, or those of a user."""
    return [shown(key) for key in context.access.api_keys if user in (None, key.user)]


def add(context: VerbContext, user: str, scopes: list[str], label: str = "", days: int | None = None) -> dict[str, Any]:
    """A new token of a user."""
    owner = context.access.users.get(user).name
    lifetime_ms = None if days is None else days * DAY_MS
    key, token = context.access.api_keys.add(owner, scopes, context.core.now_ms, label=label, lifetime_ms=lifetime_ms)
    return {**shown(key), "token": token}


def revoke(context: VerbContext, id: str) -> None:
    """A token is of no use any more."""
    context.access.api_keys.delete(id)


def rotate(context: VerbContext, id: str, overlap_s: int = 0) -> dict[str, Any]:
    """Another token in place of one, which stays good for a while."""
    key, token = context.access.api_keys.rotate(id, context.core.now_ms, overlap_ms=overlap_s * 1000)
    return {**shown(key), "token": token}


VERBS: dict[str, Verb] = {
    "tokens.list": list_all,
    "tokens.add": add,
    "tokens.revoke": revoke,
    "tokens.rotate": rotate,
}
