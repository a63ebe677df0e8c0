"""Quorum queues: what they refuse, and how deliveries are counted."""

from typing import Any

from leveret.wire import methods as m
from tests.rabbitmq.operations import ack, consume, delete, get, nack, peek, publish, qos, queue, reject
from tests.rabbitmq.script import Drop, Listen, Op, Script, Step, on

# fmt: off
QUORUM: dict[str, Any] = {"x-queue-type": "quorum"}
SETTLED = 0.4  # its log takes a while
FILLED: list[Step] = [queue(arguments=QUORUM), publish(body="a"), publish(body="b"), Listen(SETTLED)]
LIMITED: dict[str, Any] = {
    **QUORUM, "x-delivery-limit": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
}

SCENARIOS: dict[str, Script] = {
    "get": [*FILLED, get(), get(), get()],
    "consume": [*FILLED, qos(1), consume(), Listen(SETTLED), ack(1), Listen(SETTLED)],
    "delete if unused": [queue(arguments=QUORUM), delete(if_unused=True)],
    "delete if empty": [queue(arguments=QUORUM), delete(if_empty=True)],
    "delete": [*FILLED, delete()],
    "purge": [*FILLED, Op(m.QueuePurge("q")), peek()],
    "prefetch of a whole channel": [queue(arguments=QUORUM), qos(5, shared=True), consume()],
    "what comes back tells how often": [
        *FILLED, get(no_ack=False), reject(1, requeue=True), Listen(SETTLED), get(no_ack=False), nack(2),
        Listen(SETTLED), get(no_ack=False), get(no_ack=False),
    ],
    "returned messages come first, in the order of their return": [
        *FILLED, publish(body="c"), Listen(SETTLED), get(no_ack=False), get(no_ack=False), nack(2), Listen(SETTLED),
        nack(1), Listen(SETTLED), get(), get(), get(),
    ],
    "the delivery limit": [
        queue("dead"), queue(arguments=LIMITED), publish(), Listen(SETTLED), get(no_ack=False), reject(1, requeue=True),
        Listen(SETTLED), get(no_ack=False), reject(2, requeue=True), Listen(SETTLED), get(), get("dead"),
    ],
    "the delivery limit and lost connections": [
        queue("dead"), queue(arguments=LIMITED), publish(), Listen(SETTLED), *on("b1", get(no_ack=False)), Drop("b"),
        Listen(SETTLED), *on("c1", get(no_ack=False)), Drop("c"), Listen(SETTLED), get(), get("dead"),
    ],
    "single active consumer and get": [
        queue(arguments={**QUORUM, "x-single-active-consumer": True}), get(),
    ],
    "exclusive consumer": [queue(arguments=QUORUM), consume(exclusive=True), *on("a2", consume())],
    "exclusive consumer beside another": [
        queue(arguments=QUORUM), consume(), *on("a2", consume(exclusive=True)),
    ],
    "consumer priority": [
        queue(arguments=QUORUM), consume(tag="low"), consume(tag="high", arguments={"x-priority": 5}), publish(),
        Listen(SETTLED),
    ],
    "a dead letter": [
        queue("dead"), queue(arguments=LIMITED), publish(headers={"a": 1}), Listen(SETTLED), get(no_ack=False),
        reject(1), Listen(SETTLED), get("dead"),
    ],
}
