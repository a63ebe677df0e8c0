"""Figures of all messages together, under RabbitMQ's names. What is counted in queues comes by every protocol."""

from collections.abc import Callable

from leveret.observability.exposition import Labels, labels
from leveret.observability.statistics import DEATHS
from leveret.protocols.metrics.facts import ScrapeFacts
from leveret.protocols.metrics.figure import BrokerMetric, figure

BY_AMQP = labels(protocol="amqp091")
TYPES = {kind: labels(queue_type=f"rabbit_{kind}_queue") for kind in ("classic", "quorum", "stream")}


def by_amqp(name: str, help: str, counter: str) -> BrokerMetric:
    """What channels have done."""
    return figure(
        f"rabbitmq_global_{name}_total", "counter", f"{help}, by AMQP", lambda facts: {BY_AMQP: facts.traffic[counter]}
    )


def by_type(name: str, help: str, of: Callable[[dict[str, int]], int]) -> BrokerMetric:
    """What was counted in queues, by their type."""

    def told(facts: ScrapeFacts) -> dict[Labels, int]:
        return {TYPES[kind]: of(tally.counts) for kind, tally in facts.tallies.items()}

    return figure(f"rabbitmq_global_{name}_total", "counter", help, told)


def on_channels(name: str, help: str, of: Callable[[ScrapeFacts], int]) -> BrokerMetric:
    """A counter of all channels together."""
    return figure(f"rabbitmq_channel_{name}_total", "counter", help, of)


def died(reason: str) -> BrokerMetric:
    """What died in queues."""
    return by_type(f"messages_dead_lettered_{reason}", f"Messages that died: {reason}", lambda counts: counts[reason])


GLOBAL = (
    by_amqp("messages_received", "Messages published", "received"),
    by_amqp("messages_received_confirm", "Messages published on channels with confirms", "received_confirm"),
    by_amqp("messages_confirmed", "Messages confirmed, or refused, to their publishers", "confirmed"),
    by_amqp("messages_unroutable_dropped", "Messages that no queue wanted", "dropped"),
    by_amqp("messages_unroutable_returned", "Messages returned because no queue wanted them", "returned"),
    by_amqp("messages_get_empty", "basic.get from an empty queue", "empty_gets"),
    by_type("messages_routed", "Messages that came into queues", lambda c: c["published"]),
    by_type("messages_delivered", "Messages handed out", lambda c: c["delivered"]),
    by_type(
        "messages_delivered_consume_manual_ack",
        "Messages pushed to consumers that acknowledge",
        lambda c: c["pushed"] - c["pushed_settled"],
    ),
    by_type(
        "messages_delivered_consume_auto_ack",
        "Messages pushed to consumers that do not acknowledge",
        lambda c: c["pushed_settled"],
    ),
    by_type(
        "messages_delivered_get_manual_ack",
        "Messages taken one by one, to be acknowledged: basic.get, SQS, REST",
        lambda c: c["delivered"] - c["pushed"] - c["taken_settled"],
    ),
    by_type(
        "messages_delivered_get_auto_ack",
        "Messages taken by basic.get without acknowledgements",
        lambda c: c["taken_settled"],
    ),
    by_type("messages_redelivered", "Messages handed out again", lambda c: c["redelivered"]),
    by_type("messages_acknowledged", "Messages acknowledged", lambda c: c["acked"]),
    *map(died, DEATHS),
    figure(
        "rabbitmq_global_publishers",
        "gauge",
        "Channels that have published",
        lambda f: {BY_AMQP: f.traffic["publishers"]},
    ),
    figure("rabbitmq_global_consumers", "gauge", "Consumers now", lambda f: {BY_AMQP: f.objects["consumers"]}),
)
# What older dashboards of RabbitMQ look at: the same without labels.
CHANNELS = (
    on_channels("messages_published", "Messages published", lambda f: f.traffic["received"]),
    on_channels("messages_confirmed", "Messages confirmed, or refused", lambda f: f.traffic["confirmed"]),
    on_channels("messages_unroutable_dropped", "Messages that no queue wanted", lambda f: f.traffic["dropped"]),
    on_channels("messages_unroutable_returned", "Messages returned", lambda f: f.traffic["returned"]),
    on_channels("messages_acked", "Messages acknowledged", lambda f: f.traffic["acknowledged"]),
    on_channels("messages_redelivered", "Messages handed out again", lambda f: f.traffic["redelivered"]),
    on_channels("messages_delivered", "Messages pushed, not to be acknowledged", lambda f: f.counted("pushed_settled")),
    on_channels(
        "messages_delivered_ack",
        "Messages pushed, to be acknowledged",
        lambda f: f.counted("pushed") - f.counted("pushed_settled"),
    ),
    on_channels("get", "Messages taken one by one, not to be acknowledged", lambda f: f.counted("taken_settled")),
    on_channels(
        "get_ack",
        "Messages taken one by one, to be acknowledged",
        lambda f: f.counted("delivered") - f.counted("pushed") - f.counted("taken_settled"),
    ),
    on_channels("get_empty", "basic.get from an empty queue", lambda f: f.traffic["empty_gets"]),
    figure("rabbitmq_channel_consumers", "gauge", "Consumers on channels", lambda f: f.objects["consumers"]),
    figure(
        "rabbitmq_channel_messages_unacked",
        "gauge",
        "Messages given to channels and not settled",
        lambda f: f.traffic["unacked"],
    ),
    figure(
        "rabbitmq_channel_messages_unconfirmed",
        "gauge",
        "Messages published on channels and not confirmed",
        lambda f: f.traffic["unconfirmed"],
    ),
)
QUEUES = (
    figure("rabbitmq_queue_messages_ready", "gauge", "Messages that wait to be taken", lambda f: f.sum("ready")),
    figure("rabbitmq_queue_messages_unacked", "gauge", "Messages taken and not settled", lambda f: f.sum("leased")),
    figure(
        "rabbitmq_queue_messages",
        "gauge",
        "Messages that wait or are taken",
        lambda f: f.sum("ready") + f.sum("leased"),
    ),
    figure("rabbitmq_queue_messages_ready_bytes", "gauge", "Bodies that wait", lambda f: f.sum("ready_bytes")),
    figure("rabbitmq_queue_consumers", "gauge", "Consumers on queues", lambda f: f.sum("consumers")),
    figure(
        "rabbitmq_queue_messages_published_total",
        "counter",
        "Messages that came into queues",
        lambda f: f.counted("published"),
    ),
)
