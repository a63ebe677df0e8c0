"""Publishing: refusals, returns, confirms, transactions, and what becomes of properties."""

from typing import Any

from leveret.wire import methods as m
from tests.rabbitmq.operations import (
    ack,
    bind,
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
)
from tests.rabbitmq.script import Listen, Op, Script, on

# fmt: off
REPLY_TO = "amq.rabbitmq.reply-to"
FULL: dict[str, Any] = {"x-max-length": 1, "x-overflow": "reject-publish"}
EVERY_PROPERTY: dict[str, Any] = {
    "content_type": "text/plain", "content_encoding": "utf-8", "headers": {"a": 1, "b": [True, None, "c", 1.5]},
    "delivery_mode": 2, "priority": 3, "correlation_id": "c", "reply_to": "r", "message_id": "i", "timestamp": 5,
    "type": "t", "user_id": "guest", "app_id": "p", "cluster_id": "u",
}

SCENARIOS: dict[str, Script] = {
    "every property arrives as it was sent": [queue(), publish(**EVERY_PROPERTY), Listen(0.1), get()],
    "an empty body": [queue(), publish(body=""), Listen(0.1), get()],
    "a body of several frames": [queue(), publish(body="m" * 300_000), Listen(0.1), get()],
    "publish to nothing": [publish(source="nothing"), Listen()],
    "immediate": [Op(m.BasicPublish("", "q", immediate=True), body=b"m"), Listen()],
    "mandatory without a route": [publish("nothing", mandatory=True), Listen()],
    "mandatory without a route, confirmed": [confirm(), publish("nothing", mandatory=True), Listen()],
    "no route, confirmed": [confirm(), publish("nothing"), Listen()],
    "confirms count from one": [confirm(), queue(), publish(), publish(), publish(), Listen()],
    "confirm.select twice goes on counting": [confirm(), queue(), publish(), Listen(), confirm(), publish(), Listen()],
    "confirms begin where they are asked for": [queue(), publish(), confirm(), publish(), Listen()],
    "a full queue that rejects": [queue(arguments=FULL), confirm(), publish(), publish(), Listen(), peek()],
    "a full queue among others": [
        queue("full", FULL), queue(), bind("amq.fanout", "full"), bind("amq.fanout", "q"), confirm(),
        publish(source="amq.fanout"), publish(source="amq.fanout"), Listen(), peek("full"), peek(),
    ],
    "a full queue that rejects, without confirms": [
        queue(arguments=FULL), publish(), publish(mandatory=True), Listen(), peek(),
    ],
    "a negative expiration": [queue(), publish(expiration="-1"), Listen()],
    "an expiration that is no number": [queue(), publish(expiration="abc"), Listen()],
    "an expiration with a fraction": [queue(), publish(expiration="1.5"), Listen()],
    "an empty expiration": [queue(), publish(expiration=""), Listen()],
    "an expiration that is too large": [queue(), publish(expiration="315360000001"), Listen()],
    "an expiration with spaces": [queue(), publish(expiration=" 5000"), Listen()],
    "a bad expiration without a route": [publish("nothing", expiration="abc"), Listen()],
    "somebody else's user id": [queue(), publish(user_id="other"), Listen()],
    "CC and BCC": [
        queue("one"), queue("two"), queue("three"),
        publish("one", headers={"CC": ["two", "one"], "BCC": ["three"]}), Listen(0.1),
        get("one"), get("one"), get("two"), get("three"),
    ],
    "CC that is no list": [queue(), publish(headers={"CC": "q"}), Listen()],
    "BCC that is no list": [queue(), publish(headers={"BCC": 5}), Listen()],
    "CC of numbers": [queue(), publish(headers={"CC": [5]}), Listen()],
    "CC alone makes a route": [queue(), confirm(), publish("nothing", mandatory=True, headers={"CC": ["q"]}), Listen()],
    "BCC alone, returned": [publish("nothing", mandatory=True, headers={"BCC": ["nobody"]}), Listen()],
    "x-death from a client": [queue(), publish(headers={"x-death": [{"count": 5}]}), Listen(0.1), get()],
    "confirm on a transactional channel": [Op(m.TxSelect()), confirm()],
    "transactions on a confirming channel": [confirm(), Op(m.TxSelect())],
    "tx.select twice": [Op(m.TxSelect()), Op(m.TxSelect())],
    "commit without transactions": [Op(m.TxCommit())],
    "rollback without transactions": [Op(m.TxRollback())],
    "a commit publishes": [
        queue(), Op(m.TxSelect()), publish(), Listen(0.1), peek(), Op(m.TxCommit()), Listen(0.1), peek(),
    ],
    "a rollback does not": [
        queue(), Op(m.TxSelect()), publish(), Op(m.TxRollback()), Op(m.TxCommit()), Listen(0.1), peek(),
    ],
    "a commit acknowledges": [
        queue(), publish(), Listen(0.1), Op(m.TxSelect()), get(no_ack=False), ack(1), Op(m.TxCommit()),
        Op(m.BasicRecover(True)), peek(),
    ],
    "a rollback forgets acknowledgements": [
        queue(), publish(), Listen(0.1), Op(m.TxSelect()), get(no_ack=False), ack(1), Op(m.TxRollback()), ack(1),
        Op(m.TxCommit()), Listen(0.1), peek(),
    ],
    "an acknowledgement in a transaction is checked at once": [Op(m.TxSelect()), ack(7), Listen()],
    "a rejection in a transaction": [
        queue(), publish(), Listen(0.1), Op(m.TxSelect()), get(no_ack=False), nack(1), Listen(0.1), peek(),
        Op(m.TxCommit()), Listen(0.1), peek(),
    ],
    "a return in a transaction comes with the commit": [
        Op(m.TxSelect()), publish("nothing", mandatory=True), Listen(), Op(m.TxCommit()), Listen(),
    ],
    "a publish in a transaction to nothing": [Op(m.TxSelect()), publish(source="nothing"), Listen(), Op(m.TxCommit())],
    "reply-to: a request and its reply": [
        consume(REPLY_TO, no_ack=True), queue(), publish(reply_to=REPLY_TO), Listen(0.1), *on("b1", get()),
    ],
    "reply-to: acknowledgements": [consume(REPLY_TO)],
    "reply-to: twice": [consume(REPLY_TO, no_ack=True), consume(REPLY_TO, "d", no_ack=True)],
    "reply-to: exclusive": [consume(REPLY_TO, no_ack=True, exclusive=True)],
    "reply-to: no consumer": [queue(), publish(reply_to=REPLY_TO), Listen()],
    "reply-to: declare": [peek(REPLY_TO)],
    "reply-to: declare with a consumer": [consume(REPLY_TO, no_ack=True), peek(REPLY_TO)],
    "reply-to: a reply to nobody": [confirm(), publish(REPLY_TO + ".nobody", mandatory=True), Listen()],
    "reply-to: delete": [delete(REPLY_TO)],
    "reply-to: cancel and again": [
        consume(REPLY_TO, no_ack=True), Op(m.BasicCancel("c")), consume(REPLY_TO, no_ack=True),
    ],
    "the default exchange has every queue": [queue("any name"), publish("any name"), Listen(0.1), get("any name")],
    "a durable exchange and a transient message": [
        exchange(), queue(), bind(), publish("", source="x", delivery_mode=1), Listen(0.1), get(),
    ],
    "flow on": [Op(m.ChannelFlow(True))],
    "flow off": [Op(m.ChannelFlow(False))],
    "qos with a size": [Op(m.BasicQos(5, 0, False))],
    "qos": [qos(5), qos(0), qos(65_535), qos(5, shared=True)],
    "a priority that is none": [queue(arguments={"x-max-priority": 5}), publish(priority=200), Listen(0.1), get()],
}
