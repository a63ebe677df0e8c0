"""A row of the table of operations, and the rules that rows have in common."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from leveret.core.errors import InvalidArgument
from leveret.security.authorisation import OPERATOR, Rule, Tag

Scope = Literal["shard", "catalog", "shards", "node", "nodes"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
Handler = Callable[..., Any]
"""Takes an OperationContext and arguments by name; gives what is fit for JSON, or what that comes from."""
Names = Iterable[str] | Mapping[str, Handler]
MISSING = inspect.Parameter.empty


class OperationParameter(NamedTuple):
    """An argument of an operation, as the signature of its handler says."""

    name: str
    hint: Any
    help: str
    default: Any
    by_name: bool
    """Whether commands have it as a flag, though it is needed."""

    @property
    def kind(self) -> Any:
        """Its type, or the first of several; that it may lack is told by its default."""
        return get_args(self.hint)[0] if _is_union(self.hint) else self.hint


@dataclass(frozen=True, slots=True)
class Operation:
    """What registry.py says of an operation; without a handler, each protocol does it in its own way."""

    name: str
    rule: Rule
    scope: Scope
    audited: bool = False
    idempotent: bool = False
    handler: Handler | None = None

    @property
    def help(self) -> str:
        """What it does, without a capital letter or a full stop."""
        sentence = (inspect.getdoc(self.handler) or "").partition("\n")[0].removesuffix(".")
        return sentence[:1].lower() + sentence[1:]

    @property
    def parameters(self) -> dict[str, OperationParameter]:
        """Its arguments by name, in their order."""
        return {} if self.handler is None else parameters_of(self.handler)

    @property
    def waits(self) -> bool:
        """Whether the handler gives something to wait for: then it needs no lock."""
        return self.handler is not None and get_origin(get_type_hints(self.handler)["return"]) is Awaitable

    def call(self, context: object, arguments: Mapping[str, Any]) -> Any:
        """Do it and give its result; arguments of other names or types are refused."""
        assert self.handler is not None, f"{self.name} is done by protocols"
        try:
            inspect.signature(self.handler).bind(context, **arguments)
        except TypeError as error:
            raise InvalidArgument(f"wrong arguments for {self.name}: {error}") from None
        known = self.parameters
        for name, value in arguments.items():
            if not fits(value, known[name].hint):
                raise InvalidArgument(
                    f"{name} of {self.name} is of another type than {type(value).__name__}: see the help"
                )
        return self.handler(context, **arguments)


@cache
def parameters_of(handler: Handler) -> dict[str, OperationParameter]:
    """The arguments that a handler takes beside the context; `Annotated` has their help."""
    hints = get_type_hints(handler, include_extras=True)
    found = {}
    for name, parameter in list(inspect.signature(handler).parameters.items())[1:]:
        hint, help = hints[name], ""
        if get_origin(hint) is Annotated:
            hint, help = get_args(hint)
        by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        found[name] = OperationParameter(name, hint, help, parameter.default, by_name)
    return found


def fits(value: object, hint: Any) -> bool:
    """Whether a value from JSON is what an annotation says; the handler checks what is inside a list or an object."""
    if _is_union(hint):
        return any(fits(value, each) for each in get_args(hint))
    if hint is Any:
        return True
    if hint is int:
        return type(value) is int
    if get_origin(hint) is Literal:
        return isinstance(value, str)  # the handler says which there are
    return isinstance(value, get_origin(hint) or hint)


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (UnionType, Union)


def looks(scope: Scope, rule: Rule, names: Names) -> Iterable[Operation]:
    """Operations that change nothing."""
    return (Operation(name, rule, scope, False, True, handler) for name, handler in _handlers(names))


def changes(scope: Scope, rule: Rule, names: Names) -> Iterable[Operation]:
    """Operations on definitions, settings or many messages: the audit log has them."""
    return (Operation(name, rule, scope, True, False, handler) for name, handler in _handlers(names))


def acts(scope: Scope, rule: Rule, names: Names, *, idempotent: bool = False) -> Iterable[Operation]:
    """Operations on messages, of which applications do many."""
    return (Operation(name, rule, scope, False, idempotent, handler) for name, handler in _handlers(names))


def _handlers(names: Names) -> Iterable[tuple[str, Handler | None]]:
    return names.items() if isinstance(names, Mapping) else ((name, None) for name in names)


def tagged(tag: Tag, entry: Tag | None = None) -> Rule:
    """A tag; `entry` is the one with which a virtual host need not be entered."""
    return Rule(tag=tag, entry=entry or tag)


MANAGED, MONITORED, ADMINISTERED = tagged(OPERATOR), tagged("monitoring"), tagged("administrator")
MANAGED_VHOST, MONITORED_VHOST = tagged(OPERATOR, "administrator"), tagged(OPERATOR, "monitoring")
POLICIES = tagged("policymaker", "administrator")

Name = Annotated[str, "its name"]
User = Annotated[str, "the user"]
Vhost = Annotated[str, "the virtual host; default: /"]
OnlyUser = Annotated[str | None, "only of this user"]
OnlyVhost = Annotated[str | None, "only in this virtual host"]
Force = Annotated[bool, "do it all the same"]
VHOST = "/"
