"""Definitions of older versions whose patterns cannot be used any more: the operator is told at start."""

from leveret.core.broker import Broker
from leveret.observability.logs import Log
from leveret.security.access import Access

LOG = Log("definitions")


def warn_of_patterns(core: Broker, access: Access) -> None:
    """Log each policy and permission whose pattern matches nothing because it cannot be used; under the lock."""
    for virtual_host in core.topology.vhosts.values():
        for policy in (*virtual_host.policies.values(), *virtual_host.operator_policies.values()):
            if policy.problem is not None:
                advice = "it applies to nothing: set it again with another pattern"
                LOG.warning(
                    "policy not used", vhost=virtual_host.name, policy=policy.name, reason=policy.problem, advice=advice
                )
    for permission in (*access.permissions, *access.permissions.topics()):
        if permission.problem is not None:
            owner = {"user": permission.user, "vhost": permission.vhost}
            advice = "it allows nothing: set it again with another pattern"
            LOG.warning("permission not used", **owner, reason=permission.problem, advice=advice)
