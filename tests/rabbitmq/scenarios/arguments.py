"""Arguments of queues: what is refused, and what declaring again compares."""

from decimal import Decimal
from typing import Any

from leveret.core.tables import Long
from tests.rabbitmq.operations import queue
from tests.rabbitmq.script import Script

# fmt: off
QUORUM = {"x-queue-type": "quorum"}

# Each is declared on a new queue.
VALUES: list[dict[str, Any]] = [
    *({"x-expires": value} for value in (0, -1, "1000", 1.5, True, 2**32, 2**31, 315_360_000_001)),
    *({"x-message-ttl": value} for value in (0, -1, "60000", True, 2**32, 315_360_000_001)),
    *({"x-max-length": value} for value in (0, -1, "5", 2**40)),
    *({"x-max-length-bytes": value} for value in (0, -1, "5", 2**40)),
    *({"x-max-priority": value} for value in (0, 1, 255, 256, -1, "5")),
    *({"x-overflow": value} for value in ("drop-head", "reject-publish", "reject-publish-dlx", "drop", 5)),
    *({"x-dead-letter-exchange": value} for value in ("", "nothing", 5, True)),
    {"x-dead-letter-routing-key": "k"},
    {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": 5},
    {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "k"},
    *({"x-single-active-consumer": value} for value in (True, False, 1, "true")),
    *({"x-queue-type": value} for value in ("classic", "odd", "", 5)),
    {"x-delivery-limit": 5},
    {"x-dead-letter-strategy": "at-least-once"},
    {"x-quorum-initial-group-size": 3},
    {"x-max-age": "1D"},
    {"x-queue-mode": "lazy"},
    {"x-queue-mode": "odd"},
    {"x-queue-leader-locator": "client-local"},
    {"x-unknown": 5},
    {"mine": Decimal("1.5")},
    *({**QUORUM, "x-delivery-limit": value} for value in (0, 5, -2, "5")),
    {**QUORUM, "x-max-priority": 5},
    {**QUORUM, "x-queue-mode": "lazy"},
    {**QUORUM, "x-overflow": "reject-publish"},
    {**QUORUM, "x-overflow": "reject-publish-dlx"},
    {**QUORUM, "x-overflow": "odd"},
    {**QUORUM, "x-dead-letter-strategy": "odd"},
    {**QUORUM, "x-expires": 0},
    {**QUORUM, "x-single-active-consumer": True},
    {**QUORUM, "x-max-age": "1D"},
    *({**QUORUM, "x-queue-leader-locator": value} for value in ("client-local", "odd")),
    {**QUORUM, "x-unknown": 5},
]

# Each queue is declared with the first and then with the second.
AGAIN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"x-message-ttl": 1}),
    ({"x-message-ttl": 1}, {}),
    ({"x-message-ttl": 1}, {"x-message-ttl": 2}),
    ({"x-message-ttl": 1}, {"x-message-ttl": Long(1)}),
    ({}, {"x-expires": 100_000}),
    ({}, {"x-max-length": 2**40}),
    ({}, {"x-max-length-bytes": 5}),
    ({}, {"x-max-priority": 5}),
    ({"x-max-priority": 4}, {"x-max-priority": 5}),
    ({}, {"x-overflow": "reject-publish"}),
    ({}, {"x-dead-letter-exchange": "x"}),
    ({"x-dead-letter-exchange": "x"}, {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "k"}),
    ({}, {"x-single-active-consumer": True}),
    ({"x-single-active-consumer": True}, {"x-single-active-consumer": False}),
    ({}, {"x-single-active-consumer": False}),
    ({}, {"x-queue-type": "classic"}),
    ({"x-queue-type": "classic"}, {}),
    ({}, QUORUM),
    ({}, {"x-queue-type": "odd"}),
    (QUORUM, {}),
    (QUORUM, {"x-queue-type": "classic"}),
    ({}, {"x-queue-mode": "lazy"}),
    ({}, {"x-unknown": 5}),
    ({}, {"x-message-ttl": "odd"}),
    (QUORUM, {**QUORUM, "x-delivery-limit": 5}),
    (QUORUM, {**QUORUM, "x-quorum-initial-group-size": 1}),
    (QUORUM, {**QUORUM, "x-queue-leader-locator": "client-local"}),
    ({**QUORUM, "x-delivery-limit": 5}, {**QUORUM, "x-delivery-limit": 6}),
    ({"x-message-ttl": 1, "x-max-length": 1}, {"x-message-ttl": 2, "x-max-length": 2}),
]


def named(arguments: dict[str, Any]) -> str:
    """Arguments in the name of a scenario."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "nothing"


SCENARIOS: dict[str, Script] = {
    **{f"declare {named(arguments)}": [queue(arguments=arguments)] for arguments in VALUES},
    **{
        f"declare {named(first)}, then {named(second)}": [queue(arguments=first), queue(arguments=second)]
        for first, second in AGAIN
    },
    "quorum: server-named": [queue("", QUORUM)],
    "quorum: exclusive": [queue(arguments=QUORUM, exclusive=True)],
    "quorum: transient": [queue(arguments=QUORUM, durable=False)],
    "quorum: auto-delete": [queue(arguments=QUORUM, auto_delete=True)],
    "quorum: everything wrong": [queue("", {**QUORUM, "x-max-priority": 1}, durable=False, exclusive=True)],
}
