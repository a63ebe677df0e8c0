"""Streams over AMQP of a broker on PostgreSQL."""

from typing import Any

import pytest

from leveret.storage.stream import postgres
from tests.protocols.amqp.client import World
from tests.protocols.amqp.test_streams import bodies, consume, declare, publish


def test_old_records_in_a_database_are_fetched_elsewhere(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PAGE_BYTES", 1 << 10)
    monkeypatch.setattr(postgres, "PAGES_MAX", 4)
    first = World(path=store_url)
    client = first.client()
    declare(client)
    sent = [str(number) * 50 for number in range(100)]
    publish(client, *sent)
    first.close()
    second = World(path=store_url)
    fetched = []
    in_thread = second.hub.in_thread

    def fetch(job: Any, done: Any) -> None:
        fetched.append(job)
        in_thread(job, done)

    monkeypatch.setattr(second.hub, "in_thread", fetch)
    client = second.client()
    consume(client, x_stream_offset="first")
    assert bodies(client) == sent
    assert fetched
    second.close()
