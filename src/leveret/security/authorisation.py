"""Authorisation: the rules of operations, and the one function that every protocol asks.

    who    an Identity: user, tags, scopes of its token
    rule   what the operation needs: operations/registry.py has the rule of each
    names  the queues and exchanges in question, each by its role
    keys   routing keys, where the exchange is a topic exchange

What is allowed is remembered by `Decisions`, until rights change.
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
DECISIONS_MAX = 5_000  # remembered at once, about 400 bytes each: the names in them come from clients
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
    login: bool = True
    """Whether a user must have logged in."""
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


def authorise(
    permissions: Permissions,
    who: Identity,
    rule: Rule,
    vhost: str,
    names: Mapping[Role, str],
    keys: Sequence[str] = (),
) -> None:
    """Refuse an operation on these resources unless its rule allows it; `keys` are those of a topic exchange."""
    admit(permissions, who, rule, vhost)
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


def allowed(permissions: Permissions, who: Identity, rule: Rule, vhost: str, names: Mapping[Role, str]) -> bool:
    """Whether authorise allows an operation."""
    try:
        authorise(permissions, who, rule, vhost, names)
    except AccessRefused:
        return False
    return True


def admit(
    permissions: Permissions, who: Identity, rule: Rule, vhost: str | None = None, tag: Tag | None = None
) -> None:
    """Refuse a user without the tag or the entry to the virtual host that an operation needs, whatever the resources.

    `tag` is what a protocol asks of all its users beside; administrators need not enter a virtual host for that.
    """
    check_tag(who, rule, tag)
    entry = rule.entry or ("administrator" if tag is not None else None)
    if vhost is not None and not (entry is not None and holds(who, entry)) and not who.may_enter(permissions, vhost):
        raise EntryRefused(f"access to vhost '{vhost}' refused for user '{who.user}'")


def check_tag(who: Identity, rule: Rule, tag: Tag | None = None) -> None:
    """Refuse a user without the tag that an operation needs, or the one that a protocol asks of all its users."""
    for needed in (tag, rule.tag):
        if needed is not None and not holds(who, needed):
            raise TagRefused(who.user, needed)


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
