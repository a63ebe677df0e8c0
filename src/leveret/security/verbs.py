"""What each verb of AMQP needs: one table, and the check that follows it.

A verb that is not in the table is refused, so that a new one is not open to all users by oversight.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from leveret.core.errors import AccessRefused
from leveret.security.identity import Identity
from leveret.security.permissions import Access, Permissions, Resource

Role = Literal["queue", "exchange", "source", "destination", "dead_letter_exchange", "alternate_exchange"]


class Need(NamedTuple):
    """An access, and to what; `only_with` names an argument without which there is no such need."""

    access: Access
    role: Role
    only_with: Role | None = None


class TopicNeed(NamedTuple):
    """An access to the key on the exchange in that role, if it is a topic exchange."""

    access: Literal["write", "read"]
    role: Role


_DEAD_LETTERS: Role = "dead_letter_exchange"
_ALTERNATE: Role = "alternate_exchange"
_QUEUE_BINDING = (Need("write", "queue"), Need("read", "exchange"))
_EXCHANGE_BINDING = (Need("write", "destination"), Need("read", "source"))

NEEDS: dict[str, tuple[Need, ...]] = {
    "exchange.declare": (
        Need("configure", "exchange"),
        Need("read", "exchange", _ALTERNATE),
        Need("write", _ALTERNATE, _ALTERNATE),
    ),
    "exchange.declare-passive": (),
    "exchange.delete": (Need("configure", "exchange"),),
    "exchange.bind": _EXCHANGE_BINDING,
    "exchange.unbind": _EXCHANGE_BINDING,
    "queue.declare": (
        Need("configure", "queue"),
        Need("read", "queue", _DEAD_LETTERS),
        Need("write", _DEAD_LETTERS, _DEAD_LETTERS),
    ),
    "queue.declare-passive": (),
    "queue.delete": (Need("configure", "queue"),),
    "queue.bind": _QUEUE_BINDING,
    "queue.unbind": _QUEUE_BINDING,
    "queue.purge": (Need("read", "queue"),),
    "basic.publish": (Need("write", "exchange"),),
    "basic.get": (Need("read", "queue"),),
    "basic.consume": (Need("read", "queue"),),
    # About what the same channel was given already.
    **dict.fromkeys(("basic.ack", "basic.nack", "basic.reject", "basic.recover", "basic.cancel"), ()),
}

TOPIC_NEEDS: dict[str, TopicNeed] = {
    "basic.publish": TopicNeed("write", "exchange"),
    "queue.bind": TopicNeed("read", "exchange"),
    "queue.unbind": TopicNeed("read", "exchange"),
    "exchange.bind": TopicNeed("read", "source"),
    "exchange.unbind": TopicNeed("read", "source"),
}


def authorize(
    permissions: Permissions,
    identity: Identity,
    vhost: str,
    verb: str,
    names: Mapping[Role, str],
    topic_key: str | None = None,
) -> None:
    """Refuse a verb on these names. `topic_key` is the key when the exchange that it is for is a topic exchange."""
    needs = NEEDS.get(verb)
    if needs is None:
        raise AccessRefused(f"no user may call '{verb}': it is not known here")
    identity.check_vhost(permissions, vhost)
    for need in needs:
        if need.only_with is None or need.only_with in names:
            identity.check(permissions, vhost, resource(need.role, names[need.role]), need.access)
    topic = TOPIC_NEEDS.get(verb)
    if topic is not None and topic_key is not None:
        identity.check_topic(permissions, vhost, names[topic.role], topic_key, topic.access)


def resource(role: Role, name: str) -> Resource:
    """Whatever is not the queue is an exchange."""
    return Resource("queue" if role == "queue" else "exchange", name)
