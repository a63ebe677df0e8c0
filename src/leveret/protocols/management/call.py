"""One request as endpoints see it: who asks, what the path names, and the body as checked JSON.

What the tags of its user allow is asked here too, with RabbitMQ's reasons of refusals. The registry of operations has
the rules; every user of the API needs the tag management.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from leveret.core.broker import Broker
from leveret.core.errors import AccessRefused, VhostNotFound
from leveret.core.jsonable import decode_table
from leveret.core.topology import Vhost
from leveret.operations.registry import OPERATIONS, rule_of
from leveret.protocols.http.fields import read_json
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.refusals import BadRequest, Missing, NotAuthorised, done
from leveret.security.authorisation import OPERATOR, EntryRefused, Role, Tag, TagRefused, admit, authorise, holds
from leveret.security.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leveret.core.queue import Queue
    from leveret.protocols.http.cluster import Cluster
    from leveret.protocols.management.context import AdminContext, Row
    from leveret.runtime.runtime import Runtime

T = TypeVar("T")
DEFAULT_EXCHANGE = "amq.default"  # what paths call the exchange without a name
MISSING: Any = object()
NAMES: dict[type, str] = {bool: "boolean", int: "int", str: "string", dict: "object", list: "list"}


class ManagementCall:
    """A request of a known user, unless the endpoint needs no login."""

    def __init__(self, request: Request, context: AdminContext) -> None:
        self.request = request
        self.context = context

    @property
    def identity(self) -> Identity:
        assert self.request.identity is not None, "only endpoints without a login are asked without an identity"
        return self.request.identity

    @property
    def user(self) -> str:
        return self.identity.user

    @property
    def runtime(self) -> Runtime:
        return self.context.async_broker.runtime

    @property
    def nodes(self) -> Cluster:
        assert self.context.nodes is not None, "only nodes merge answers"
        return self.context.nodes

    def named(self, name: str) -> str:
        return self.request.parameters[name]

    def named_exchange(self, name: str = "exchange") -> str:
        found = self.named(name)
        return "" if found == DEFAULT_EXCHANGE else found

    # Objects; all of them under the lock

    def virtual_host(self, core: Broker) -> Vhost:
        try:
            return core.topology.vhost(self.named("vhost"))
        except VhostNotFound:
            raise Missing() from None

    def virtual_hosts(self, core: Broker) -> list[Vhost]:
        """The one that the path names; without a name those that lists show the user, sorted."""
        if "vhost" in self.request.parameters:
            return [self.virtual_host(core)]
        return [virtual_host for name, virtual_host in sorted(core.topology.vhosts.items()) if sees(self, name)]

    def queue(self, core: Broker) -> Queue:
        found: Queue | None = self.virtual_host(core).queues.get(self.named("queue"))
        return needed(found)

    def authorize(self, verb: str, names: Mapping[Role, str], topic_key: str | None = None) -> None:
        """Refuse what the user may not do by AMQP either; a token must have a scope for it as well."""
        vhost, permissions = self.named("vhost"), self.context.access.permissions
        authorise(permissions, self.identity, rule_of(verb), vhost, names, () if topic_key is None else (topic_key,))

    def allows(self, verb: str, names: Mapping[Role, str]) -> bool:
        """The same as a question."""
        try:
            self.authorize(verb, names)
        except AccessRefused:
            return False
        return True

    def run(self, operation: str, **arguments: Any) -> Any:
        """Do an operation that has a handler; under the lock."""
        return OPERATIONS[operation].call(self.context.operations, arguments)

    def put(self, operation: str, is_known: Callable[[Broker], bool], arguments: dict[str, Any]) -> Answered:
        """Add or replace something: 201 when it was not there, 204 when it was."""

        def act(core: Broker) -> Answer:
            known = is_known(core)
            self.run(operation, **arguments)
            return done(204 if known else 201)

        return self.change(act)

    def change(self, action: Callable[[Broker], T]) -> T | Awaitable[T]:
        """Change something and answer when that is durable."""
        return self.context.async_broker.change(action)

    # The body

    @cached_property
    def body(self) -> dict[str, Any]:
        value = parsed(self.request.body) if self.request.body.strip() else {}
        if not isinstance(value, dict):
            raise BadRequest("not_json")
        return value

    def need(self, *names: str) -> None:
        lacking = [f"{{key_missing,{name}}}" for name in names if name not in self.body]
        if lacking:
            raise BadRequest(f"[{','.join(lacking)}]")

    def field(self, name: str, kind: type[T], default: T = MISSING) -> T:
        """A field of the body; without a default it must be there. Numbers and truths may come as text."""
        if default is MISSING:
            self.need(name)
        value = self.body.get(name, default)
        if kind in (bool, int):
            value = spelled(value, kind)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BadRequest(f"{name} is not a {NAMES[kind]}: send one")
        return value

    def arguments(self) -> dict[str, Any]:
        """The arguments of a queue, an exchange or a binding. An empty list, PHP's empty array, is an empty table."""
        given = {} if self.body.get("arguments") == [] else self.field("arguments", dict, {})
        return decode_table("arguments", given)

    # The query

    def flag(self, name: str) -> bool:
        return self.request.query.get(name) == "true"

    def number(self, name: str) -> int | None:
        text = self.request.query.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise BadRequest(f"{name} is not a whole number: correct it")
        return int(text)


def spelled(text: Any, kind: type) -> Any:
    """The boolean or integer that rabbitmqadmin sends as text; any other value as it is."""
    if not isinstance(text, str):
        return text
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 18 else text


def parsed(data: bytes, word: str = "not_json") -> Any:
    """JSON without what JSON does not have."""
    try:
        return read_json(data, bytes_as_text=True)
    except ValueError:
        raise BadRequest(word) from None


Endpoint = Callable[[ManagementCall], Answered]
"""What answers the requests to a path."""

OBJECT = "User not authorised to access object"
REASONS: dict[Tag, str] = {
    "management": "Not management user",
    "monitoring": "Not monitor user",
    "policymaker": OBJECT,
    "administrator": "Not administrator user",
}


def check(call: ManagementCall, operation: str) -> None:
    """Refuse an operation that the tags of the user do not allow."""
    rule, vhost = OPERATIONS[operation].rule, call.request.parameters.get("vhost")
    if not rule.login:
        return
    try:
        admit(call.context.access.permissions, call.identity, rule, vhost, OPERATOR)
    except TagRefused as error:
        raise NotAuthorised(REASONS[error.tag]) from None
    except EntryRefused:
        is_policy = rule.tag == "policymaker"
        raise NotAuthorised(OBJECT if is_policy else "User not authorised to access virtual host") from None


def has(call: ManagementCall, tag: Tag) -> bool:
    """Whether the user has a tag, or one that counts as it."""
    return holds(call.identity, tag)


def enters(call: ManagementCall, vhost: str) -> bool:
    """Whether the user may enter a virtual host."""
    return call.identity.may_enter(call.context.access.permissions, vhost)


def sees(call: ManagementCall, vhost: str) -> bool:
    """Whether lists show the user what is in a virtual host."""
    return has(call, "monitoring") or enters(call, vhost)


def change(operation: str, arguments: Callable[[ManagementCall, Broker], Row]) -> Endpoint:
    """Does an operation and answers when that is durable; its arguments are found under the lock."""

    def act(call: ManagementCall, core: Broker) -> Answer:
        call.run(operation, **arguments(call, core))
        return done()

    return lambda call: call.change(partial(act, call))


def first(rows: Iterable[Row], **values: str) -> Row | None:
    """The first row with these values."""
    return next((row for row in rows if all(row[name] == value for name, value in values.items())), None)


def needed(found: T | None) -> T:
    """What was looked for, which must be there."""
    if found is None:
        raise Missing()
    return found
