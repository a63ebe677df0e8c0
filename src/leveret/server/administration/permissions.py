"""Verbs on permissions, and on those for the keys of topic exchanges."""

from typing import Any

from leveret.server.administration.context import Verb, VerbContext


def list_all(context: VerbContext, user: str | None = None, vhost: str | None = None) -> list[dict[str, Any]]:
    """Permissions, of all users or of one, everywhere or in one virtual host."""
    rows = [
        row.shown() for row in context.access.permissions if user in (None, row.user) and vhost in (None, row.vhost)
    ]
    return sorted(rows, key=lambda row: (row["user"], row["vhost"]))


def allow(context: VerbContext, user: str, vhost: str, configure: str, write: str, read: str) -> dict[str, Any]:
    """What a user may do in a virtual host."""
    return context.access.set_permission(user, vhost, configure, write, read).to_dict()


def clear(context: VerbContext, user: str, vhost: str) -> None:
    """A user may not enter a virtual host any more."""
    context.access.clear_permission(user, vhost)


def list_topics(context: VerbContext, user: str | None = None, vhost: str | None = None) -> list[dict[str, Any]]:
    """The same for keys."""
    topics = context.access.permissions.topics()
    rows = [row.shown() for row in topics if user in (None, row.user) and vhost in (None, row.vhost)]
    return sorted(rows, key=lambda row: (row["user"], row["vhost"], row["exchange"]))


def allow_topic(context: VerbContext, user: str, vhost: str, exchange: str, write: str, read: str) -> dict[str, Any]:
    """Which keys of an exchange a user may publish with and bind."""
    return context.access.set_topic_permission(user, vhost, exchange, write, read).to_dict()


def clear_topic(context: VerbContext, user: str, vhost: str, exchange: str | None = None) -> None:
    """A user may use every key again, of one exchange or of all."""
    context.access.clear_topic_permission(user, vhost, exchange)


VERBS: dict[str, Verb] = {
    "permissions.list": list_all,
    "permissions.set": allow,
    "permissions.clear": clear,
    "topic-permissions.list": list_topics,
    "topic-permissions.set": allow_topic,
    "topic-permissions.clear": clear_topic,
}
