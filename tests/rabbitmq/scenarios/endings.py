"""How messages end: expiry, length limits, dead letters and their history."""

from typing import Any

from leveret.wire import methods as m
from tests.rabbitmq.operations import bind, confirm, consume, exchange, get, nack, peek, publish, queue, reject
from tests.rabbitmq.script import Listen, Op, Script, Step

# fmt: off
TO_DEAD: dict[str, Any] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
DEAD = queue("dead")


def rejected(arguments: dict[str, Any], message: Op, *targets: str) -> Script:
    """Reject a message of a queue, and see what arrives in others that are declared meanwhile."""
    made: list[Step] = [queue(name) for name in targets]
    return [
        queue(arguments=arguments), message, Listen(0.1), *made, get(no_ack=False), reject(1), Listen(0.1),
        *(get(name) for name in targets),
    ]


SCENARIOS: dict[str, Script] = {
    "expiry: of the queue": [queue(arguments={"x-message-ttl": 100}), publish(), Listen(0.4), peek(), get()],
    "expiry: of the message": [queue(), publish(expiration="100"), Listen(0.4), get()],
    "expiry: the smaller of both": [
        queue(arguments={"x-message-ttl": 60_000}), publish(expiration="100"), Listen(0.4), get(),
    ],
    "expiry: zero without a consumer": [queue(arguments={"x-message-ttl": 0}), publish(), Listen(0.2), peek(), get()],
    "expiry: zero with a consumer": [
        queue(arguments={"x-message-ttl": 0}), consume(no_ack=True), publish(), Listen(0.2),
    ],
    "expiry: zero, rejected with requeue": [
        queue(arguments={"x-message-ttl": 0}), consume(), publish(), Listen(0.2), reject(1, requeue=True), Listen(),
        peek(),
    ],
    "expiry: what is held does not expire, what comes back does": [
        queue(arguments={"x-message-ttl": 200}), publish(), Listen(0.1), get(no_ack=False), Listen(0.4), nack(1),
        Listen(0.2), peek(), get(),
    ],
    "expiry: a dead letter": [
        DEAD, queue(arguments={**TO_DEAD, "x-message-ttl": 50}), publish(headers={"a": 1}), Listen(0.4), get("dead"),
    ],
    "expiry: a dead letter loses its expiration": [
        DEAD, queue(arguments=TO_DEAD), publish(expiration="50", delivery_mode=2, priority=3), Listen(0.4), get("dead"),
    ],
    "length: the oldest goes": [
        queue(arguments={"x-max-length": 2}), publish(body="a"), publish(body="b"), publish(body="c"), Listen(0.1),
        get(), get(), get(),
    ],
    "length: bytes of bodies": [
        queue(arguments={"x-max-length-bytes": 5}), publish(body="aaa"), publish(body="bbb"), publish(body="cc"),
        Listen(0.1), get(), get(), get(),
    ],
    "length: a body that is larger than the queue": [
        queue(arguments={"x-max-length-bytes": 5}), confirm(), publish(body="aaaaaaa"), Listen(), peek(),
    ],
    "length: zero": [queue(arguments={"x-max-length": 0}), confirm(), publish(), Listen(), peek()],
    "length: zero with a consumer": [queue(arguments={"x-max-length": 0}), consume(no_ack=True), publish(), Listen()],
    "length: what is held does not count": [
        queue(arguments={"x-max-length": 1}), publish(body="a"), Listen(0.1), get(no_ack=False), publish(body="b"),
        Listen(0.1), nack(1), Listen(0.1), peek(), get(), get(),
    ],
    "length: reject-publish": [
        queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"}), confirm(), publish(body="a"), Listen(),
        publish(body="b"), Listen(), get(), publish(body="c"), Listen(), get(),
    ],
    "length: reject-publish by bytes": [
        queue(arguments={"x-max-length-bytes": 5, "x-overflow": "reject-publish"}), confirm(), publish(body="aaa"),
        Listen(), publish(body="bbb"), Listen(), publish(body="ccc"), Listen(), peek(),
    ],
    "length: reject-publish-dlx": [
        DEAD, queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish-dlx", **TO_DEAD}), confirm(),
        publish(body="a"), Listen(), publish(body="b"), Listen(), get(), get("dead"),
    ],
    "length: a dead letter": [
        DEAD, queue(arguments={"x-max-length": 1, **TO_DEAD}), publish(body="a"), publish(body="b"), Listen(0.2),
        get("dead"), get(),
    ],
    "length: priorities": [
        queue(arguments={"x-max-length": 2, "x-max-priority": 5}), publish(body="a", priority=5),
        publish(body="b", priority=1), publish(body="c", priority=3), Listen(0.2), get(), get(), get(),
    ],
    "dead: rejected": rejected(TO_DEAD, publish(headers={"mine": 1}), "dead"),
    "dead: without headers": rejected(TO_DEAD, publish(), "dead"),
    "dead: nack without requeue": [
        DEAD, queue(arguments=TO_DEAD), publish(), Listen(0.1), get(no_ack=False), nack(1, requeue=False), Listen(0.1),
        get("dead"),
    ],
    "dead: by the original key": rejected({"x-dead-letter-exchange": "amq.fanout"}, publish(), "dead"),
    "dead: through an exchange": [
        exchange("dlx", "topic"), DEAD, bind("dlx", "dead", "orders.#"),
        queue("orders.new", {"x-dead-letter-exchange": "dlx"}),
        publish("orders.new"), Listen(0.1), get("orders.new", no_ack=False), reject(1), Listen(0.1), get("dead"),
    ],
    "dead: to an exchange that is not there": rejected({"x-dead-letter-exchange": "nothing"}, publish(), "dead"),
    "dead: CC is a key, too": rejected(
        {"x-dead-letter-exchange": ""}, publish("q", headers={"CC": ["dead"], "BCC": ["other"]}), "dead", "other"
    ),
    "dead: CC goes when the key is set": rejected(TO_DEAD, publish("q", headers={"CC": ["other"]}), "dead", "other"),
    "dead: purge and delete bury nobody": [
        DEAD, queue(arguments=TO_DEAD), publish(), Listen(0.1), Op(m.QueuePurge("q")), publish(), Listen(0.1),
        Op(m.QueueDelete("q")), Listen(0.1), peek("dead"),
    ],
    "dead: twice, by two reasons": [
        queue("last"), queue("dead", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "last"}),
        queue(arguments={**TO_DEAD, "x-message-ttl": 50}), publish(), Listen(0.3), get("dead", no_ack=False), reject(1),
        Listen(0.1), get("last"),
    ],
    "dead: round and round by rejection": [
        queue(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}), publish(), Listen(0.1),
        get(no_ack=False), reject(1), Listen(0.1), get(no_ack=False), reject(2), Listen(0.1), get(),
    ],
    "dead: round and round by expiry": [
        queue("one", {"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "two"}),
        queue("two", {"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "one"}),
        publish("one"), Listen(0.6), peek("one"), peek("two"),
    ],
    "dead: expiry, rejection, expiry": [
        queue("one", {"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "two"}),
        queue("two", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "one"}),
        publish("one"), Listen(0.3), get("two", no_ack=False), reject(1), Listen(0.3), get("two"),
    ],
    "dead: into itself by expiry": [
        queue(arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}),
        publish(), Listen(0.4), peek(),
    ],
    "dead: a history of the client's own": rejected(
        TO_DEAD, publish(headers={"x-death": [{"queue": "q", "reason": "rejected", "count": 5}]}), "dead"
    ),
    "dead: a history that is none": rejected(TO_DEAD, publish(headers={"x-death": "odd"}), "dead"),
    "dead: republished by a client": [
        DEAD, queue(arguments=TO_DEAD),
        publish(headers={
            "x-death": [{"queue": "q", "reason": "rejected", "count": 5, "exchange": "", "routing-keys": ["q"]}],
            "x-first-death-queue": "q", "x-first-death-reason": "rejected", "x-first-death-exchange": "",
        }),
        Listen(0.1), get(no_ack=False), reject(1), Listen(0.1), get("dead"),
    ],
}
