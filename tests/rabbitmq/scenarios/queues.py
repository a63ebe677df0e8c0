"""Queues: names, declaring again, exclusive ones, deleting, emptying."""

from leveret.wire import methods as m
from tests.rabbitmq.operations import ack, bind, cancel, consume, delete, exchange, get, peek, publish, queue
from tests.rabbitmq.script import Drop, Listen, Op, Script, on

# fmt: off
SCENARIOS: dict[str, Script] = {
    "a new queue is empty": [queue(), queue(), peek()],
    "a server-named queue": [queue("", exclusive=True)],
    "an empty name is the queue declared last": [
        queue(), publish(), Listen(), get(""), consume(""), Op(m.QueuePurge("")), delete(""),
    ],
    "an empty name without a queue: get": [get("")],
    "an empty name without a queue: consume": [consume("")],
    "an empty name without a queue: bind": [bind("amq.direct", "")],
    "an empty name without a queue: delete": [delete("")],
    "an empty name without a queue: purge": [Op(m.QueuePurge(""))],
    "an empty name without a queue: passive": [peek("")],
    "both names empty binds with the queue's name": [
        queue(), bind("amq.direct", "", ""), publish("q", source="amq.direct"), Listen(), get(),
    ],
    "an empty queue name with a key keeps the key": [
        queue(), bind("amq.direct", "", "k"), publish("k", source="amq.direct"), Listen(), get(),
    ],
    "a passive declaration ignores everything but the name": [
        queue(), Op(m.QueueDeclare("q", passive=True, auto_delete=True, arguments={"x-message-ttl": "odd"})),
    ],
    "a passive declaration of nothing": [peek()],
    "a line break in a name is not kept": [queue("q\r\n"), peek("q")],
    "redeclare: durable": [queue(durable=False, exclusive=True), queue(durable=True, exclusive=True)],
    "redeclare: transient": [queue(), queue(durable=False)],
    "redeclare: auto-delete": [queue(), queue(auto_delete=True)],
    "redeclare: not auto-delete": [queue(auto_delete=True), queue()],
    "redeclare: exclusive": [queue(), queue(exclusive=True)],
    "redeclare: not exclusive": [queue(exclusive=True), queue()],
    "redeclare: several differences": [
        queue(), queue(durable=False, auto_delete=True, arguments={"x-max-length": 5, "x-message-ttl": 5}),
    ],
    "reserved prefix": [queue("amq.mine")],
    "reserved prefix, passive": [peek("amq.mine")],
    "exclusive: passive by another connection": [queue(exclusive=True), *on("b1", peek())],
    "exclusive: get by another connection": [queue(exclusive=True), *on("b1", get())],
    "exclusive: consume by another connection": [queue(exclusive=True), *on("b1", consume())],
    "exclusive: purge by another connection": [queue(exclusive=True), *on("b1", Op(m.QueuePurge("q")))],
    "exclusive: delete by another connection": [queue(exclusive=True), *on("b1", delete())],
    "exclusive: bind by another connection": [queue(exclusive=True), *on("b1", bind("amq.direct", "q", "k"))],
    "exclusive: declare by another connection": [queue(exclusive=True), *on("b1", queue(exclusive=True))],
    "exclusive: another channel may": [queue(exclusive=True), *on("a2", peek(), get())],
    "exclusive: another connection may publish": [
        queue(exclusive=True), *on("b1", publish()), Listen(), get(),
    ],
    "exclusive: gone with its connection": [
        queue(exclusive=True), *on("b1", peek()), Drop("a"), Listen(), Listen(), *on("b1", peek()),
    ],
    "auto-delete: waits for a first consumer": [queue(auto_delete=True), *on("b1", peek())],
    "auto-delete: goes with the last consumer": [
        queue(auto_delete=True), consume(tag="one"), consume(tag="two"), cancel("one"), peek(), cancel("two"), peek(),
    ],
    "auto-delete: goes with the channel of its consumer": [
        queue(auto_delete=True), *on("a2", consume(), Op(m.ChannelClose(200, "", 0, 0))), peek(),
    ],
    "auto-delete: get is no consumer": [queue(auto_delete=True), get(), peek()],
    "delete gives the number of ready messages": [
        queue(), publish(), publish(), publish(), Listen(), get(no_ack=False), delete(),
    ],
    "delete of nothing": [delete("nothing")],
    "delete of nothing with conditions": [delete("nothing", if_unused=True, if_empty=True)],
    "delete if unused": [queue(), consume(), delete(if_unused=True), peek()],
    "delete if empty": [queue(), publish(), Listen(), delete(if_empty=True), peek()],
    "delete if empty: unacknowledged messages do not count": [
        queue(), publish(), Listen(), get(no_ack=False), delete(if_empty=True),
    ],
    "delete tells its consumers": [queue(), consume(), *on("b1", delete()), Listen(), cancel()],
    "delete tells the channel that deletes, too": [queue(), consume(), delete(), Listen()],
    "acknowledging what a deleted queue gave": [
        queue(), publish(), Listen(), get(no_ack=False), *on("b1", delete()), Listen(), ack(1), Listen(), peek(),
    ],
    "purge leaves what is delivered": [
        queue(), publish(), publish(), Listen(), get(no_ack=False), Op(m.QueuePurge("q")), peek(),
    ],
    "purge of nothing": [Op(m.QueuePurge("nothing"))],
    "bind of nothing": [bind("amq.direct", "nothing", "k")],
    "bind to nothing": [queue(), bind("nothing", "q", "k")],
    "bind to the default exchange": [queue(), bind("", "q", "k")],
    "unbind from the default exchange": [queue(), Op(m.QueueUnbind("q", "", "k"))],
    "unbind what is not bound": [queue(), Op(m.QueueUnbind("q", "amq.direct", "k"))],
    "unbind a queue that is not there": [Op(m.QueueUnbind("nothing", "amq.direct", "k"))],
    "unbind from an exchange that is not there": [queue(), Op(m.QueueUnbind("q", "nothing", "k"))],
    "an expiring queue goes when nobody uses it": [
        queue(arguments={"x-expires": 300}), Listen(0.15), queue(arguments={"x-expires": 300}), Listen(0.2),
        queue(arguments={"x-expires": 300}), Listen(0.8), peek(),
    ],
    "an expiring queue lives while it has a consumer": [
        queue(arguments={"x-expires": 300}), consume(), Listen(0.6), peek(),
    ],
    "deleting an exchange leaves its queues": [
        exchange(), queue(), bind(), Op(m.ExchangeDelete("x")), peek(),
    ],
}
