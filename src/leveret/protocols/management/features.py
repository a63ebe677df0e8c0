"""What RabbitMQ has switches for: features that are always on here, and old ones that are not there."""

from __future__ import annotations

from collections.abc import Awaitable

from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed
from leveret.protocols.management.refusals import BadRequest, answer, done

FLAGS = {
    "quorum_queue": "Queues of the type quorum",
    "user_limits": "Limits of connections and channels for each user",
    "virtual_host_metadata": "Description and tags of virtual hosts",
    "direct_exchange_routing_v2": "Routes that are remembered",
    "feature_flags_v2": "These flags",
    "message_containers": "Messages that every protocol understands",
}
DEPRECATED = {
    "classic_queue_mirroring": "Mirrored queues; use the type quorum",
    "ram_node_type": "Nodes without a disk",
    "queue_master_locator": "Where queues are placed",
}


def flag_rows() -> list[Row]:
    """The features, all of them on."""
    fixed = {"doc_url": "", "state": "enabled", "stability": "stable", "provided_by": "leveret"}
    return [{"name": name, "desc": text, **fixed} for name, text in FLAGS.items()]


def list_flags(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """The features."""
    return listed(call, flag_rows())


def enable(call: ManagementCall) -> Answer:
    """Switch a feature on: it is."""
    if call.named("name") not in FLAGS:
        raise BadRequest(f"there is no feature flag '{call.named('name')}'")
    return done()


def list_deprecated(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """What is gone."""
    fixed = {"deprecation_phase": "removed", "doc_url": "", "state": "denied", "provided_by": "leveret"}
    return listed(call, [{"name": name, "desc": text, **fixed} for name, text in DEPRECATED.items()])


def list_deprecated_used(call: ManagementCall) -> Answer:
    """What of that is used: nothing."""
    return answer([])
