"""The low-level design: what a message carries, how exchanges route it, who gets it, how it dies, queue arguments."""

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

import leveret
from leveret.core.properties import Properties
from tests.seeds.conftest import Home, bodies, settled
from tests.waiting import PATIENCE_S


def reached(broker: leveret.Broker) -> set[str]:
    """The queues that hold something."""
    return {queue.name for queue in broker.queues() if len(queue)}


# Messages


def test_every_property_of_a_message_survives_a_crash(home: Home) -> None:
    properties = Properties(
        content_type="application/json",
        content_encoding="gzip",
        headers={"text": "a", "number": 1, "nested": {"flag": True, "list": [1, "b"]}},
        delivery_mode=2,
        priority=9,
        correlation_id="request-1",
        reply_to="answers",
        expiration="60000",
        message_id="mine",
        timestamp=1_700_000_000,
        type="order.created",
        user_id="guest",
        app_id="shop",
    )
    home.broker.queue("queue")
    with home.broker.runtime as core:
        core.publish_through("/", "", "queue", properties, b"opaque \x00\xff")
    home.broker.flush()
    (message,) = home.crash().queue("queue").receive()
    assert message.properties == properties
    assert (message.data, message.exchange, message.routing_key) == (b"opaque \x00\xff", "", "queue")


def test_what_send_is_told_becomes_properties(broker: leveret.Broker) -> None:
    queue = broker.queue("queue", max_priority=9)
    queue.send({"a": 1}, priority=4, ttl=60, headers={"source": "shop"})
    sent = queue.receive()[0].properties
    assert (sent.content_type, sent.delivery_mode, sent.priority, sent.expiration) == (
        "application/json",
        2,
        4,
        "60000",
    )
    assert sent.headers == {"source": "shop"}


# Exchanges and queues as declared


def test_the_default_exchange_takes_the_name_of_a_queue_for_a_key(broker: leveret.Broker) -> None:
    broker.queue("queue")
    assert broker.exchange("").publish("queue", "x") is not None
    assert reached(broker) == {"queue"}


def test_a_message_without_a_route_is_told(broker: leveret.Broker) -> None:
    broker.queue("queue")
    assert broker.exchange("").publish("nowhere", "x") is None
    assert reached(broker) == set()


def test_declaring_again_with_other_settings_is_refused(broker: leveret.Broker) -> None:
    broker.exchange("exchange", "topic")
    broker.queue("queue", arguments={"x-max-length": 5})
    with pytest.raises(leveret.PreconditionFailed, match="type"):
        broker.exchange("exchange", "fanout")
    with pytest.raises(leveret.PreconditionFailed, match="x-max-length"):
        broker.queue("queue", arguments={"x-max-length": 6})


def test_deleting_an_exchange_that_is_used_or_is_not_there_is_refused(broker: leveret.Broker) -> None:
    exchange = broker.exchange("exchange", "fanout")
    exchange.bind(broker.queue("queue"))
    with pytest.raises(leveret.PreconditionFailed, match="in use"):
        exchange.delete(if_unused=True)
    exchange.delete()
    with pytest.raises(leveret.NotFound):
        exchange.publish("", "x")


@pytest.mark.parametrize(("exchange", "queue"), [("missing", "queue"), ("exchange", "missing")])
def test_binding_what_is_not_there_is_refused(broker: leveret.Broker, exchange: str, queue: str) -> None:
    broker.queue("queue")
    doomed = broker.exchange(exchange, "fanout")
    if exchange == "missing":
        doomed.delete()
    with pytest.raises(leveret.NotFound, match="missing"):
        doomed.bind(queue)


def test_an_exchange_may_go_with_its_last_binding(broker: leveret.Broker) -> None:
    passing = broker.exchange("passing", "fanout", auto_delete=True)
    passing.bind(broker.queue("queue"))
    passing.unbind("queue")
    with pytest.raises(leveret.NotFound):
        passing.publish("", "x")


def test_an_internal_exchange_is_reached_through_another_only(broker: leveret.Broker) -> None:
    outer, inner = broker.exchange("outer", "fanout"), broker.exchange("inner", "topic", internal=True)
    outer.bind(inner)
    inner.bind(broker.queue("queue"), "order.#")
    with pytest.raises(leveret.AccessRefused, match="internal"):
        inner.publish("order.us", "x")
    outer.publish("order.us", "x")
    assert reached(broker) == {"queue"}


def test_what_is_not_durable_goes_with_the_process(home: Home) -> None:
    home.broker.exchange("kept", "fanout").bind(home.broker.queue("kept"))
    home.broker.queue("passing", durable=False).send("x")
    broker = home.restart()
    assert [queue.name for queue in broker.queues()] == ["kept"]
    assert broker.exchange("kept").publish("", "x") is not None


def test_purging_tells_how_many_were_ready(broker: leveret.Broker) -> None:
    queue = broker.queue("queue")
    queue.send_many(["1", "2", "3"])
    queue.receive()
    assert (queue.purge(), queue.stats().leased) == (2, 1)


# Routing


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("order.us.created", True),
        ("order.*.created", True),
        ("order.#", True),
        ("#.created", True),
        ("order.eu.created", False),
        ("order.*", False),
        ("#", True),
        ("*.*.*", True),
        ("#.us.#", True),
        ("order.us.created.#", True),
    ],
)
def test_a_topic_pattern(broker: leveret.Broker, pattern: str, matches: bool) -> None:
    topic = broker.exchange("topic", "topic")
    topic.bind(broker.queue("queue"), pattern)
    assert (topic.publish("order.us.created", "x") is not None) is matches


def test_a_direct_exchange_reaches_all_queues_bound_with_the_key(broker: leveret.Broker) -> None:
    direct = broker.exchange("direct", "direct")
    for name, key in (("one", "key"), ("two", "key"), ("three", "other")):
        direct.bind(broker.queue(name), key)
    direct.publish("key", "x")
    assert reached(broker) == {"one", "two"}


@pytest.mark.parametrize(
    ("match", "headers", "matches"),
    [
        ("all", {"format": "pdf", "type": "report"}, True),
        ("all", {"format": "pdf", "type": "report", "more": 1}, True),
        ("all", {"format": "pdf"}, False),
        ("all", {"format": "pdf", "type": "log"}, False),
        ("any", {"format": "pdf", "type": "log"}, True),
        ("any", {"type": "report"}, True),
        ("any", {"format": "zip"}, False),
        ("any", {}, False),
        (None, {"format": "pdf", "type": "report"}, True),
        (None, {"format": "pdf"}, False),
    ],
)
def test_headers_match_all_or_any(
    broker: leveret.Broker, match: str | None, headers: dict[str, Any], matches: bool
) -> None:
    exchange = broker.exchange("headers", "headers")
    mode = {} if match is None else {"x-match": match}
    exchange.bind(broker.queue("queue"), arguments={"format": "pdf", "type": "report", **mode})
    assert (exchange.publish("ignored", "x", headers=headers) is not None) is matches


# Consumers


class Taker:
    """A consumer that keeps what it gets until it is told to acknowledge."""

    def __init__(self, queue: leveret.Queue, arrivals: "SimpleQueue[Taker]", **options: Any) -> None:
        self.held: list[leveret.Message] = []
        self._arrivals = arrivals
        self._subscription = queue.consume(self._take, **options)

    def _take(self, message: leveret.Message) -> None:
        self.held.append(message)
        self._arrivals.put(self)


@pytest.fixture
def arrivals() -> "SimpleQueue[Taker]":
    return SimpleQueue()


def await_all(arrivals: "SimpleQueue[Taker]", count: int) -> None:
    for _ in range(count):
        arrivals.get(timeout=PATIENCE_S)


def test_consumers_take_turns_up_to_their_prefetch(broker: leveret.Broker, arrivals: "SimpleQueue[Taker]") -> None:
    queue = broker.queue("queue")
    one, two = (Taker(queue, arrivals, prefetch=2) for _ in range(2))
    queue.send_many(["1", "2", "3", "4", "5"])
    await_all(arrivals, 4)
    assert (bodies(one.held), bodies(two.held), len(queue)) == (["1", "3"], ["2", "4"], 1)
    two.held[0].ack()
    await_all(arrivals, 1)
    assert (bodies(two.held), len(queue)) == (["2", "4", "5"], 0)


@pytest.mark.parametrize(("high", "low"), [(127, -128), (1, 0)])
def test_a_consumer_with_a_higher_priority_is_served_first(
    broker: leveret.Broker, arrivals: "SimpleQueue[Taker]", high: int, low: int
) -> None:
    queue = broker.queue("queue")
    modest = Taker(queue, arrivals, prefetch=10, priority=low)
    eager = Taker(queue, arrivals, prefetch=2, priority=high)
    queue.send_many(["1", "2", "3"])
    await_all(arrivals, 3)
    assert (bodies(eager.held), bodies(modest.held)) == (["1", "2"], ["3"])


def test_an_exclusive_consumer_is_the_only_one(broker: leveret.Broker, arrivals: "SimpleQueue[Taker]") -> None:
    queue = broker.queue("queue")
    Taker(queue, arrivals, exclusive=True)
    with pytest.raises(leveret.AccessRefused):
        Taker(queue, arrivals)


def test_what_a_cancelled_consumer_held_goes_to_the_next(
    broker: leveret.Broker, arrivals: "SimpleQueue[Taker]"
) -> None:
    queue = broker.queue("queue")
    first = queue.consume(lambda message: arrivals.put(None))  # type: ignore[arg-type]
    queue.send("x")
    await_all(arrivals, 1)
    first.cancel()
    assert [(message.body, message.redelivered) for message in queue.receive()] == [("x", True)]


# Priorities


def test_a_priority_over_the_maximum_counts_as_the_maximum(broker: leveret.Broker) -> None:
    queue = broker.queue("queue", arguments={"x-max-priority": 5})
    for body, priority in (("five", 5), ("over", 9), ("none", None), ("four", 4)):
        queue.send(body, priority=priority)
    assert bodies(queue.receive(10)) == ["five", "over", "four", "none"]


def test_without_a_maximum_priorities_have_no_effect(broker: leveret.Broker) -> None:
    queue = broker.queue("queue")
    for priority in (1, 9, 5):
        queue.send(priority, priority=priority)
    assert bodies(queue.receive(10)) == [1, 9, 5]


# Dead letters


DEATHS: dict[str, Callable[[leveret.Queue, leveret.ManualClock], object]] = {
    "rejected": lambda queue, clock: queue.receive()[0].reject(),
    "expired": lambda queue, clock: clock.advance(60),
    "maxlen": lambda queue, clock: queue.send("one too many"),
    "delivery_limit": lambda queue, clock: queue.receive()[0].nack(),
}


@pytest.mark.parametrize("reason", DEATHS)
def test_a_dead_letter_tells_how_it_died(broker: leveret.Broker, clock: leveret.ManualClock, reason: str) -> None:
    exchange = broker.exchange("dlx", "direct")
    exchange.bind(broker.queue("morgue"), "dead")
    exchange.bind(broker.queue("elsewhere"), "queue")
    arguments = {
        "x-dead-letter-exchange": "dlx",
        "x-dead-letter-routing-key": "dead",
        "x-message-ttl": 60_000,
        "x-max-length": 1,
        "x-delivery-limit": 0,
    }
    queue = broker.queue("queue", arguments=arguments)
    broker.exchange("source", "fanout").bind(queue)
    broker.exchange("source").publish("key", "mortal", headers={"own": 1})
    died = clock.now_ms() // 1000
    DEATHS[reason](queue, clock)
    (dead,) = broker.queue("morgue").receive(10)
    (death,) = dead.headers["x-death"]
    assert (dead.body, dead.headers["own"], dead.routing_key) == ("mortal", 1, "dead")
    assert (death["reason"], death["queue"], death["count"]) == (reason, "queue", 1)
    assert (death["exchange"], death["routing-keys"]) == ("source", ["key"])
    assert death["time"].timestamp() - died == (60 if reason == "expired" else 0)


def test_a_dead_letter_keeps_its_key_when_no_other_is_given(broker: leveret.Broker) -> None:
    broker.exchange("dlx", "topic").bind(broker.queue("morgue"), "key.*")
    queue = broker.queue("queue", arguments={"x-dead-letter-exchange": "dlx"})
    broker.exchange("source", "fanout").bind(queue)
    broker.exchange("source").publish("key.1", "x")
    queue.receive()[0].reject()
    assert broker.queue("morgue").receive()[0].routing_key == "key.1"


def test_without_a_dead_letter_exchange_it_is_discarded(broker: leveret.Broker) -> None:
    queue = broker.queue("queue")
    queue.send("x")
    queue.receive()[0].reject()
    assert settled(queue)


# Queue arguments


@pytest.mark.parametrize(
    ("policy", "kept", "dead"),
    [("drop-head", ["2", "3"], ["1"]), ("reject-publish", ["1", "2"], []), ("reject-publish-dlx", ["1", "2"], ["3"])],
)
@pytest.mark.parametrize("limit", [{"x-max-length": 2}, {"x-max-length-bytes": 2}])
def test_a_full_queue(
    broker: leveret.Broker, limit: dict[str, int], policy: str, kept: list[str], dead: list[str]
) -> None:
    queue = broker.queue("queue", dead_letter="morgue", arguments={**limit, "x-overflow": policy})
    sent = queue.send_many(["1", "2", "3"])
    assert (sent[2] is None) is policy.startswith("reject")
    assert bodies(queue.receive(10)) == kept
    assert bodies(broker.queue("morgue").receive(10)) == dead


def test_an_unused_queue_expires(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    broker.queue("passing", arguments={"x-expires": 10_000})
    clock.advance(9)
    broker.queue("passing").receive()
    clock.advance(9)
    assert [queue.name for queue in broker.queues()] == ["passing"]
    clock.advance(1)
    assert broker.queues() == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-mode": "lazy"},
        {"x-queue-mode": "default"},
        {"x-queue-type": "classic"},
        {"x-queue-type": "quorum", "x-quorum-initial-group-size": 3, "x-delivery-limit": 5},
        {"x-max-priority": 255},
        {"x-unknown": "passes"},
    ],
)
def test_arguments_that_are_accepted(broker: leveret.Broker, arguments: dict[str, Any]) -> None:
    queue = broker.queue("queue", arguments=arguments)
    queue.send("x")
    assert bodies(queue.receive()) == ["x"]
    assert arguments.items() <= broker.queue("queue").arguments.items()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-message-ttl", -1),
        ("x-expires", 0),
        ("x-max-length", -1),
        ("x-max-length-bytes", "1"),
        ("x-overflow", "explode"),
        ("x-dead-letter-exchange", 5),
        ("x-dead-letter-routing-key", "without an exchange"),
        ("x-max-priority", 256),
        ("x-queue-type", "mirrored"),
        ("x-delivery-limit", "many"),
    ],
)
def test_arguments_that_are_refused(broker: leveret.Broker, name: str, value: object) -> None:
    with pytest.raises(leveret.InvalidArgument, match=name):
        broker.queue("queue", arguments={name: value})
    assert broker.queues() == []
