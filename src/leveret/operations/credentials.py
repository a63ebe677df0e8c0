"""Access keys, which sign requests to the port for SQS, and tokens of the REST API. What is secret about them is shown
once: to the operator that adds or rotates one.
"""

from typing import Annotated, Any

from leveret.operations.context import OperationContext
from leveret.operations.operation import ADMINISTERED, OnlyUser, User, changes, looks
from leveret.security.keys import AccessKey, ApiKey, new_id, new_secret

DAY_MS = 24 * 3600 * 1000
KeyId = Annotated[str, "its id"]
TokenId = Annotated[str, "its id, from the list"]


def shown_key(key: AccessKey) -> dict[str, Any]:
    """A key without its secret."""
    return {"id": key.id, "user": key.user, "created_ms": key.created_ms}


def list_keys(context: OperationContext, user: OnlyUser = None) -> list[dict[str, Any]]:
    """List access keys."""
    rows = (shown_key(key) for key in context.access.access_keys if user in (None, key.user))
    return sorted(rows, key=lambda row: row["id"])


def add_key(
    context: OperationContext,
    user: User,
    id: Annotated[str | None, "its id; default: a new one"] = None,
    secret: Annotated[str | None, "its secret; default: a random one"] = None,
) -> dict[str, Any]:
    """Add an access key, with which a user signs requests to the port for SQS."""
    key = context.access.add_key(user, id or new_id(), secret or new_secret())
    return {**shown_key(key), "secret": key.secret}


def rotate_key(context: OperationContext, id: KeyId) -> dict[str, Any]:
    """Put another access key in the place of one, which is of no use any more."""
    user = context.access.access_keys.get(id).user
    context.access.delete_key(id)
    return add_key(context, user)


def delete_key(context: OperationContext, id: KeyId) -> None:
    """Delete an access key."""
    context.access.delete_key(id)


def shown_token(key: ApiKey) -> dict[str, Any]:
    """A token without what is secret about it."""
    stored = key.to_dict()
    return {
        "id": key.number,
        **{name: stored[name] for name in ("user", "label", "scopes", "created_ms", "expires_ms")},
    }


def list_tokens(context: OperationContext, user: OnlyUser = None) -> list[dict[str, Any]]:
    """List tokens of the REST API."""
    return [shown_token(key) for key in context.access.api_keys if user in (None, key.user)]


def add_token(
    context: OperationContext,
    user: User,
    scopes: Annotated[list[str], "what it allows: write:orders*, read:*, *:*, manage"],
    label: Annotated[str, "what it is for"] = "",
    days: Annotated[int | None, "after which it ends; default: never"] = None,
) -> dict[str, Any]:
    """Add a token, with which a program uses the REST API as a user."""
    owner = context.access.users.get(user).name
    lifetime_ms = None if days is None else days * DAY_MS
    key, token = context.access.api_keys.add(owner, scopes, context.core.now_ms, label=label, lifetime_ms=lifetime_ms)
    return {**shown_token(key), "token": token}


def revoke_token(context: OperationContext, id: TokenId) -> None:
    """Make a token useless at once."""
    context.access.api_keys.delete(id)


def rotate_token(
    context: OperationContext,
    id: TokenId,
    overlap_s: Annotated[int, "seconds that the old one is still good; default: 0"] = 0,
) -> dict[str, Any]:
    """Replace a token."""
    key, token = context.access.api_keys.rotate(id, context.core.now_ms, overlap_ms=overlap_s * 1000)
    return {**shown_token(key), "token": token}


OPERATIONS = (
    *looks("catalog", ADMINISTERED, {"keys.list": list_keys, "tokens.list": list_tokens}),
    *changes(
        "catalog",
        ADMINISTERED,
        {
            "keys.add": add_key,
            "keys.rotate": rotate_key,
            "keys.delete": delete_key,
            "tokens.add": add_token,
            "tokens.revoke": revoke_token,
            "tokens.rotate": rotate_token,
        },
    ),
)
