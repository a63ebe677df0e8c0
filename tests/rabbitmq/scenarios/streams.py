"""Streams: what they refuse and in which words, where a consumer starts, and what settling does."""

from typing import Any

from leveret.core.tables import Long, Timestamp
from leveret.wire import methods as m
from tests.rabbitmq.operations import (
    ack,
    bind,
    cancel,
    confirm,
    consume,
    delete,
    exchange,
    get,
    nack,
    peek,
    publish,
    qos,
    queue,
    reject,
)
from tests.rabbitmq.scenarios.arguments import named
from tests.rabbitmq.script import Listen, Op, Script, Step, on

# fmt: off
STREAM: dict[str, Any] = {"x-queue-type": "stream"}
WRITTEN = Listen()  # what is published before and after it is not written together
EMPTY: list[Step] = [queue(arguments=STREAM), qos(10)]
FILLED: list[Step] = [
    queue(arguments=STREAM), publish(body="a"), WRITTEN, publish(body="b"), WRITTEN, publish(body="c"), WRITTEN,
    qos(10),
]
LONG_AGO, LONG_AFTER = Timestamp(1_000_000_000), Timestamp(4_000_000_000)

# Each is declared on a new stream.
VALUES: list[dict[str, Any]] = [
    *({"x-max-age": value} for value in (
        "1D", "1Y", "30s", "0D", "1d", "1", "odd", "1h30m", "1.5h", "99999999999D", 7, True,
    )),
    *({"x-max-length-bytes": value} for value in (0, 5_000_000, 2**40, -1, "5", True)),
    *({"x-stream-max-segment-size-bytes": value} for value in (
        500, 1_024, 2**20, 3_000_000_000, 3_000_000_001, 0, -1, "5",
    )),
    *({"x-initial-cluster-size": value} for value in (1, 3, 0, -1, "1")),
    *({"x-queue-leader-locator": value} for value in ("client-local", "least-leaders", "odd", 5)),
    {"x-max-length": 5},
    {"x-message-ttl": 1_000},
    {"x-message-ttl": -1},
    {"x-expires": 1_000},
    {"x-dead-letter-exchange": "x"},
    {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "k"},
    {"x-dead-letter-routing-key": "k"},
    {"x-dead-letter-strategy": "at-least-once"},
    {"x-max-priority": 5},
    {"x-overflow": "drop-head"},
    {"x-queue-mode": "lazy"},
    {"x-queue-version": 2},
    {"x-delivery-limit": 5},
    {"x-quorum-initial-group-size": 1},
    {"x-single-active-consumer": True},
    {"x-unknown": 5},
    {"x-max-age": "1d", "x-max-length": 5},
    {"x-max-length": 5, "x-message-ttl": 5},
]

# Each stream is declared with the first and then with the second.
AGAIN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({}, {"x-max-age": "1D"}),
    ({"x-max-age": "1D"}, {}),
    ({"x-max-age": "1D"}, {"x-max-age": "24h"}),
    ({}, {"x-max-length-bytes": 5_000_000}),
    ({"x-max-length-bytes": 5_000_000}, {"x-max-length-bytes": Long(5_000_000)}),
    ({}, {"x-stream-max-segment-size-bytes": 2**20}),
    ({}, {"x-initial-cluster-size": 1}),
    ({}, {"x-queue-leader-locator": "client-local"}),
    ({}, {"x-unknown": 1}),
]

# Where a consumer asks to start in a stream of three records that were written one by one.
PLACES: list[Any] = [
    "first", "last", "next", 0, 1, 2, 3, 1_000, -1, LONG_AGO, LONG_AFTER, "1h", "1D", "1Y", "1M", "60m", "3600s", "0s",
    "odd", "1", "1d", "1h30m", "1.5h", b"first", b"odd", True,
]

DECLARING: dict[str, Script] = {
    "declare": [queue(arguments=STREAM), peek()],
    "declare, not durable": [queue(arguments=STREAM, durable=False)],
    "declare, exclusive": [queue(arguments=STREAM, exclusive=True)],
    "declare, auto-delete": [queue(arguments=STREAM, auto_delete=True)],
    "declare, everything wrong": [queue(arguments=STREAM, durable=False, exclusive=True, auto_delete=True)],
    "declare, a lifetime and an argument wrong": [queue(arguments={**STREAM, "x-max-age": "1d"}, exclusive=True)],
    "declare, without a name": [queue("", arguments=STREAM)],
    "declare again as another type": [queue(arguments=STREAM), queue(), queue(arguments={"x-queue-type": "quorum"})],
    "declare a queue again as a stream": [queue(), queue(arguments=STREAM)],
    **{f"declare {named(values)}": [queue(arguments={**STREAM, **values})] for values in VALUES},
    **{
        f"declare {named(first)}, then {named(second)}": [
            queue(arguments={**STREAM, **first}), queue(arguments={**STREAM, **second}),
        ]
        for first, second in AGAIN
    },
}

CONSUMING: dict[str, Script] = {
    "consume without prefetch": [queue(arguments=STREAM), consume()],
    "consume with automatic acknowledgement": [*EMPTY, consume(no_ack=True)],
    "consume with neither": [queue(arguments=STREAM), consume(no_ack=True)],
    "consume with a prefetch of the whole channel": [queue(arguments=STREAM), qos(10, shared=True), consume()],
    "consume with both prefetches": [*EMPTY, qos(10, shared=True), consume()],
    "consume with a prefetch of the whole channel and automatic acknowledgement": [
        queue(arguments=STREAM), qos(10, shared=True), consume(no_ack=True),
    ],
    "prefetch of the whole channel, later": [*EMPTY, consume(), qos(10, shared=True), publish(), Listen()],
    **{
        f"consume from {value!r}": [*FILLED, consume(arguments={"x-stream-offset": value}), Listen()]
        for value in PLACES
    },
    "consume without a place": [*FILLED, consume(), publish(body="d"), Listen()],
    "consume from next, then publish": [
        *FILLED, consume(arguments={"x-stream-offset": "next"}), publish(body="d"), Listen(),
    ],
    "consume from an offset to come, then publish": [
        *FILLED, consume(arguments={"x-stream-offset": 4}), publish(body="d"), publish(body="e"), Listen(),
    ],
    "consume an empty stream from last, then publish": [
        *EMPTY, consume(arguments={"x-stream-offset": "last"}), publish(), Listen(),
    ],
    "consume, exclusive": [*EMPTY, consume(exclusive=True), *on("a2", qos(10), consume())],
    "consume, exclusive, beside another": [*EMPTY, consume(), *on("a2", qos(10), consume(exclusive=True))],
    "consume with a priority": [*EMPTY, consume(arguments={"x-priority": 5})],
    "consume with a priority and a place": [*EMPTY, consume(arguments={"x-priority": 5, "x-stream-offset": "1d"})],
    "consume with an unknown argument": [*EMPTY, consume(arguments={"x-unknown": 5})],
    "consume twice": [
        *FILLED, consume(tag="one", arguments={"x-stream-offset": "first"}), Listen(),
        *on("b1", qos(10), consume(tag="two", arguments={"x-stream-offset": "first"})), Listen(),
    ],
    "consume with a tag that is in use": [*EMPTY, consume(), consume()],
    "cancel": [*FILLED, consume(arguments={"x-stream-offset": "first"}), Listen(), cancel(), publish(), Listen()],
    "delete while it is consumed": [*EMPTY, consume(), *on("a2", delete()), Listen()],
}

CREDIT: list[Step] = [*FILLED, qos(1), consume(arguments={"x-stream-offset": "first"}), Listen()]

SETTLING: dict[str, Script] = {
    "ack": [*CREDIT, ack(1), Listen(), ack(2), Listen()],
    "ack several": [
        *FILLED, qos(2), consume(arguments={"x-stream-offset": "first"}), Listen(), ack(2, multiple=True), Listen(),
    ],
    "ack out of order": [
        *FILLED, qos(2), consume(arguments={"x-stream-offset": "first"}), Listen(), ack(2), Listen(),
    ],
    "ack twice": [*CREDIT, ack(1), Listen(), ack(1), Listen()],
    "ack of nothing": [*CREDIT, ack(7)],
    "nack": [*CREDIT, nack(1), Listen()],
    "reject": [*CREDIT, reject(1), Listen()],
    "settled after cancel": [*CREDIT, cancel(), ack(1), Listen(), consume(), publish(body="d"), Listen()],
    "what was not acknowledged": [
        *FILLED, consume(arguments={"x-stream-offset": "first"}), Listen(), cancel(),
        consume(arguments={"x-stream-offset": "first"}), Listen(),
    ],
    "in a transaction": [
        queue(arguments=STREAM), Op(m.TxSelect()), publish(body="a"), Op(m.TxCommit()), publish(body="b"),
        Op(m.TxRollback()), Listen(), qos(10), consume(arguments={"x-stream-offset": "first"}), Listen(),
        ack(1), Op(m.TxCommit()),
    ],
}

PUBLISHING: dict[str, Script] = {
    "confirms": [queue(arguments=STREAM), confirm(), publish(), publish(), Listen()],
    "mandatory": [queue(arguments=STREAM), confirm(), publish(mandatory=True), Listen()],
    "properties": [
        *EMPTY, consume(), publish(
            content_type="text/plain", content_encoding="utf-8", headers={"a": 1, "x-stream-offset": 77},
            delivery_mode=1, priority=5, correlation_id="c", reply_to="r", expiration="60000", message_id="m",
            timestamp=Timestamp(1_700_000_000), type="t", user_id="guest", app_id="app",
        ), Listen(),
    ],
    "an expired message": [*EMPTY, publish(expiration="1"), Listen(), consume(arguments={"x-stream-offset": "first"})],
    "CC and BCC": [
        queue("other"), *EMPTY, consume(), publish(headers={"CC": ["other"], "BCC": ["q"]}), Listen(), get("other"),
    ],
    "through an exchange": [exchange(type="topic"), *EMPTY, bind(key="a.*"), consume(), publish("a.b", source="x"),
                            Listen()],
    "a dead letter": [
        *EMPTY, queue("dying", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}), consume(),
        publish("dying"), get("dying", no_ack=False), reject(1), Listen(),
    ],
    "an empty body": [*EMPTY, consume(), publish(body=""), Listen()],
}

REFUSING: dict[str, Script] = {
    "get": [*FILLED, get()],
    "purge": [*FILLED, Op(m.QueuePurge("q"))],
    "delete": [*FILLED, delete()],
    "delete if unused": [*FILLED, delete(if_unused=True)],
    "delete if empty": [*FILLED, delete(if_empty=True)],
    "delete if both, unused and empty": [*EMPTY, delete(if_unused=True, if_empty=True)],
    "delete if unused, while it is used": [*EMPTY, consume(), *on("a2", delete(if_unused=True))],
    "declare passively": [*FILLED, peek()],
}

SCENARIOS: dict[str, Script] = {**DECLARING, **CONSUMING, **SETTLING, **PUBLISHING, **REFUSING}
