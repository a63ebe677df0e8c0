"""What clients do wrong on an open channel, and the exact answer to it: code, text, method, and how far it reaches."""

from typing import Any

from leveret.core.properties import Properties
from leveret.wire import methods as m
from leveret.wire.methods import Method
from leveret.wire.replies import Reply
from tests.protocols.amqp.steps import Elsewhere, On, Publish, Row, Step

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another "
    "connection or the exclusive property value does not match that of the original declaration."
)
BIND = m.QueueBind("q", "amq.direct", "k")
FAST = "amq.rabbitmq.reply-to"
QUORUM = {"x-queue-type": "quorum"}


def queue(name: str = "q", **named: Any) -> m.QueueDeclare:
    """A declaration of a queue by its arguments."""
    return m.QueueDeclare(name, **named)


def exchange(name: str = "x", kind: str = "direct", **named: Any) -> m.ExchangeDeclare:
    """A declaration of an exchange by its arguments."""
    return m.ExchangeDeclare(name, kind, **named)


def inequivalent(argument: str, received: str, current: str, what: str = "queue 'q'") -> str:
    """How a declaration differs from what exists."""
    return f"inequivalent arg '{argument}' for {what} in vhost '/': received {received} but current is {current}"


def invalid(argument: str, why: str) -> str:
    """What is wrong with one argument of a queue."""
    return f"invalid arg '{argument}' for queue 'q' in vhost '/': {why}"


REDECLARED = [
    (queue(durable=True), queue(), inequivalent("durable", "'false'", "'true'")),
    (queue(auto_delete=True), queue(), inequivalent("auto_delete", "'false'", "'true'")),
    (
        queue(),
        queue(arguments={"x-message-ttl": 1}),
        inequivalent("x-message-ttl", "the value '1' of type 'signedint'", "none"),
    ),
    (
        queue(arguments={"x-max-length": 5}),
        queue(),
        inequivalent("x-max-length", "none", "the value '5' of type 'signedint'"),
    ),
    (
        queue(arguments={"x-expires": 60_000}),
        queue(arguments={"x-expires": 70_000}),
        inequivalent("x-expires", "'70000'", "'60000'"),
    ),
    (
        queue(arguments={"x-dead-letter-exchange": "a"}),
        queue(arguments={"x-dead-letter-exchange": "b"}),
        inequivalent("x-dead-letter-exchange", "'b'", "'a'"),
    ),
    (
        queue(durable=True, arguments=QUORUM),
        queue(durable=True),
        inequivalent("x-queue-type", "none", "the value 'quorum' of type 'longstr'"),
    ),
    (exchange(), exchange(kind="fanout"), inequivalent("type", "'fanout'", "'direct'", "exchange 'x'")),
    (exchange(durable=True), exchange(), inequivalent("durable", "'false'", "'true'", "exchange 'x'")),
    (exchange(), exchange(auto_delete=True), inequivalent("auto_delete", "'true'", "'false'", "exchange 'x'")),
    (exchange(), exchange(internal=True), inequivalent("internal", "'true'", "'false'", "exchange 'x'")),
    (
        exchange(),
        exchange(arguments={"alternate-exchange": "a"}),
        inequivalent("alternate-exchange", "the value 'a' of type 'longstr'", "none", "exchange 'x'"),
    ),
]

BAD_ARGUMENTS: list[tuple[str, Any, str]] = [
    ("x-expires", 0, "{value_zero,0}"),
    ("x-expires", -1, "{value_negative,-1}"),
    ("x-expires", "soon", '"expected integer, got longstr"'),
    ("x-message-ttl", -1, "{value_negative,-1}"),
    ("x-message-ttl", True, '"expected integer, got bool"'),
    ("x-max-length", -5, "{value_negative,-5}"),
    ("x-max-length-bytes", "big", '"expected integer, got longstr"'),
    ("x-max-priority", 256, "{max_value_exceeded,256}"),
    ("x-max-priority", -1, "{value_negative,-1}"),
    ("x-queue-type", "curious", "\"unsupported queue type 'curious'\""),
    ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
    ("x-overflow", "explode", "invalid_overflow"),
    ("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"),
]

# What another connection must not do with an exclusive queue.
LOCKED_OUT: list[Method] = [
    queue(),
    queue(passive=True),
    queue(exclusive=True),
    m.QueuePurge("q"),
    m.QueueDelete("q"),
    m.QueueBind("q", "amq.direct", "k"),
    m.BasicConsume("q"),
    m.BasicGet("q"),
]

NO_QUEUE = "no queue 'q' in vhost '/'"
NO_EXCHANGE = "no exchange 'x' in vhost '/'"
MISSING: list[tuple[Method, str]] = [
    (queue(passive=True), NO_QUEUE),
    (exchange(passive=True), NO_EXCHANGE),
    (m.QueueBind("q", "amq.direct", "k"), NO_QUEUE),
    (m.QueuePurge("q"), NO_QUEUE),
    (m.BasicConsume("q"), NO_QUEUE),
    (m.BasicGet("q"), NO_QUEUE),
    (m.ExchangeBind("amq.fanout", "x", "k"), NO_EXCHANGE),
    (m.ExchangeBind("x", "amq.fanout", "k"), NO_EXCHANGE),
]
UNNAMED: list[Method] = [
    m.BasicConsume(""),
    m.BasicGet(""),
    m.QueuePurge(""),
    m.QueueDelete(""),
    m.QueueBind("", "amq.direct", "k"),
]

DEFAULT_EXCHANGE = "operation not permitted on the default exchange"
ON_DEFAULT_EXCHANGE: list[Method] = [
    exchange(""),
    m.ExchangeDelete(""),
    m.QueueBind("q", "", "k"),
    m.QueueUnbind("q", "", "k"),
    m.ExchangeBind("amq.fanout", "", "k"),
    m.ExchangeBind("", "amq.fanout", "k"),
]

NOT_IMPLEMENTED: list[tuple[Step, str]] = [
    (Publish(immediate=True), "immediate=true"),
    (m.BasicQos(prefetch_size=10), "prefetch_size!=0 (10)"),
    (m.BasicRecover(requeue=False), "requeue=false"),
    (m.BasicRecoverAsync(requeue=False), "requeue=false"),
    (m.ChannelFlow(active=False), "active=false"),
]

BAD_PROPERTIES: list[tuple[Properties, str]] = [
    (Properties(expiration="abc"), "invalid expiration 'abc': no_integer"),
    (Properties(expiration="-1"), "invalid expiration '-1': {value_negative,-1}"),
    (Properties(expiration="1.5"), "invalid expiration '1.5': {leftover_string,\".5\"}"),
    (Properties(expiration="315360000001"), "invalid expiration '315360000001': {value_too_large,315360000001}"),
    (Properties(expiration=""), "invalid expiration '': no_integer"),
    (Properties(user_id="mallory"), "user_id property set to 'mallory' but authenticated user was 'guest'"),
    (Properties(headers={"CC": "one"}), 'invalid message: {unacceptable_type_in_header,"CC",longstr}'),
    (Properties(headers={"BCC": 1}), 'invalid message: {unacceptable_type_in_header,"BCC",signedint}'),
]

QUORUM_RULES: list[tuple[m.QueueDeclare, str]] = [
    (queue("", durable=True, arguments=QUORUM), "Cannot declare a server-named queue for type rabbit_quorum_queue"),
    (
        queue(durable=True, exclusive=True, arguments=QUORUM),
        "invalid property 'exclusive-owner' for queue 'q' in vhost '/'",
    ),
    (queue(arguments=QUORUM), "invalid property 'non-durable' for queue 'q' in vhost '/'"),
    (
        queue(durable=True, auto_delete=True, arguments=QUORUM),
        "invalid property 'auto-delete' for queue 'q' in vhost '/'",
    ),
    (
        queue(durable=True, arguments=QUORUM | {"x-max-priority": 5}),
        "invalid arg 'x-max-priority' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue",
    ),
]

SETTLED: list[tuple[tuple[Step, ...], str]] = [
    ((m.BasicAck(7),), "unknown delivery tag 7"),
    ((m.BasicNack(7),), "unknown delivery tag 7"),
    ((m.BasicReject(7),), "unknown delivery tag 7"),
    ((m.BasicAck(7, multiple=True),), "unknown delivery tag 7"),
    ((queue(), Publish(), m.BasicGet("q"), m.BasicAck(1), m.BasicAck(1)), "unknown delivery tag 1"),
    ((queue(), Publish(), On(2, m.BasicGet("q")), m.BasicAck(1)), "unknown delivery tag 1"),
    ((queue(), Publish(), m.BasicGet("q", no_ack=True), m.BasicAck(1)), "unknown delivery tag 1"),
]

CHANNEL_ROWS = [
    *(Row(f"redeclared: {text[16:30]}", (a, b), Reply.PRECONDITION_FAILED, text) for a, b, text in REDECLARED),
    *(
        Row(
            f"argument {name}={value}", (queue(arguments={name: value}),), Reply.PRECONDITION_FAILED, invalid(name, why)
        )
        for name, value, why in BAD_ARGUMENTS
    ),
    *(
        Row(f"locked: {method}", (Elsewhere(queue(exclusive=True)), method), Reply.RESOURCE_LOCKED, LOCKED)
        for method in LOCKED_OUT
    ),
    *(Row(f"missing: {method}", (method,), Reply.NOT_FOUND, text) for method, text in MISSING),
    *(Row(f"unnamed: {method}", (method,), Reply.NOT_FOUND, "no previously declared queue") for method in UNNAMED),
    *(
        Row(f"default exchange: {method}", (queue(), method), Reply.ACCESS_REFUSED, DEFAULT_EXCHANGE)
        for method in ON_DEFAULT_EXCHANGE
    ),
    *(
        Row(f"properties: {text[:40]}", (queue(), Publish(properties=properties)), Reply.PRECONDITION_FAILED, text)
        for properties, text in BAD_PROPERTIES
    ),
    *(Row(f"quorum: {text[:50]}", (method,), Reply.PRECONDITION_FAILED, text) for method, text in QUORUM_RULES),
    *(Row(f"tags: {steps}", steps, Reply.PRECONDITION_FAILED, text) for steps, text in SETTLED),
    Row(
        "a reserved queue name",
        (queue("amq.mine"),),
        Reply.ACCESS_REFUSED,
        "queue name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    Row(
        "a reserved exchange name",
        (exchange("amq.mine"),),
        Reply.ACCESS_REFUSED,
        "exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    Row(
        "deleting an exchange of the broker",
        (m.ExchangeDelete("amq.direct"),),
        Reply.ACCESS_REFUSED,
        "deletion of system exchange 'amq.direct' in vhost '/' not allowed",
    ),
    Row(
        "an unknown exchange type",
        (exchange(kind="curious"),),
        Reply.PRECONDITION_FAILED,
        "unknown exchange type 'curious'",
        older=(Reply.COMMAND_INVALID, "unknown exchange type 'curious'"),
    ),
    Row("publishing to a missing exchange", (Publish("x"),), Reply.NOT_FOUND, NO_EXCHANGE),
    Row(
        "publishing to an internal exchange",
        (exchange(internal=True), Publish("x")),
        Reply.ACCESS_REFUSED,
        "cannot publish to internal exchange 'x' in vhost '/'",
    ),
    Row(
        "consuming alone where somebody consumes",
        (queue(), Elsewhere(m.BasicConsume("q")), m.BasicConsume("q", exclusive=True)),
        Reply.ACCESS_REFUSED,
        "queue 'q' in vhost '/' in exclusive use",
    ),
    Row(
        "consuming where somebody consumes alone",
        (queue(), Elsewhere(m.BasicConsume("q", exclusive=True)), m.BasicConsume("q")),
        Reply.ACCESS_REFUSED,
        "queue 'q' in vhost '/' in exclusive use",
    ),
    Row(
        "deleting a used queue if it is unused",
        (queue(), Elsewhere(m.BasicConsume("q")), m.QueueDelete("q", if_unused=True)),
        Reply.PRECONDITION_FAILED,
        "queue 'q' in vhost '/' in use",
    ),
    Row(
        "deleting a full queue if it is empty",
        (queue(), Publish(), m.QueueDelete("q", if_empty=True)),
        Reply.PRECONDITION_FAILED,
        "queue 'q' in vhost '/' not empty",
    ),
    Row(
        "deleting a bound exchange if it is unused",
        (queue(), exchange(), m.QueueBind("q", "x", "k"), m.ExchangeDelete("x", if_unused=True)),
        Reply.PRECONDITION_FAILED,
        "exchange 'x' in vhost '/' in use",
    ),
    Row(
        "a message over the limit",
        (queue(), Publish(body=bytes(MESSAGE_BYTES_MAX + 1))),
        Reply.PRECONDITION_FAILED,
        f"message size {MESSAGE_BYTES_MAX + 1} is larger than configured max size {MESSAGE_BYTES_MAX}",
    ),
    Row(
        "transactions after confirms",
        (m.ConfirmSelect(), m.TxSelect()),
        Reply.PRECONDITION_FAILED,
        "cannot switch from confirm to tx mode",
    ),
    Row(
        "confirms after transactions",
        (m.TxSelect(), m.ConfirmSelect()),
        Reply.PRECONDITION_FAILED,
        "cannot switch from tx to confirm mode",
    ),
    Row("a commit without transactions", (m.TxCommit(),), Reply.PRECONDITION_FAILED, "channel is not transactional"),
    Row(
        "a rollback without transactions",
        (m.TxRollback(),),
        Reply.PRECONDITION_FAILED,
        "channel is not transactional",
    ),
    Row(
        "basic.get beside a single active consumer",
        (queue(durable=True, arguments=QUORUM | {"x-single-active-consumer": True}), m.BasicGet("q")),
        Reply.RESOURCE_LOCKED,
        "cannot obtain access to locked queue 'q' in vhost '/'. basic.get operations are not supported by quorum "
        "queues with single active consumer",
    ),
    Row(
        "headers bound with an unknown x-match",
        (queue(), m.QueueBind("q", "amq.headers", "", arguments={"x-match": "some"})),
        Reply.PRECONDITION_FAILED,
        'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
    ),
    Row(
        "a dead letter exchange that is no name",
        (queue(arguments={"x-dead-letter-exchange": 5}),),
        Reply.PRECONDITION_FAILED,
        "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'",
    ),
    Row(
        "delays in front of nothing",
        (exchange(kind="x-delayed-message"),),
        Reply.PRECONDITION_FAILED,
        "Invalid argument, 'x-delayed-type' must be an existing exchange type",
        older=(None, None),
    ),
    Row(
        "unbinding the queue of another connection",
        (Elsewhere(queue(exclusive=True)), Elsewhere(BIND), m.QueueUnbind("q", "amq.direct", "k")),
        Reply.RESOURCE_LOCKED,
        LOCKED,
    ),
    Row(
        "declaring the queue of a fast reply",
        (queue("amq.rabbitmq.reply-to.nobody"),),
        Reply.NOT_FOUND,
        "no queue 'amq.rabbitmq.reply-to.nobody' in vhost '/'",
    ),
    Row(
        "a consumer priority that is no number",
        (queue(), m.BasicConsume("q", arguments={"x-priority": "high"})),
        Reply.PRECONDITION_FAILED,
        invalid("x-priority", '"expected integer, got longstr"'),
    ),
    Row(
        "fast replies with acknowledgements",
        (m.BasicConsume(FAST),),
        Reply.PRECONDITION_FAILED,
        "reply consumer cannot acknowledge",
    ),
    Row(
        "two consumers of fast replies",
        (m.BasicConsume(FAST, no_ack=True), m.BasicConsume(FAST, no_ack=True)),
        Reply.PRECONDITION_FAILED,
        "reply consumer already set",
    ),
    Row(
        "asking for fast replies without a consumer of them",
        (queue(), Publish(properties=Properties(reply_to=FAST))),
        Reply.PRECONDITION_FAILED,
        "fast reply consumer does not exist",
    ),
]

CONNECTION_ROWS = [
    *(Row(f"not implemented: {text}", (step,), Reply.NOT_IMPLEMENTED, text) for step, text in NOT_IMPLEMENTED),
    Row(
        "a consumer tag twice",
        (queue(), m.BasicConsume("q", "x"), m.BasicConsume("q", "x")),
        Reply.NOT_ALLOWED,
        "attempt to reuse consumer tag 'x'",
    ),
    Row("opening a channel twice", (m.ChannelOpen(),), Reply.CHANNEL_ERROR, "second 'channel.open' seen"),
    Row("a method before channel.open", (On(9, queue()),), Reply.CHANNEL_ERROR, "expected 'channel.open'"),
    Row(
        "a channel method on channel 0",
        (On(0, m.BasicQos()),),
        Reply.CHANNEL_ERROR,
        "unexpected method in connection state running",
    ),
    Row("a connection method on channel 1", (m.ConnectionOpen("/"),), Reply.COMMAND_INVALID, "unimplemented method"),
    Row("a method that only servers send", (m.QueueDeclareOk("q"),), Reply.COMMAND_INVALID, "unimplemented method"),
    Row(
        "deleting a quorum queue if it is unused",
        (queue(durable=True, arguments=QUORUM), m.QueueDelete("q", if_unused=True)),
        Reply.NOT_IMPLEMENTED,
        "cannot delete queue 'q' in vhost '/'. queue.delete operations with if-unused flag set are not supported by "
        "quorum queues",
    ),
    Row(
        "deleting a quorum queue if it is empty",
        (queue(durable=True, arguments=QUORUM), m.QueueDelete("q", if_empty=True)),
        Reply.NOT_IMPLEMENTED,
        "cannot delete queue 'q' in vhost '/'. queue.delete operations with if-empty flag set are not supported by "
        "quorum queues",
    ),
]
