"""Figures of real queues, watched turn by turn with a clock that is moved by hand."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import leveret
from leveret.observability.alerting import watch as watches
from leveret.observability.alerting.engine import AlertEngine
from leveret.observability.alerting.rules import DEFAULTS, AlertRuleSettings
from leveret.observability.alerting.watch import QueueWatch


class Scene:
    """A broker in memory and what a watch says about it."""

    def __init__(self, broker: leveret.Broker, clock: leveret.ManualClock) -> None:
        self.broker = broker
        self.clock = clock
        self.engine = AlertEngine()
        self.lags: list[tuple[str, str, int]] = []
        self._watch = QueueWatch(broker.runtime, lambda: (broker.runtime,), self.engine, lambda runtime: self)
        self.look()

    def groups(self) -> list[Any]:
        return self.lags

    def lag(self, group: Any) -> tuple[str, str, int] | None:
        found: tuple[str, str, int] = group
        return found

    def look(self, *rules: AlertRuleSettings) -> list[str]:
        """What is firing after a look, as rule:queue."""
        asyncio.run(self._watch.look(list(rules or DEFAULTS.values())))
        return sorted(f"{alert.rule.name}:{alert.key[2]}" for alert in self.engine.firing())

    def pass_time(self, seconds: float, *rules: AlertRuleSettings, every_s: float = 15) -> list[str]:
        """Look now and then; give what is firing in the end."""
        found: list[str] = []
        while seconds > 0:
            self.clock.advance(min(every_s, seconds))
            seconds -= every_s
            found = self.look(*rules)
        return found


@pytest.fixture
def scene() -> Iterator[Scene]:
    clock = leveret.ManualClock()
    with leveret.open(clock=clock) as broker:
        yield Scene(broker, clock)


def rule(figure: str, limit: float, **fields: Any) -> AlertRuleSettings:
    return AlertRuleSettings.from_dict({"name": "r", "figure": figure, "limit": limit, **fields})


def handle(queue: leveret.Queue, count: int, seconds: float = 0, clock: leveret.ManualClock | None = None) -> None:
    """Take messages and acknowledge them."""
    messages = queue.receive(count)
    assert len(messages) == count
    if clock is not None:
        clock.advance(seconds)
    queue.ack_many(messages)


def test_an_empty_broker_has_nothing_wrong(scene: Scene) -> None:
    scene.broker.queue("idle")
    assert scene.pass_time(3_600, every_s=60) == []


def test_many_messages_are_seen_by_depth_and_by_what_waits(scene: Scene) -> None:
    queue = scene.broker.queue("orders")
    queue.send_many([b""] * 5)
    assert len(queue.receive(3)) == 3
    assert scene.look(rule("depth_max", 4)) == ["r:orders"]
    assert scene.look(rule("waiting_max", 2, name="s")) == []
    assert scene.look(rule("waiting_max", 1, name="t")) == ["t:orders"]


def test_an_old_message_is_seen_until_it_is_taken(scene: Scene) -> None:
    queue = scene.broker.queue("orders")
    queue.send(b"")
    scene.clock.advance(301)
    assert "message_age:orders" in scene.look()
    handle(queue, 1)
    assert scene.look() == []


def test_messages_that_nobody_takes_are_seen_after_a_minute(scene: Scene) -> None:
    queue = scene.broker.queue("orders")
    queue.send_many([b""] * 100)
    assert scene.pass_time(60) == []
    assert scene.pass_time(30) == ["no_consumers:orders"]
    handle(queue, 1)
    assert scene.look() == []
    scene.pass_time(60)
    queue.pause()
    assert scene.pass_time(60) == []


def test_a_consumer_that_is_busy_is_one(scene: Scene) -> None:
    queue = scene.broker.queue("orders", visibility_timeout=3600)
    queue.send_many([b""] * 100)
    assert queue.receive()
    assert scene.pass_time(120) == []


def test_dead_letters_are_counted_by_the_hour_and_lie_where_they_are(scene: Scene) -> None:
    scene.broker.queue("orders.dead")
    queue = scene.broker.queue("orders", dead_letter="orders.dead", max_deliveries=10)
    queue.send_many([b""] * 101)
    for message in queue.receive(101):
        message.reject()
    assert scene.look(DEFAULTS["dead_letters"]) == ["dead_letters:orders"]
    # Nobody reads dead letters, and that is as it should be.
    waiting = [DEFAULTS[name] for name in ("message_age", "no_consumers", "consumer_lag")]
    assert scene.pass_time(1_800, *waiting, every_s=300) == []
    assert scene.pass_time(5_400, DEFAULTS["dead_letters"], every_s=300) == []


def test_what_dies_where_nobody_keeps_it_is_no_dead_letter(scene: Scene) -> None:
    queue = scene.broker.queue("ticks", ttl=1)
    queue.send_many([b""] * 500)
    scene.clock.advance(5)
    assert scene.look(DEFAULTS["dead_letters"]) == []
    assert queue.stats().ready == 0


def test_failures_are_judged_when_there_are_enough_of_them(scene: Scene) -> None:
    queue = scene.broker.queue("orders", max_deliveries=1000)
    share = rule("error_share", 0.1, sample_min=50)
    queue.send_many([b""] * 100)
    for message in queue.receive(10):
        message.nack(delay=3600)
    assert scene.look(share) == []
    handle(queue, 40)
    assert scene.look(share) == ["r:orders"]
    handle(queue, 50)
    assert scene.look(rule("error_share", 0.1, clear=0.1, sample_min=50)) == []
    assert scene.pass_time(1_200, share, every_s=60) == []


def test_a_failure_that_a_message_dies_of_is_one_failure(scene: Scene) -> None:
    queue = scene.broker.queue("orders", max_deliveries=1, visibility_timeout=1)
    queue.send_many([b""] * 4)
    queue.receive(2)[0].nack()
    scene.clock.advance(2)
    handle(queue, 2)
    assert queue.stats().dead["delivery_limit"] == 2
    assert scene.look(rule("error_share", 0.49)) == ["r:orders"]
    assert scene.look(rule("error_share", 0.5, name="s")) == []


def test_slow_consumers_are_seen_by_what_they_did_lately(scene: Scene) -> None:
    queue = scene.broker.queue("orders", visibility_timeout=3600)
    slow = rule("processing_p95_ms", 30_000)
    queue.send_many([b""] * 60)
    handle(queue, 19, 0.5, scene.clock)
    assert scene.look(slow) == []
    handle(queue, 5, 70, scene.clock)
    assert scene.look(slow) == ["r:orders"]
    assert scene.pass_time(1_200, slow, every_s=60) == []


def test_streams_are_judged_by_the_slowest_group_and_not_by_their_length(scene: Scene) -> None:
    stream = scene.broker.stream("events")
    for _ in range(10):
        stream.send(b"")
    scene.lags = [("/", "events", 500), ("/", "events", 1_001), ("/", "other", 3)]
    lag = rule("lag_max", 1_000)
    assert scene.look(lag, rule("depth_max", 5)) == ["r:events"]
    scene.lags = []
    assert scene.look(lag) == []


def test_rules_are_for_the_queues_that_they_name_and_only_when_they_are_on(scene: Scene) -> None:
    for name in ("a.1", "b.1"):
        scene.broker.queue(name).send_many([b""] * 2)
    assert scene.look(rule("waiting_max", 1, queue="a.*")) == ["r:a.1"]
    assert scene.look(rule("waiting_max", 1, vhost="other")) == []
    assert scene.look(rule("waiting_max", 1, enabled=False)) == []


def test_a_queue_that_was_deleted_is_not_wrong_any_more(scene: Scene) -> None:
    queue = scene.broker.queue("orders")
    queue.send_many([b""] * 2)
    assert scene.look(rule("waiting_max", 1)) == ["r:orders"]
    queue.delete()
    assert scene.look(rule("waiting_max", 1)) == []


def test_many_queues_are_looked_at_some_at_a_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "STEP", 7)
    for number in range(50):
        scene.broker.queue(f"q{number}").send_many([b""] * 2)
    assert len(scene.look(rule("waiting_max", 1))) == 50
