"""What the tags of a user allow in the management API, with RabbitMQ's reasons of refusals.

The registry of operations has the rules; every user of the API needs the tag management.
"""

from leveret.core.broker import Broker
from leveret.core.topology import Vhost
from leveret.operations.registry import OPERATIONS
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.refusals import NotAuthorised
from leveret.security.authorisation import OPERATOR, EntryRefused, Tag, TagRefused, admit, holds

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


def seen(call: ManagementCall, core: Broker) -> list[Vhost]:
    """The virtual hosts that lists show the user, by name."""
    return [virtual_host for _, virtual_host in sorted(core.topology.vhosts.items()) if sees(call, virtual_host.name)]


def check_own(call: ManagementCall, owner: str) -> None:
    """Refuse a look at the connection of another user, unless the user is a monitor."""
    if owner != call.user and not has(call, "monitoring"):
        raise NotAuthorised(OBJECT)
