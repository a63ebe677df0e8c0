"""Rates from samples, and the history that samples make."""

import asyncio

import pytest

import leveret
from leveret.clock import ManualClock
from leveret.core.errors import JournalFailed, StoreUnreachable
from leveret.protocols.management import rates
from leveret.protocols.management.rates import DEPTHS, STATS, Rates, SampleRange, SampleSeries, counted, message_stats


def sampled(clock: ManualClock, watched: Rates) -> None:
    clock.advance(5)
    asyncio.run(watched.sample())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


def test_a_rate_is_what_happened_between_two_samples(clock: ManualClock) -> None:
    with leveret.open(clock=clock) as broker:
        queue = broker.queue("q")
        watched = Rates(broker.runtime, dict)
        sampled(clock, watched)
        queue.send_many([b"x"] * 10)
        sampled(clock, watched)
        with broker.runtime:
            stats = message_stats(counted(queue.core), watched.of(queue.core))
            ready = watched.of(queue.core).details(len(STATS) + DEPTHS.index("messages_ready"))
        assert (stats["publish"], stats["publish_details"], ready) == (10, {"rate": 2.0}, {"rate": 2.0})
        assert watched.total.details(STATS.index("publish")) == {"rate": 2.0}
        sampled(clock, watched)
        with broker.runtime:
            assert watched.of(queue.core).details(0) == {"rate": 0.0}


def test_a_sample_that_fails_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "SAMPLE_S", 0)
    outcomes = [StoreUnreachable("the store does not answer"), JournalFailed("another node has it")]

    async def sample() -> None:
        raise outcomes.pop(0)

    with leveret.open() as broker:
        watched = Rates(broker.runtime, dict)
        monkeypatch.setattr(watched, "sample", sample)
        with pytest.raises(JournalFailed, match="another node"):
            asyncio.run(watched.run())


def test_samples_of_a_range_are_told_newest_first(clock: ManualClock) -> None:
    with leveret.open(clock=clock) as broker:
        queue = broker.queue("q")
        watched = Rates(broker.runtime, dict)
        for _ in range(4):
            sampled(clock, watched)
            queue.send(b"x")
        found = watched.total.details(STATS.index("publish"), SampleRange(10, 5))
    assert [row["sample"] for row in found["samples"]] == [3, 2, 1]
    assert [row["timestamp"] for row in found["samples"]] == [1_020_000, 1_015_000, 1_010_000]
    assert (found["avg"], found["avg_rate"]) == (2.0, 0.2)


def test_totals_stay_when_a_queue_is_deleted(clock: ManualClock) -> None:
    with leveret.open(clock=clock) as broker:
        watched = Rates(broker.runtime, dict)
        queue = broker.queue("q")
        queue.send(b"x")
        sampled(clock, watched)
        queue.delete()
        sampled(clock, watched)
        assert watched.total.samples[-1][1][STATS.index("publish")] == 1
        with broker.runtime as core:
            assert watched.churn(core) == {"queue_declared": 1, "queue_created": 1, "queue_deleted": 1}


def test_idle_queues_have_no_history(clock: ManualClock) -> None:
    with leveret.open(clock=clock) as broker:
        queues = [broker.queue(f"q{number}") for number in range(3)]
        watched = Rates(broker.runtime, dict)
        sampled(clock, watched)
        queues[0].send(b"x")
        sampled(clock, watched)
        with broker.runtime:
            assert [bool(watched.of(each.core).samples) for each in queues] == [True, False, False]
        for _ in range(rates.HISTORY):
            sampled(clock, watched)
        with broker.runtime:
            assert not watched.of(queues[0].core).samples


def test_only_so_many_queues_have_a_history(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "SERIES_MAX", 1)
    with leveret.open(clock=clock) as broker:
        queues = [broker.queue(f"q{number}") for number in range(3)]
        watched = Rates(broker.runtime, dict)
        sampled(clock, watched)
        for queue in queues:
            queue.send(b"x")
        sampled(clock, watched)
        with broker.runtime:
            assert sum(bool(watched.of(each.core).samples) for each in queues) == 1


def test_history_is_bounded() -> None:
    series = SampleSeries()
    for number in range(100):
        series.add(number, (number,))
    assert len(series.samples) == rates.HISTORY
