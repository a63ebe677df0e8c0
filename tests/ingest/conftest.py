"""A broker on files behind HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import leveret
from tests.protocols.rest.world import RestWorld
from tests.waiting import PATIENCE_S


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestWorld]:
    """One whose commits are answered when they are done, however long that takes."""
    monkeypatch.setattr("leveret.ingest.sinks.COMMIT_S", PATIENCE_S)
    with leveret.open(tmp_path / "data", sync="never") as broker, RestWorld(broker) as running:
        broker.queue("orders")
        yield running


def received(queue: leveret.Queue) -> list[bytes]:
    """Everything in a queue, in order, taken."""
    found: list[bytes] = []
    while taken := queue.receive(100):
        found += [message.data for message in taken]
        queue.ack_many(taken)
    return found
