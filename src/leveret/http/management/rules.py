"""Who may ask what: a rule for each endpoint, in the words of RabbitMQ.

An administrator may do what monitors and policymakers may, and those what all users with the tag management may.
"""

from collections.abc import Callable
from enum import Enum, auto

from leveret.core.broker import Broker
from leveret.core.topology import Vhost
from leveret.http.management.call import Call
from leveret.http.management.refusals import NotAuthorised

ADMINISTRATORS = frozenset(("administrator",))
MONITORS = ADMINISTRATORS | {"monitoring"}
POLICYMAKERS = ADMINISTRATORS | {"policymaker"}
MANAGERS = MONITORS | POLICYMAKERS | {"management"}


class Rule(Enum):
    """Who may use an endpoint."""

    OPEN = auto()
    """All clients, without a login."""
    MANAGEMENT = auto()
    """Users that may use the API at all; lists show what each may see."""
    VHOST = auto()
    """Who may enter the virtual host; administrators need not."""
    MONITORED_VHOST = auto()
    """The same; monitors need not either."""
    MONITORING = auto()
    POLICY = auto()
    """Policymakers, in a virtual host that they may enter; administrators in every one."""
    ADMINISTRATOR = auto()


def has(call: Call, tags: frozenset[str]) -> bool:
    """Whether the user has one of the tags."""
    return not call.identity.tags.isdisjoint(tags)


def enters(call: Call, vhost: str) -> bool:
    """Whether the user may enter a virtual host."""
    return call.identity.may_enter(call.site.access.permissions, vhost)


def sees(call: Call, vhost: str) -> bool:
    """Whether lists show the user what is in a virtual host."""
    return has(call, MONITORS) or enters(call, vhost)


def seen(call: Call, core: Broker) -> list[Vhost]:
    """The virtual hosts that lists show the user, by name."""
    return [home for _, home in sorted(core.topology.vhosts.items()) if sees(call, home.name)]


def check(call: Call, rule: Rule) -> None:
    """Refuse who may not."""
    if rule is Rule.OPEN:
        return
    if not has(call, MANAGERS):
        raise NotAuthorised("Not management user")
    CHECKS.get(rule, _pass)(call)


def _pass(call: Call) -> None:
    """Nothing more is asked."""


def _vhost(call: Call) -> None:
    if not has(call, ADMINISTRATORS) and not enters(call, call.named("vhost")):
        raise NotAuthorised("User not authorised to access virtual host")


def _monitored_vhost(call: Call) -> None:
    if not sees(call, call.named("vhost")):
        raise NotAuthorised("User not authorised to access virtual host")


def _monitoring(call: Call) -> None:
    if not has(call, MONITORS):
        raise NotAuthorised("Not monitor user")


def _policy(call: Call) -> None:
    vhost = call.request.parameters.get("vhost")
    allowed = has(call, ADMINISTRATORS) or (has(call, POLICYMAKERS) and (vhost is None or enters(call, vhost)))
    if not allowed:
        raise NotAuthorised("User not authorised to access object")


def _administrator(call: Call) -> None:
    if not has(call, ADMINISTRATORS):
        raise NotAuthorised("Not administrator user")


CHECKS: dict[Rule, Callable[[Call], None]] = {
    Rule.VHOST: _vhost,
    Rule.MONITORED_VHOST: _monitored_vhost,
    Rule.MONITORING: _monitoring,
    Rule.POLICY: _policy,
    Rule.ADMINISTRATOR: _administrator,
}


def check_own(call: Call, owner: str) -> None:
    """Refuse a user that asks about another user's connection without being a monitor."""
    if owner != call.user and not has(call, MONITORS):
        raise NotAuthorised("User not authorised to access object")
