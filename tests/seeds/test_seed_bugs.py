"""Mistakes in the code of the seeds that must not be repeated: one promise for each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import leveret
from tests.embedded.conftest import SMALL, Calls
from tests.seeds.conftest import Home, bodies, settled

LEVELS = 256
ROUTE = """
import leveret
with leveret.open() as broker:
    exchange = broker.exchange("shards", "x-consistent-hash")
    for number in range(16):
        exchange.bind(broker.queue(f"shard-{number}"), "1")
    for number in range(64):
        exchange.publish(f"queue-{number}", str(number))
    for queue in broker.queues():
        print(queue.name, [message.body for message in queue.receive(64)])
"""


@pytest.mark.parametrize(
    ("pattern", "key"),
    [("orders.#", "orders"), ("#.x", "x"), ("#", ""), ("a.#.b", "a.b"), ("#.#", "a")],
)
def test_a_hash_stands_for_no_word_too(broker: leveret.Broker, pattern: str, key: str) -> None:
    topic = broker.exchange("topic", "topic")
    topic.bind(broker.queue("queue"), pattern)
    assert topic.publish(key, "x") is not None


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("#.b", "a.b.c.b", True),
        ("#.b.#.b", "b.a.b", True),
        ("a.#.b.*", "a.b.b.c", True),
        ("#.b", "a.b.c", False),
        ("orders.*", "ordersXnew", False),
    ],
)
def test_a_hash_tries_every_length(broker: leveret.Broker, pattern: str, key: str, matches: bool) -> None:
    topic = broker.exchange("topic", "topic")
    topic.bind(broker.queue("queue"), pattern)
    assert (topic.publish(key, "x") is not None) is matches


def test_the_last_nack_does_not_wait_for_itself(broker: leveret.Broker, calls: Calls) -> None:
    own = broker.queue("own", max_deliveries=1, dead_letter="own-dlq", backoff="none")
    own.send_many(range(64))
    given_back = [calls.start(message.nack) for message in own.receive(64)]
    for each in given_back:
        each.result()
    assert sorted(bodies(broker.queue("own-dlq").receive(64)), key=str) == sorted(range(64), key=str)


def test_a_queue_may_be_the_place_of_its_own_dead_letters(broker: leveret.Broker) -> None:
    circle = broker.queue("circle", dead_letter="circle")
    circle.send("x")
    circle.receive()[0].reject()
    assert bodies(circle.receive(10)) == ["x"]


def test_a_delayed_message_of_high_priority_blocks_nobody(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    queue = broker.queue("queue", max_priority=10)
    queue.send("delayed", priority=10, delay=60)
    queue.send("backing off", priority=9)
    queue.receive()[0].nack(delay=60)
    queue.send("visible", priority=1)
    assert bodies(queue.receive(10)) == ["visible"]
    clock.advance(60)
    assert bodies(queue.receive(10))[:2] == ["delayed", "backing off"]


def test_a_consumer_that_crashes_again_and_again_uses_up_the_tries(
    broker: leveret.Broker, clock: leveret.ManualClock
) -> None:
    queue = broker.queue("queue", visibility_timeout=30, max_deliveries=3, dead_letter="dlq")
    queue.send("poison")
    for _ in range(3):
        assert len(queue.receive()) == 1
        clock.advance(30)
    assert settled(queue)
    assert bodies(broker.queue("dlq").receive()) == ["poison"]


def test_crashes_of_the_broker_use_up_the_tries_too(home: Home) -> None:
    home.broker.queue("queue", max_deliveries=3, dead_letter="dlq").send("poison")
    for _ in range(3):
        assert len(home.broker.queue("queue").receive()) == 1
        home.broker.flush()
        home.crash()
    assert home.broker.queue("queue").receive() == []
    assert bodies(home.broker.queue("dlq").receive()) == ["poison"]


def test_a_headers_exchange_routes(broker: leveret.Broker) -> None:
    exchange = broker.exchange("headers", "headers")
    exchange.bind(broker.queue("queue"), arguments={"kind": "urgent"})
    exchange.publish("", "x", headers={"kind": "urgent"})
    assert len(broker.queue("queue")) == 1


def test_queues_exchanges_bindings_and_policies_are_found_in_what_was_stored(home: Home) -> None:
    queue = home.broker.queue("queue", visibility_timeout=7, max_priority=3, arguments={"x-max-length": 9})
    home.broker.exchange("exchange", "headers").bind(queue, arguments={"x-match": "any", "a": 1})
    home.broker.policy("short", "^queue$", {"max-length-bytes": 3, "overflow": "reject-publish"})
    declared = queue.arguments
    for _ in range(2):
        broker = home.crash()
        again = broker.queue("queue")
        assert again.arguments == declared
        assert broker.exchange("exchange").publish("", b"xx", headers={"a": 1, "b": 2}) is not None
        with pytest.raises(leveret.QueueFull):
            again.send(b"xx")
        assert again.purge() == 1


def test_order_within_a_priority_is_kept_at_every_level_within_a_millisecond(broker: leveret.Broker) -> None:
    queue = broker.queue("queue", max_priority=LEVELS - 1)
    for turn in range(20):
        queue.send_many([leveret.Outgoing([level, turn], priority=level) for level in range(LEVELS)])
    expected = [[level, turn] for level in reversed(range(LEVELS)) for turn in range(20)]
    assert bodies(queue.receive(LEVELS * 20)) == expected


@pytest.mark.parametrize("flushed", [True, False])
def test_a_crash_between_taking_and_settling_loses_nothing_and_keeps_the_order(home: Home, flushed: bool) -> None:
    queue = home.broker.queue("queue", max_priority=2)
    queue.send_many([leveret.Outgoing(number, priority=number % 2) for number in range(10)])
    assert len(queue.receive(7)) == 7
    if flushed:
        home.broker.flush()
    assert bodies(home.crash().queue("queue").receive(10)) == [1, 3, 5, 7, 9, 0, 2, 4, 6, 8]


def test_what_timed_out_is_still_older_than_what_was_sent_meanwhile(
    broker: leveret.Broker, clock: leveret.ManualClock
) -> None:
    queue = broker.queue("queue", visibility_timeout=30)
    queue.send("first")
    queue.receive()
    clock.advance(10)
    queue.send("second")
    clock.advance(20)
    assert bodies(queue.receive(2)) == ["first", "second"]


def test_shards_are_the_same_in_every_process() -> None:
    source = str(Path(leveret.__file__).parent.parent)
    routed = {
        subprocess.run(
            [sys.executable, "-c", ROUTE],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(routed) == 1
    assert routed.pop().count("'") == 2 * 64


def test_dead_letters_and_their_source_are_deleted_without_each_other(broker: leveret.Broker) -> None:
    source = broker.queue("source", dead_letter="dlq")
    source.send_many(["dead", "alive"])
    source.receive()[0].reject()
    assert broker.queue("dlq").delete() == 1
    source.receive()[0].reject()
    assert settled(source)
    assert source.delete() == 0


def test_memory_that_runs_out_evicts_no_message(tmp_path: Path, clock: leveret.ManualClock) -> None:
    with leveret.open(str(tmp_path), clock=clock, cache_bytes=10_000, **SMALL) as broker:
        queue = broker.queue("queue")
        queue.send_many([b"%06d" % number * 100 for number in range(1_000)])
        assert [message.data[:6] for message in queue.receive(1_000)] == [b"%06d" % number for number in range(1_000)]


def test_a_repeated_death_moves_to_the_front_and_keeps_its_first_time(
    broker: leveret.Broker, clock: leveret.ManualClock
) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "there", "x-delivery-limit": 2}
    here = broker.queue("here", arguments=arguments)
    there = broker.queue("there", dead_letter="here", max_deliveries=3)
    here.send("traveller")
    began = clock.now_ms() // 1000
    for queue in (here, there, here, there):
        queue.receive()[0].reject()
        clock.advance(60)
    here.receive()[0].nack(delay=0)
    for _ in range(2):
        here.receive()[0].nack(delay=0)
    deaths = there.receive()[0].headers["x-death"]
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        ("here", "delivery_limit", 1),
        ("there", "rejected", 2),
        ("here", "rejected", 2),
    ]
    assert [death["time"].timestamp() - began for death in deaths] == [240, 60, 0]


@pytest.mark.parametrize("mode", ["lazy", "default"])
def test_a_retired_argument_is_no_reason_to_refuse_a_queue(broker: leveret.Broker, mode: str) -> None:
    broker.queue("queue").send("x")
    again = broker.queue("queue", arguments={"x-queue-mode": mode})
    assert bodies(again.receive()) == ["x"]


def test_a_late_acknowledgement_is_refused_with_advice(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    queue = broker.queue("queue", visibility_timeout=3)
    queue.send("x")
    (late,) = queue.receive()
    clock.advance(3)
    with pytest.raises(leveret.InvalidReceipt, match="has ended"):
        late.ack()
    (holder,) = queue.receive()
    holder.ack()
    assert settled(queue)


def test_messages_that_time_out_together_keep_their_order(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    queue = broker.queue("queue", visibility_timeout=3)
    queue.send_many(range(5))
    for _ in range(3):
        queue.receive()
    clock.advance(3)
    assert bodies(queue.receive(5)) == [0, 1, 2, 3, 4]
