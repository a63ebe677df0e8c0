"""Consuming: tags, prefetch, acknowledgements, order, priorities, exclusive and single active consumers."""

from leveret.core.tables import Long
from leveret.wire import methods as m
from tests.rabbitmq.operations import ack, cancel, consume, get, nack, peek, publish, qos, queue, reject
from tests.rabbitmq.script import Burst, Drop, Listen, Op, Script, Step, on

# fmt: off
SAC = {"x-single-active-consumer": True}
ABC = [publish(body="a"), publish(body="b"), publish(body="c")]
FILLED: list[Step] = [queue(), *ABC, Listen(0.1)]
CLOSE = Op(m.ChannelClose(200, "", 0, 0))

SCENARIOS: dict[str, Script] = {
    "get until empty": [*FILLED, get(), get(), get(), get()],
    "get: acknowledge one by one": [*FILLED, get(no_ack=False), get(no_ack=False), ack(2), ack(1), Listen(0.1), peek()],
    "get of nothing": [get("nothing")],
    "consume nothing": [consume("nothing")],
    "consume: messages in order, tags from one": [*FILLED, consume()],
    "consume without acknowledgements": [*FILLED, consume(no_ack=True), Listen(), CLOSE, peek()],
    "no_ack takes tags": [*FILLED, get(), get(no_ack=False), ack(2), Listen(0.1), peek()],
    "acknowledge what was not to be": [*FILLED, get(), ack(1), Listen()],
    "a tag of the server": [queue(), consume(tag="")],
    "a tag twice": [queue(), consume(), consume()],
    "a tag on two channels": [queue(), consume(), *on("a2", consume())],
    "a tag again after cancel": [queue(), consume(), cancel(), consume()],
    "cancel what is not there": [cancel("nothing")],
    "cancel twice": [queue(), consume(), cancel(), cancel()],
    "cancel leaves what is held": [*FILLED, qos(1), consume(), Listen(), cancel(), peek(), ack(1), Listen(0.1), peek()],
    "prefetch bounds what is held": [*FILLED, qos(2), consume(), Listen(), ack(1), Listen(), ack(3, multiple=True)],
    "prefetch is of consumers that come": [
        *FILLED, consume(tag="all"), Listen(), qos(1), queue("r"), publish("r", "d"), publish("r", "e"),
        consume("r", "one"),
    ],
    "get is not bounded by prefetch": [*FILLED, qos(1), consume(), Listen(), get(no_ack=False)],
    "prefetch of a whole channel": [
        queue(), publish(body="a"), publish(body="b"), queue("r"), publish("r", "c"), publish("r", "d"), Listen(0.1),
        qos(2, shared=True), consume(tag="first"), Listen(), consume("r", "second"), Listen(), ack(1), Listen(), ack(2),
        Listen(), ack(4, multiple=True),
    ],
    "unknown tag": [queue(), ack(7), Listen()],
    "unknown tag: nack": [queue(), nack(7), Listen()],
    "unknown tag: reject": [queue(), reject(7), Listen()],
    "a tag of another channel": [*FILLED, get(no_ack=False), *on("a2", ack(1)), Listen()],
    "acknowledge twice": [*FILLED, get(no_ack=False), ack(1), ack(1), Listen()],
    "acknowledge zero, multiple: nothing held": [queue(), ack(0, multiple=True), Listen(), peek()],
    "acknowledge zero, multiple": [
        *FILLED, get(no_ack=False), get(no_ack=False), ack(0, multiple=True), Listen(0.1), CLOSE, peek(),
    ],
    "acknowledge zero": [*FILLED, get(no_ack=False), ack(0), Listen()],
    "acknowledge many with a tag that is not there": [
        *FILLED, get(no_ack=False), get(no_ack=False), ack(9, multiple=True), Listen(),
    ],
    "acknowledge many with a tag that was acknowledged": [
        *FILLED, get(no_ack=False), get(no_ack=False), ack(2), ack(2, multiple=True), Listen(),
    ],
    "nack: back to its place": [
        *FILLED, get(no_ack=False), get(no_ack=False), nack(1), Listen(0.1), get(), get(),
    ],
    "nack many: back in order": [
        *FILLED, get(no_ack=False), get(no_ack=False), nack(2, multiple=True), Listen(0.1), get(), get(), get(),
    ],
    "nack many with zero": [
        *FILLED, get(no_ack=False), get(no_ack=False), nack(0, multiple=True), Listen(0.1), get(), get(), get(),
    ],
    "nack without requeue": [*FILLED, get(no_ack=False), nack(1, requeue=False), Listen(0.1), peek(), get()],
    "reject with requeue": [*FILLED, get(no_ack=False), reject(1, requeue=True), Listen(0.1), get(), get()],
    "reject without requeue": [*FILLED, get(no_ack=False), reject(1), Listen(0.1), peek(), get()],
    "a closed channel gives back": [
        *FILLED, *on("a2", get(no_ack=False), get(no_ack=False), CLOSE), get(), get(), get(),
    ],
    "a lost connection gives back": [*FILLED, *on("b1", get(no_ack=False)), Drop("b"), Listen(0.3), get(), get()],
    "recover with requeue": [
        *FILLED, get(no_ack=False), get(no_ack=False), Op(m.BasicRecover(True)), get(), get(), get(),
    ],
    "recover to a consumer": [*FILLED, qos(2), consume(), Listen(), Op(m.BasicRecover(True)), Listen()],
    "recover without requeue": [Op(m.BasicRecover(False))],
    "recover-async with requeue": [*FILLED, get(no_ack=False), Op(m.BasicRecoverAsync(True)), Listen(0.1), get()],
    "recover-async without requeue": [Op(m.BasicRecoverAsync(False)), Listen()],
    "exclusive: alone": [queue(), consume(exclusive=True), *on("a2", consume())],
    "exclusive: not while others are there": [queue(), consume(), *on("a2", consume(exclusive=True))],
    "exclusive: get is allowed": [*FILLED, qos(1), consume(exclusive=True), Listen(), *on("a2", get())],
    "a queue in turn": [
        queue(), consume(tag="one"), consume(tag="two"), *ABC, publish(body="d"), Listen(),
    ],
    "a higher priority gets all": [
        queue(), consume(tag="low"), consume(tag="high", arguments={"x-priority": 5}), *ABC, Listen(),
    ],
    "a higher priority that is full": [
        queue(), consume(tag="low", arguments={"x-priority": -5}), qos(1), consume(tag="high"), *ABC, Listen(),
    ],
    "a priority that is none": [queue(), consume(arguments={"x-priority": "high"})],
    "a priority of 64 bits": [queue(), consume(arguments={"x-priority": Long(2**40)})],
    "an unknown consumer argument": [queue(), consume(arguments={"x-unknown": 5})],
    "a stream argument": [queue(), consume(arguments={"x-stream-offset": "first"})],
    "single active: the first gets all": [
        queue(arguments=SAC), consume(tag="one"), consume(tag="two"), *ABC, Listen(), cancel("one"), publish(body="d"),
    ],
    "single active: not exclusive": [queue(arguments=SAC), consume(exclusive=True)],
    "single active: get": [queue(arguments=SAC), publish(), Listen(0.1), get()],
    "single active: get beside a consumer": [queue(arguments=SAC), consume(), get()],
    "single active: what the first held comes to the second": [
        queue(arguments=SAC), *on("b1", qos(1), consume(tag="one")), *on("a1", qos(1), consume(tag="two")), *ABC,
        Listen(), Drop("b"), Listen(),
    ],
    "priorities: highest first, then in order": [
        queue(arguments={"x-max-priority": 5}), publish(body="a", priority=1), publish(body="b", priority=5),
        publish(body="c", priority=1), publish(body="d"), publish(body="e", priority=9), Listen(0.1),
        get(), get(), get(), get(), get(),
    ],
    "priorities do not count in a queue without": [
        queue(), publish(body="a", priority=1), publish(body="b", priority=5), Listen(0.1), get(), get(),
    ],
    "publish, then cancel": [queue(), consume(), Burst((*ABC, *ABC, *ABC, cancel())), Listen(), peek()],
    "publish, then get beside a consumer": [queue(), consume(), Burst((publish(), get())), Listen()],
    "publish, then count beside a consumer": [queue(), consume(), Burst((*ABC, peek())), Listen()],
    "publish, then purge beside a consumer": [
        queue(), consume(), Burst((*ABC, Op(m.QueuePurge("q")))), Listen(),
    ],
    "publish, then delete the queue of a consumer": [
        queue(), consume(), Burst((*ABC, Op(m.QueueDelete("q")))), Listen(),
    ],
    "acknowledge, then get beside a consumer": [
        queue(), qos(1), consume(), *ABC[:2], Listen(), Burst((ack(1), get())), Listen(),
    ],
    "no_local does nothing": [queue(), consume(no_local=True), publish()],
    "a consumer count": [queue(), consume(tag="one"), consume(tag="two"), *on("b1", peek())],
    "a cancelled consumer does not count": [*FILLED, qos(1), consume(), Listen(), cancel(), *on("b1", peek())],
    "a channel that is open already": [Op(m.ChannelOpen()), Op(m.ChannelOpen())],
    "a channel number over the limit": [*on("a3000", Op(m.ChannelOpen()))],
    "close a channel and open it again": [queue(), CLOSE, peek()],
}
