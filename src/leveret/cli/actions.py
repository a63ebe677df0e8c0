"""What commands print of the operations on users, virtual hosts, permissions and so on: the registry has the rest.

The word of a command is the name of an operation without its noun, its arguments and help are those of the handler.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Action(NamedTuple):
    """An operation as a command; `columns` are of the table that it prints, `done` is its last word."""

    columns: tuple[str, ...] = ()
    done: str = ""
    followed_by: str = ""
    """What to ask until work that was begun has ended."""
    limits: Mapping[str, str] = {}
    """Flags of the limits that it changes, with their help."""
    options: Mapping[str, Mapping[str, Any]] = {}
    """What argparse is told of an argument beside what its type says."""
    destroys: str = ""
    """What is lost by it: a terminal is asked before."""


PERMISSIONS = ("write", "read")
KEY_ADDED = "access key {id} of user {user!r} added; its secret is not shown again: {secret}"
ACTIONS: dict[str, Action] = {
    "users.list": Action(("name", "tags", "password", "limits.max-connections", "limits.max-channels")),
    "users.add": Action(done="user {name!r} added"),
    "users.delete": Action(done="user {name!r} deleted", destroys="delete user {name!r}"),
    "users.password": Action(done="password of {name!r} changed"),
    "users.tags": Action(done="tags of user {name!r} changed", options={"tags": {"metavar": "TAG"}}),
    "users.limits": Action(
        done="limits of user {name!r} changed",
        limits={"max-connections": "connections at the same time", "max-channels": "channels at the same time"},
    ),
    "keys.list": Action(("id", "user")),
    "keys.add": Action(done=KEY_ADDED),
    "keys.rotate": Action(done=KEY_ADDED),
    "keys.delete": Action(done="access key {id!r} deleted", destroys="delete access key {id!r}"),
    "tokens.list": Action(("id", "user", "label", "scopes", "created_ms", "expires_ms")),
    "tokens.add": Action(
        done="token {id} of user {user!r} added; it is not shown again: {token}",
        options={"scopes": {"nargs": "+", "metavar": "SCOPE"}},
    ),
    "tokens.revoke": Action(done="token {id!r} revoked", destroys="revoke token {id!r}"),
    "tokens.rotate": Action(done="token {id} replaced; the new one is not shown again: {token}"),
    "vhosts.list": Action(
        (
            "name",
            "queues",
            "messages",
            "default_queue_type",
            "limits.max-connections",
            "limits.max-queues",
            "tags",
            "description",
        )
    ),
    "vhosts.add": Action(done="vhost {name!r} is there"),
    "vhosts.delete": Action(done="vhost {name!r} deleted", destroys="delete vhost {name!r} with its queues"),
    "vhosts.limits": Action(
        done="limits of vhost {name!r} changed",
        limits={"max-connections": "connections it may have", "max-queues": "queues it may have"},
    ),
    "vhosts.trace": Action(done="firehose of vhost {name!r} is {state}"),
    "permissions.list": Action(("user", "vhost", "configure", *PERMISSIONS)),
    "permissions.set": Action(done="permissions of {user!r} in vhost {vhost!r} set"),
    "permissions.clear": Action(done="permissions of {user!r} in vhost {vhost!r} cleared"),
    "topic-permissions.list": Action(("user", "vhost", "exchange", *PERMISSIONS)),
    "topic-permissions.set": Action(done="topic permissions of {user!r} on {exchange!r} in vhost {vhost!r} set"),
    "topic-permissions.clear": Action(done="topic permissions of {user!r} in vhost {vhost!r} cleared"),
    "policies.list": Action(("vhost", "name", "pattern", "apply-to", "priority", "definition", "operator")),
    "policies.set": Action(done="policy {name!r} in vhost {vhost!r} set"),
    "policies.clear": Action(done="policy {name!r} in vhost {vhost!r} deleted"),
    "streams.list": Action(("vhost", "name", "partitions", "records", "size_bytes", "max_age_ms", "max_bytes")),
    "streams.show": Action(("partition", "first_offset", "next_offset", "records", "size_bytes", "segments")),
    "streams.create": Action(done="stream {name!r} in vhost {vhost!r} is there"),
    "streams.delete": Action(
        done="stream {name!r} in vhost {vhost!r} deleted, with {records} records",
        destroys="delete stream {name!r} with its records",
    ),
    "groups.list": Action(("vhost", "stream", "name", "generation", "members", "lag")),
    "groups.show": Action(("member", "partitions")),
    "groups.lag": Action(("partition", "offset", "next_offset", "lag", "member")),
    "groups.create": Action(done="group {name!r} of stream {stream!r} is there"),
    "groups.reset": Action(done="group {name!r} of stream {stream!r} reset; it is {lag} records behind"),
    "groups.delete": Action(
        done="group {name!r} of stream {stream!r} deleted", destroys="delete group {name!r} of stream {stream!r}"
    ),
    "reservations.list": Action(("vhost", "queue", "name", "user", "messages", "idle_seconds", "lease_seconds")),
    "reservations.release": Action(done="group {name!r} released; {messages} messages of queue {queue!r} wait again"),
    "alerts.firing": Action(
        ("severity", "state", "rule", "vhost", "queue", "value", "limit", "unit", "since", "silence")
    ),
    "alerts.history": Action(("at", "event", "rule", "vhost", "queue", "value", "receiver", "by", "reason")),
    "alerts.list": Action(("name", "figure", "limit", "for_s", "severity", "vhost", "queue", "enabled")),
    "alerts.set": Action(done="rule {name!r} set"),
    "alerts.clear": Action(done="rule {name!r} is {left}"),
    "alerts.silences": Action(("name", "rule", "vhost", "queue", "minutes_left", "by", "why")),
    "alerts.silence": Action(done="silence {name!r} has begun"),
    "alerts.unsilence": Action(done="silence {name!r} has ended"),
    "alerts.receivers": Action(("name", "kind", "place", "rules", "severity_min", "waiting", "problem")),
    "alerts.receiver": Action(done="receiver {name!r} set"),
    "alerts.forget": Action(done="receiver {name!r} deleted"),
    "alerts.test": Action(done="receiver {name!r} took the test"),
    "journal.seal": Action(done="sealed: {sealed}"),
    "journal.rotate-key": Action(done="{summary}", followed_by="journal.rotation-status"),
    "journal.rotation-status": Action(done="{summary}"),
}

EXAMPLES = {
    "users": ("leveret users add ada --no-password --tags monitoring", "leveret users list --json"),
    "keys": ("leveret keys add ada", "leveret keys list --user ada"),
    "tokens": ("leveret tokens add ada 'write:orders*' 'read:orders*' --days 90", "leveret tokens list --user ada"),
    "vhosts": ("leveret vhosts add shop --description 'orders and invoices'", "leveret vhosts list"),
    "permissions": ("leveret permissions set ada '^ada-' '.*' '.*' --vhost shop", "leveret permissions list"),
    "topic-permissions": ("leveret topic-permissions set ada amq.topic '^{username}\\.' '.*'",),
    "policies": ("""leveret policies set short '^log' '{"max-length": 1000}' --apply-to queues""",),
    "streams": ("leveret streams create events --partitions 4 --max-age 7D", "leveret streams list"),
    "groups": ("leveret groups create events readers", "leveret groups lag events readers"),
    "reservations": ("leveret reservations list", "leveret reservations list --queue orders --json"),
    "alerts": (
        "leveret alerts firing",
        "leveret alerts set queue_depth --limit 50000 --for-s 300",
        "leveret alerts silence --queue 'orders*' --minutes 30 --why 'moving to the new shop'",
    ),
    "journal": ("leveret journal seal", "leveret journal rotation-status"),
}
