"""Every verb by its name, and the check of what comes with it: what the signature of its function says."""

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Any, get_args, get_origin

from leveret.core.errors import InvalidArgument
from leveret.server.administration import (
    alerts,
    audit,
    cluster,
    definitions,
    groups,
    journal,
    keys,
    permissions,
    policies,
    status,
    streams,
    tokens,
    users,
    vhosts,
)
from leveret.server.administration.context import Verb, VerbContext

VERBS: dict[str, Verb] = {
    **users.VERBS,
    **keys.VERBS,
    **tokens.VERBS,
    **vhosts.VERBS,
    **permissions.VERBS,
    **policies.VERBS,
    **streams.VERBS,
    **groups.VERBS,
    **alerts.VERBS,
    **definitions.VERBS,
    **journal.VERBS,
    **status.VERBS,
    **audit.VERBS,
    **cluster.VERBS,
}


def call(context: VerbContext, verb: object, arguments: Mapping[str, Any]) -> Any:
    """Do what a verb says and give its result, fit for JSON, or what it comes from. The caller holds the lock."""
    function = VERBS.get(verb) if isinstance(verb, str) else None
    if function is None:
        near = get_close_matches(str(verb), VERBS, n=1)
        raise InvalidArgument(f"there is no verb {verb!r}: {f'did you mean {near[0]!r}?' if near else 'see the help'}")
    signature = inspect.signature(function)
    try:
        bound = signature.bind(context, **arguments)
    except TypeError as error:
        raise InvalidArgument(f"wrong arguments for {verb}: {error}") from None
    for name, value in arguments.items():
        if not fits(value, signature.parameters[name].annotation):
            raise InvalidArgument(f"{name} of {verb} is of another type than {type(value).__name__}: see the help")
    return function(*bound.args, **bound.kwargs)


def fits(value: object, hint: Any) -> bool:
    """Whether a value from JSON is what an annotation says; who uses a list or an object checks what is inside."""
    if isinstance(hint, UnionType):
        return any(fits(value, each) for each in get_args(hint))
    if hint is int:
        return type(value) is int
    return isinstance(value, get_origin(hint) or hint)
