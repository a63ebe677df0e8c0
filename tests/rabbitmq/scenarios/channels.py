"""Channels: what happens when transactions, recovery, prefetch, consumers and the end of queues meet."""

from leveret.wire import methods as m
from tests.rabbitmq.operations import ack, cancel, consume, delete, get, nack, peek, publish, qos, queue, reject
from tests.rabbitmq.script import Drop, Listen, Op, Script, Step, on

# fmt: off
SELECT, COMMIT, ROLLBACK = Op(m.TxSelect()), Op(m.TxCommit()), Op(m.TxRollback())
RECOVER = Op(m.BasicRecover(True))
CLOSE = Op(m.ChannelClose(200, "", 0, 0))
SAC = {"x-single-active-consumer": True}
AB = [publish(body="a"), publish(body="b")]
HELD: list[Step] = [queue(), *AB, Listen(0.1), SELECT, get(no_ack=False), get(no_ack=False), ack(1)]
BOTH: list[Step] = [queue(), queue("r"), publish(body="a"), publish("r", "b"), Listen(0.1), qos(1, shared=True)]

SCENARIOS: dict[str, Script] = {
    "recover leaves what a transaction settles": [*HELD, RECOVER, COMMIT, Listen(0.1), peek(), get()],
    "recover after a rollback": [*HELD, RECOVER, ROLLBACK, RECOVER, Listen(0.1), peek(), get(), get()],
    "a transaction settles twice": [*HELD, ack(1), Listen()],
    "a transaction settles many twice": [*HELD, ack(2, multiple=True), ack(2, multiple=True), Listen()],
    "a transaction settles many after one": [*HELD, ack(2, multiple=True), COMMIT, Listen(0.1), RECOVER, peek()],
    "a transaction settles all with zero": [*HELD, ack(0, multiple=True), COMMIT, RECOVER, Listen(0.1), peek()],
    "a channel closes before its commit": [*HELD, CLOSE, Listen(0.1), peek(), get(), get()],
    "a transaction of a queue that goes": [*HELD, *on("a2", delete()), COMMIT, Listen()],
    "a mandatory message of a queue that goes before the commit": [
        queue(), SELECT, publish(mandatory=True), *on("a2", delete()), COMMIT, Listen(),
    ],
    "prefetch in a transaction": [
        queue(), *AB, Listen(0.1), SELECT, qos(1), consume(), Listen(), ack(1), Listen(), COMMIT, Listen(),
    ],
    "prefetch in a transaction: nack": [
        queue(), *AB, Listen(0.1), SELECT, qos(1), consume(), Listen(), nack(1), Listen(), COMMIT, Listen(),
    ],
    "publish and settle in one": [*HELD, publish(body="c"), COMMIT, Listen(0.1), peek(), get()],
    "select while something is held": [
        queue(), *AB, Listen(0.1), get(no_ack=False), SELECT, ack(1), COMMIT, RECOVER, peek(),
    ],
    "shared prefetch: what is got does not count": [
        queue(), *AB, publish(body="c"), Listen(0.1), get(no_ack=False), qos(1, shared=True), consume(), Listen(),
        ack(1), Listen(), ack(2), Listen(),
    ],
    "shared prefetch: of a queue that goes": [
        *BOTH, consume(), Listen(), consume("r", "d"), Listen(), *on("a2", delete()), Listen(), ack(1), Listen(),
    ],
    "shared prefetch: lifted": [*BOTH, consume(), Listen(), consume("r", "d"), Listen(), qos(0, shared=True), Listen()],
    "shared prefetch: raised": [*BOTH, consume(), Listen(), consume("r", "d"), Listen(), qos(2, shared=True), Listen()],
    "shared prefetch: recover": [*BOTH, consume(), Listen(), RECOVER, Listen()],
    "shared prefetch: nack": [*BOTH, consume(), Listen(), nack(1), Listen()],
    "shared prefetch: reject": [*BOTH, publish(body="c"), consume(), Listen(), reject(1), Listen()],
    "shared prefetch: cancel keeps what is held": [
        *BOTH, consume(), Listen(), cancel(), consume("r", "d"), Listen(), ack(1), Listen(),
    ],
    "shared prefetch: of a consumer without acknowledgements": [
        queue(), queue("r"), qos(1, shared=True), consume(tag="acks"), consume("r", "all", no_ack=True),
        publish("r", "1"), publish("r", "2"), Listen(), publish(body="a"), Listen(), publish("r", "3"), Listen(),
        peek("r"), ack(3), Listen(), peek("r"),
    ],
    "both kinds of prefetch": [
        queue(), *AB, publish(body="c"), Listen(0.1), qos(2, shared=True), qos(1), consume(), Listen(), ack(1),
        Listen(),
    ],
    "single active: a higher priority that comes later": [
        queue(arguments=SAC), consume(tag="one"), consume(tag="two", arguments={"x-priority": 5}), *AB, Listen(),
    ],
    "single active: the highest priority is next": [
        queue(arguments=SAC), consume(tag="one"), consume(tag="two"), consume(tag="three", arguments={"x-priority": 5}),
        cancel("one"), *AB, Listen(),
    ],
    "single active: the oldest is next": [
        queue(arguments=SAC), consume(tag="one"), consume(tag="two"), consume(tag="three"), cancel("one"), *AB,
        Listen(), cancel("two"), publish(body="c"), Listen(),
    ],
    "single active: cancelled while it holds something": [
        queue(arguments=SAC), qos(1), consume(tag="one"), consume(tag="two"), *AB, Listen(), cancel("one"), Listen(),
        ack(1), Listen(),
    ],
    "auto-delete: not without a consumer": [queue(auto_delete=True), publish(), Listen(0.1), get(), CLOSE, peek()],
    "auto-delete: with the last consumer": [
        queue(auto_delete=True), consume(tag="one"), consume(tag="two"), cancel("one"), peek(), cancel("two"), peek(),
    ],
    "auto-delete: with its channel": [queue(auto_delete=True), *on("a2", consume(), CLOSE), Listen(0.2), peek()],
    "auto-delete: with its connection": [queue(auto_delete=True), *on("b1", consume()), Drop("b"), Listen(0.3), peek()],
    "auto-delete: what was held is lost": [
        queue(auto_delete=True), publish(), consume(), Listen(), cancel(), ack(1), Listen(), peek(),
    ],
    "a queue goes under its consumers": [
        queue(), consume(), *on("a2", consume(tag="d")), *on("b1", consume(tag="e")), *on("c1", delete()), Listen(),
    ],
    "cancel a consumer whose queue has gone": [queue(), consume(), *on("b1", delete()), Listen(), cancel()],
    "a tag again after its queue has gone": [
        queue(), consume(), *on("b1", delete()), Listen(), queue(), consume(), publish(), Listen(),
    ],
    "acknowledge what was of a queue that has gone": [
        queue(), publish(), Listen(0.1), get(no_ack=False), *on("b1", delete()), Listen(0.1), ack(1), Listen(), ack(1),
        Listen(),
    ],
    "give back to a queue that has gone": [
        queue(), publish(), Listen(0.1), get(no_ack=False), *on("b1", delete()), Listen(0.1), nack(1), Listen(),
        queue(),
    ],
    "recover what is of a queue that has gone": [
        queue(), publish(), Listen(0.1), get(no_ack=False), *on("b1", delete()), Listen(0.1), RECOVER, ack(1), Listen(),
    ],
    "purge leaves what is held": [
        queue(), *AB, Listen(0.1), get(no_ack=False), Op(m.QueuePurge("q")), nack(1), Listen(0.1), peek(), get(),
    ],
    "flow goes on": [Op(m.ChannelFlow(True))],
    "flow that nobody asked for": [Op(m.ChannelFlowOk(True)), Listen()],
    "cancel-ok that nobody asked for": [Op(m.BasicCancelOk("c")), Listen()],
    "cancel without an answer": [queue(), consume(), Op(m.BasicCancel("c", True)), Listen(0.1), peek()],
    "consume without an answer": [queue(), publish(), Op(m.BasicConsume("q", "c", nowait=True)), Listen()],
    "close a channel that holds something, and open it again": [
        queue(), *AB, Listen(0.1), get(no_ack=False), CLOSE, get(no_ack=False), get(no_ack=False), ack(2), Listen(0.1),
        peek(),
    ],
    "a consumer's channel closes: the others get it": [
        queue(), *on("a2", qos(1), consume(tag="one")), *AB, Listen(), qos(1), consume(tag="two"), Listen(),
        *on("a2", CLOSE), ack(1), Listen(),
    ],
    "nack to the same consumer": [queue(), qos(1), consume(), *AB, Listen(), nack(1), Listen(), nack(2), Listen()],
    "redelivered only what was delivered": [
        queue(), *AB, publish(body="c"), Listen(0.1), qos(2), consume(), Listen(), CLOSE, get(), get(), get(),
    ],
    "priorities and prefetch: the next lower when full": [
        queue(), qos(1), consume(tag="high", arguments={"x-priority": 2}),
        consume(tag="middle", arguments={"x-priority": 1}), consume(tag="low"), *AB, publish(body="c"),
        publish(body="d"), Listen(), ack(1), Listen(), ack(2), Listen(),
    ],
    "an exclusive queue goes with its connection": [
        *on("b1", queue(exclusive=True, durable=False), consume()), Drop("b"), Listen(0.3), queue(),
    ],
    "an exclusive queue stays when its channel closes": [
        *on("b1", queue(exclusive=True, durable=False), consume(), CLOSE), *on("b2", peek()),
    ],
}
