"""What both brokers start with: policies, which AMQP has no methods for. Each is for names that begin with its own."""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

Definition = dict[str, Any]


def policy(
    name: str, definition: Definition, apply_to: str = "queues", priority: int = 0, pattern: str = ""
) -> Definition:
    """A policy for names that begin with its name, or are found by a pattern."""
    return {
        "name": name, "pattern": pattern or f"^{name}", "apply-to": apply_to, "priority": priority,
        "definition": definition,
    }  # fmt: skip


POLICIES = (
    policy("short", {"max-length": 2}),
    policy("rejecting", {"max-length": 1, "overflow": "reject-publish"}),
    policy("brief", {"message-ttl": 100}),
    policy("dying", {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}),
    policy("leaving", {"expires": 300}),
    policy("lost", {"alternate-exchange": "amq.fanout"}, "exchanges"),
    policy("low", {"max-length": 1}, pattern="^ranked"),
    policy("high", {"message-ttl": 60_000}, priority=5, pattern="^ranked"),
    policy("capped", {"max-length": 5}),
)
OPERATOR_POLICIES = (policy("capped", {"max-length": 2}), policy("operated", {"message-ttl": 100}))

SALT = b"salt"
GUEST = {
    "name": "guest",
    "password_hash": b64encode(SALT + sha256(SALT + b"guest").digest()).decode(),
    "hashing_algorithm": "rabbit_password_hashing_sha256",
    "tags": "administrator",
}


def definitions(vhosts: Iterable[str]) -> Definition:
    """All of them for each of these virtual hosts, and a guest there, in the form that both brokers import."""
    named = list(vhosts)
    everything = {"user": "guest", "configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [GUEST],
        "vhosts": [{"name": vhost} for vhost in named],
        "permissions": [{"vhost": vhost, **everything} for vhost in named],
        "policies": [{"vhost": vhost, **each} for vhost in named for each in POLICIES],
        "parameters": [
            {"vhost": vhost, "component": "operator_policy", "name": each["name"], "value": value_of(each)}
            for vhost in named
            for each in OPERATOR_POLICIES
        ],
    }


def value_of(each: Definition) -> Definition:
    """A policy without its name."""
    return {key: value for key, value in each.items() if key != "name"}
