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
