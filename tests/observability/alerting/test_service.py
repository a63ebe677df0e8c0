"""Alerting as the server joins it: options, looks now and then, counts for metrics."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import leveret
from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument, JournalFailed, StoreUnreachable, Unreachable
from leveret.observability.alerting.rules import DEFAULTS
from leveret.observability.alerting.service import Alerting, begin_silence
from leveret.observability.alerting.silences import Silence
from leveret.runtime.runtime import Runtime
from leveret.server.management import alerting_of
from tests.observability.alerting.sinks import WebSink
from tests.waiting import PATIENCE_S, POLL_S

MINUTE_MS = 60_000


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


@pytest.fixture
def broker(clock: leveret.ManualClock) -> Iterator[leveret.Broker]:
    with leveret.open(clock=clock) as opened:
        yield opened


def alerting(runtime: Runtime, folder: Path, **options: object) -> Alerting:
    return alerting_of(ServerOptions(data=str(folder), **options), runtime)  # type: ignore[arg-type]


def test_authorities_that_cannot_be_read_are_refused(broker: leveret.Broker, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="alerts_ca"):
        alerting(broker.runtime, tmp_path, alerts_ca=str(tmp_path / "missing.pem"))


def test_with_a_time_of_0_nobody_looks(broker: leveret.Broker, tmp_path: Path) -> None:
    service = alerting(broker.runtime, tmp_path)
    broker.queue("orders").send_many([b""] * 20_000)
    asyncio.run(service.run(0))
    assert service.alerts() == []


def test_a_look_that_fails_is_not_the_last_one(
    broker: leveret.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = [StoreUnreachable("the store does not answer"), JournalFailed("another node has it")]

    async def look() -> None:
        raise outcomes.pop(0)

    service = alerting(broker.runtime, tmp_path)
    monkeypatch.setattr(service, "look", look)
    with pytest.raises(JournalFailed, match="another node"):
        asyncio.run(service.run(0.001))


def test_what_fires_is_counted_by_rule(broker: leveret.Broker, clock: leveret.ManualClock, tmp_path: Path) -> None:
    service = alerting(broker.runtime, tmp_path)
    for name in ("a", "b"):
        broker.queue(name).send(b"")
    clock.advance(301)
    asyncio.run(service.look())
    assert service.firing_counts() == {**dict.fromkeys(DEFAULTS, 0), "message_age": 2}


def test_a_group_that_is_behind_is_seen(broker: leveret.Broker, tmp_path: Path) -> None:
    service = alerting(broker.runtime, tmp_path)
    stream = broker.stream("events", partitions=2)
    stream.group("readers")
    with broker.runtime:
        service.book.put_rule({"name": "lag", "figure": "lag_max", "limit": 5})
    stream.send_many([b""] * 10)
    asyncio.run(service.look())
    assert [(row["queue"], row["value"]) for row in service.alerts()] == [("events", 10)]
    stream.delete()
    asyncio.run(service.look())
    assert service.alerts() == []


def test_a_silence_ends_by_itself(broker: leveret.Broker, clock: leveret.ManualClock, tmp_path: Path) -> None:
    service = alerting(broker.runtime, tmp_path)
    with broker.runtime as core:
        told = {"until_ms": core.now_ms + MINUTE_MS, "why": "we know"}
        service.silenced(begin_silence(service.book, told, "ada", core.now_ms))
    asyncio.run(service.look())
    assert len(service.book.silences()) == 1
    clock.advance(61)
    asyncio.run(service.look())
    assert service.book.silences() == []
    assert [row["event"] for row in service.history.recent()] == ["unsilenced", "silenced"]


def test_looks_go_on_while_definitions_cannot_be_changed(broker: leveret.Broker, tmp_path: Path) -> None:
    async def refuse(action: object) -> None:
        raise Unreachable("the store is away")

    service = alerting_of(ServerOptions(data=str(tmp_path)), broker.runtime, change=refuse)
    with broker.runtime as core:
        service.book.put_silence(Silence("old", "*", "*", "*", 0, core.now_ms, "ada", "we know"))
    broker.queue("orders").send_many([b""] * 20_000)
    asyncio.run(service.look())
    assert service.alerts() != []
    assert [each.name for each in service.book.silences()] == ["old"]


def look(folder: Path, clock: leveret.ManualClock) -> tuple[set[str], list[str]]:
    """Open a broker and its alerting, as after a restart, and look once: what fires, and what is news."""
    with leveret.open(folder / "broker", clock=clock) as broker:
        service = alerting(broker.runtime, folder)
        before = len(service.history.recent())
        asyncio.run(service.look())
        news = service.history.recent()[: len(service.history.recent()) - before]
        return {row["rule"] for row in service.alerts() if row["state"] == "firing"}, [row["event"] for row in news]


def test_what_fires_survives_a_restart_until_the_figure_is_known(clock: leveret.ManualClock, tmp_path: Path) -> None:
    every = {"dead_letters", "error_rate", "processing_time", "no_consumers"}
    with leveret.open(tmp_path / "broker", clock=clock) as broker:
        service = alerting(broker.runtime, tmp_path)
        broker.queue("waiting").send_many([b"", b""])
        orders = broker.queue("orders", dead_letter="dead", visibility_timeout=600)
        orders.send_many([b""] * 202)
        asyncio.run(service.look())
        taken = orders.receive(202)
        clock.advance(40)
        for number, message in enumerate(taken):
            message.ack() if number % 2 else message.reject()
        for _ in range(2):
            asyncio.run(service.look())
            clock.advance(61)
        asyncio.run(service.look())
        assert every <= {row["rule"] for row in service.alerts() if row["state"] == "firing"}
    fires, news = look(tmp_path, clock)
    assert (every - fires, news) == (set(), [])
    with leveret.open(tmp_path / "broker", clock=clock) as broker:
        service = alerting(broker.runtime, tmp_path)
        for seconds, still in (
            (0, every),
            (61, every),
            (300, {"dead_letters", "no_consumers"}),
            (3_600, {"no_consumers"}),
        ):
            clock.advance(seconds)
            asyncio.run(service.look())
            assert every & {row["rule"] for row in service.alerts() if row["state"] == "firing"} == still
        broker.queue("waiting").receive()
        asyncio.run(service.look())
        assert not [row for row in service.alerts() if row["queue"] == "waiting" and row["rule"] == "no_consumers"]


async def told_of(service: Alerting, count: int) -> None:
    """Wait until receivers have taken so many notifications."""
    async with asyncio.timeout(PATIENCE_S):
        while [row["event"] for row in service.history.recent()].count("sent") < count:
            await asyncio.sleep(POLL_S)


def test_the_end_that_a_silence_held_back_is_told_after_a_restart(clock: leveret.ManualClock, tmp_path: Path) -> None:
    receiver = {"name": "ops", "kind": "webhook", "group_s": 0}
    with WebSink() as sink:
        with leveret.open(tmp_path / "broker", clock=clock) as broker:
            service = alerting(broker.runtime, tmp_path)
            with broker.runtime:
                service.book.put_receiver({**receiver, "url": sink.url})
            orders = broker.queue("orders")
            orders.send(b"")
            clock.advance(301)

            async def fire_and_end() -> None:
                await service.look()
                await told_of(service, 1)
                with broker.runtime as core:
                    told = {"until_ms": core.now_ms + MINUTE_MS, "why": "we know"}
                    service.silenced(begin_silence(service.book, told, "ada", core.now_ms))
                for message in orders.receive(1):
                    message.ack()
                clock.advance(1)
                await service.look()
                await service.run(0)

            asyncio.run(fire_and_end())
            assert sink.next().body["status"] == "firing"
        with leveret.open(tmp_path / "broker", clock=clock) as broker:
            service = alerting(broker.runtime, tmp_path)

            async def wait_for_the_end() -> None:
                await service.look()
                assert sink.posts.empty()
                clock.advance(61)
                await service.look()
                await told_of(service, 2)
                await service.run(0)

            asyncio.run(wait_for_the_end())
            assert sink.next().body["status"] == "resolved"
