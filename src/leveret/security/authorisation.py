"""Authorisation: which rights each operation needs, as one table, and the one function that every protocol asks.

    who        an Identity: user, tags, scopes of its token
    operation  a key of OPERATIONS; AMQP's name where AMQP has the operation, whichever protocol asks
    names      the queues and exchanges in question, each by its role
    keys       routing keys, where the exchange is a topic exchange

An operation that is not in the table is refused: a new one is open to no user by oversight.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from leveret.core.errors import AccessRefused, PreconditionFailed
from leveret.security.identity import Identity
from leveret.security.permissions import Access, Permissions, Resource

Role = Literal[
    "queue",
    "exchange",
    "source",
    "destination",
    "alternate_exchange",
    "dead_letter_exchange",
    "dead_letter_queue",
    "destination_queue",
]
Tag = Literal["administrator", "policymaker", "monitoring", "management"]

QUEUES: frozenset[Role] = frozenset(("queue", "dead_letter_queue", "destination_queue"))
"""Roles of queues and streams; the others are roles of exchanges."""
OPTIONAL: frozenset[Role] = frozenset(
    ("alternate_exchange", "dead_letter_exchange", "dead_letter_queue", "destination_queue")
)
"""Roles that an operation may lack: then it needs no right on them."""
ACCESSES: tuple[Access, ...] = get_args(Access)
IMPERSONATOR = "impersonator"
DECISIONS_MAX = 50_000  # remembered at once: the names in them come from clients
OPERATOR: Tag = "management"  # the least tag with which the console and the management API may be used
HOLDERS: dict[Tag, frozenset[str]] = {
    "administrator": frozenset(("administrator",)),
    "monitoring": frozenset(("administrator", "monitoring")),
    "policymaker": frozenset(("administrator", "policymaker")),
    "management": frozenset(("administrator", "monitoring", "policymaker", "management")),
}
"""The tags that count as each tag, as in RabbitMQ."""


class Right(NamedTuple):
    """An access to what has a role; `only_with`: needed only if one of these roles is named."""

    access: Access
    role: Role
    only_with: frozenset[Role] = frozenset()


class KeyRight(NamedTuple):
    """An access to routing keys of the exchange that has a role, if that is a topic exchange."""

    access: Literal["write", "read"]
    role: Role


class Rule(NamedTuple):
    """What an operation needs."""

    rights: tuple[Right, ...] = ()
    keys: KeyRight | None = None
    any_right: bool = False
    """Whether one of the rights is enough."""
    tag: Tag | None = None
    entry: Tag | None = None
    """The tag with which a virtual host need not be entered; None: it must be, whatever the tags."""

    @property
    def roles(self) -> frozenset[Role]:
        """The roles that must be named."""
        return frozenset(right.role for right in self.rights) - OPTIONAL


class Decisions:
    """What was allowed, until rights change; what is refused is decided anew each time."""

    def __init__(self) -> None:
        self._generation = -1
        self._allowed: set[Hashable] = set()

    def has(self, asked: Hashable, generation: int) -> bool:
        """Whether it was allowed by the rights of this generation."""
        if generation != self._generation or len(self._allowed) >= DECISIONS_MAX:
            self._allowed.clear()
            self._generation = generation
        return asked in self._allowed

    def add(self, asked: Hashable) -> None:
        """Remember what was allowed after `has` did not know it, by rights that are no older."""
        self._allowed.add(asked)


class TagRefused(AccessRefused):
    """The user lacks a tag."""

    def __init__(self, user: str, tag: Tag) -> None:
        """`tag` is the least of the tags that are enough."""
        enough = sorted(HOLDERS[tag])
        super().__init__(f"'{user}' has none of the tags {', '.join(enough)}: ask an administrator")
        self.tag = tag


class EntryRefused(AccessRefused):
    """The user may not enter the virtual host."""


def _any(role: Role) -> Rule:
    return Rule(tuple(Right(access, role) for access in ACCESSES), any_right=True)


def _tagged(tag: Tag, entry: Tag | None = None) -> Rule:
    return Rule(tag=tag, entry=entry or tag)


_DEAD: frozenset[Role] = frozenset(("dead_letter_exchange", "dead_letter_queue"))
_READ_QUEUE, _WRITE_QUEUE = Rule((Right("read", "queue"),)), Rule((Right("write", "queue"),))
_CONFIGURE_QUEUE = Rule((Right("configure", "queue"),))
_QUEUE_SETTINGS = Rule(
    (
        Right("configure", "queue"),
        Right("read", "queue", _DEAD),
        Right("write", "dead_letter_exchange"),
        Right("write", "dead_letter_queue"),
    )
)
_QUEUE_BINDING = Rule((Right("write", "queue"), Right("read", "exchange")), KeyRight("read", "exchange"))
_EXCHANGE_BINDING = Rule((Right("write", "destination"), Right("read", "source")), KeyRight("read", "source"))
_MONITORED, _ADMINISTERED = _tagged("monitoring"), _tagged("administrator")

OPERATIONS: dict[str, Rule] = {
    "connection.open": Rule(),
    # Exchanges
    "exchange.declare": Rule(
        (
            Right("configure", "exchange"),
            Right("read", "exchange", frozenset(("alternate_exchange",))),
            Right("write", "alternate_exchange"),
        )
    ),
    "exchange.declare-passive": Rule(),
    "exchange.delete": Rule((Right("configure", "exchange"),)),
    "exchange.bind": _EXCHANGE_BINDING,
    "exchange.unbind": _EXCHANGE_BINDING,
    "exchange.look": Rule((Right("read", "exchange"),)),
    "exchange.see": _any("exchange"),
    # Queues; a stream is a queue
    "queue.declare": _QUEUE_SETTINGS,
    "queue.declare-passive": Rule(),
    "queue.update": _QUEUE_SETTINGS,
    "queue.delete": _CONFIGURE_QUEUE,
    "queue.bind": _QUEUE_BINDING,
    "queue.unbind": _QUEUE_BINDING,
    "queue.look": _READ_QUEUE,
    "queue.see": _any("queue"),
    "vhost.list": Rule(),
    "queue.pause": _CONFIGURE_QUEUE,
    "queue.grant": _CONFIGURE_QUEUE,  # and whatever it grants: see the adapter for SQS
    "queue.tag": _CONFIGURE_QUEUE,
    # Messages
    "basic.publish": Rule((Right("write", "exchange"),), KeyRight("write", "exchange")),
    "queue.send": _WRITE_QUEUE,
    "basic.get": _READ_QUEUE,
    "basic.consume": _READ_QUEUE,
    "queue.settle": _READ_QUEUE,  # by a receipt, which any client may have
    **dict.fromkeys(("basic.ack", "basic.nack", "basic.reject", "basic.recover", "basic.cancel"), Rule()),
    "queue.browse": _READ_QUEUE,
    "queue.purge": _READ_QUEUE,
    "queue.discard": _CONFIGURE_QUEUE,
    "queue.redrive": Rule((Right("read", "queue"), Right("write", "destination_queue"))),
    "queue.reserve": _READ_QUEUE,
    # Streams
    "stream.append": _WRITE_QUEUE,
    "stream.read": _READ_QUEUE,
    "group.join": _READ_QUEUE,
    "group.change": _CONFIGURE_QUEUE,
    # Bulk ingest; its rows are publishes
    "ingest.stage": Rule(),
    # What tags allow
    "audit.read": _ADMINISTERED,
    "metrics.read": _MONITORED,
    "operator.run": _ADMINISTERED,
    "console.use": _tagged(OPERATOR),
    "server.look": _tagged("management"),
    "vhost.look": _tagged("management", "administrator"),
    "vhost.monitor": _tagged("management", "monitoring"),
    "node.look": _MONITORED,
    "report.look": _MONITORED,
    "receiver.look": _MONITORED,
    "policy.change": _tagged("policymaker", "administrator"),
    "parameter.change": _tagged("policymaker", "administrator"),
    "silence.change": _tagged("policymaker", "administrator"),
    "operator-policy.change": _ADMINISTERED,
    "limit.change": _ADMINISTERED,
    "server.change": _ADMINISTERED,
    "definitions.move": _ADMINISTERED,
    "connection.close": _ADMINISTERED,
    "queue.act": _ADMINISTERED,
    "vhost.change": _ADMINISTERED,
    "user.change": _ADMINISTERED,
    "permission.change": _ADMINISTERED,
    "alert.change": _ADMINISTERED,
}


def authorise(
    permissions: Permissions,
    who: Identity,
    operation: str,
    vhost: str,
    names: Mapping[Role, str],
    keys: Sequence[str] = (),
) -> None:
    """Refuse an operation on these resources unless its rule allows it; `keys` are those of a topic exchange."""
    rule = admit(permissions, who, operation, vhost)
    if rule.any_right:
        _check_any(permissions, who, vhost, rule, names)
        return
    for access, role, only_with in rule.rights:
        if (only_with and only_with.isdisjoint(names)) or (role in OPTIONAL and role not in names):
            continue
        who.check(permissions, vhost, resource(role, names[role]), access)
    if rule.keys is not None:
        for key in keys:
            who.check_topic(permissions, vhost, names[rule.keys.role], key, rule.keys.access)


def allowed(permissions: Permissions, who: Identity, operation: str, vhost: str, names: Mapping[Role, str]) -> bool:
    """Whether authorise allows an operation."""
    try:
        authorise(permissions, who, operation, vhost, names)
    except AccessRefused:
        return False
    return True


def admit(
    permissions: Permissions, who: Identity, operation: str, vhost: str | None = None, tag: Tag | None = None
) -> Rule:
    """Refuse a user without the tag or the entry to the virtual host that an operation needs, whatever the resources.

    `tag` is what a protocol asks of all its users beside; administrators need not enter a virtual host for that.
    """
    rule = check_tag(who, operation, tag)
    entry = rule.entry or ("administrator" if tag is not None else None)
    if vhost is not None and not (entry is not None and holds(who, entry)) and not who.may_enter(permissions, vhost):
        raise EntryRefused(f"access to vhost '{vhost}' refused for user '{who.user}'")
    return rule


def check_tag(who: Identity, operation: str, tag: Tag | None = None) -> Rule:
    """Refuse a user without the tag that an operation needs, or the one that a protocol asks of all its users."""
    rule = OPERATIONS.get(operation)
    if rule is None:
        raise AccessRefused(f"no user may call '{operation}': it is not in the table of operations")
    for needed in (tag, rule.tag):
        if needed is not None and not holds(who, needed):
            raise TagRefused(who.user, needed)
    return rule


def holds(who: Identity, tag: Tag) -> bool:
    """Whether a user has a tag, or one that counts as it."""
    return not who.tags.isdisjoint(HOLDERS[tag])


def check_user_id(who: Identity, claimed: str | None) -> None:
    """Refuse a message that names another user as its publisher, unless the user may impersonate others."""
    if claimed is not None and claimed != who.user and IMPERSONATOR not in who.tags:
        raise PreconditionFailed(f"user_id property set to '{claimed}' but authenticated user was '{who.user}'")


def requirement(rule: Rule) -> str:
    """What a rule needs, in words; nothing for a rule that needs no more than the entry to the virtual host."""
    if rule.any_right:
        return f"configure, write or read on the {_noun(rule.rights[0].role)}"
    parts = [] if rule.tag is None else [f"the tag {rule.tag}"]
    for access, role, only_with in rule.rights:
        condition = f", with {' or '.join(map(_with_article, sorted(only_with)))}" if only_with else ""
        parts.append(f"{access} on the {_noun(role)}{', if it has one' if role in OPTIONAL else condition}")
    if rule.keys is not None:
        parts.append(f"{rule.keys.access} on the routing keys, if the {_noun(rule.keys.role)} is a topic exchange")
    return "; ".join(parts)


def _with_article(role: Role) -> str:
    return f"{'an' if role[0] == 'a' else 'a'} {_noun(role)}"


def _noun(role: Role) -> str:
    return {"source": "source exchange", "destination": "destination exchange"}.get(
        role, role.replace("dead_letter", "dead-letter").replace("_", " ")
    )


def resource(role: Role, name: str) -> Resource:
    """What patterns of permissions are compared with."""
    return Resource("queue" if role in QUEUES else "exchange", name)


def _check_any(permissions: Permissions, who: Identity, vhost: str, rule: Rule, names: Mapping[Role, str]) -> None:
    for right in rule.rights[:-1]:
        try:
            who.check(permissions, vhost, resource(right.role, names[right.role]), right.access)
        except AccessRefused:
            continue
        return
    last = rule.rights[-1]
    who.check(permissions, vhost, resource(last.role, names[last.role]), last.access)
