"""Whoever stages waits for the store, and nobody else does."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import leveret
from leveret.core.errors import BrokerClosed
from leveret.ingest.commit_log import Sink
from leveret.ingest.quota import Quota, StagingLimits
from leveret.ingest.sinks import Sinks
from tests.ingest.batches import bodies, row_group, texts
from tests.waiting import PATIENCE_S

SINK = Sink("/", "guest", "s")
LIMITS = StagingLimits(10_000, 10_000, 10_000, 10, 10, age_ms=60_000)
DATA = row_group(bodies(0, 2), texts("queue", [b"orders", b"orders"]))


def test_a_piece_that_waits_for_its_store_holds_up_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def late(*_: object) -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    async def main(sinks: Sinks) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        putting = asyncio.create_task(sinks.put(SINK, "p", 0, DATA, lambda destination: None))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.to_thread(begun.wait)
        finally:
            for each in (begun, go_on):
                each.set()
        assert await putting == 2
        sinks.close()
        with pytest.raises(BrokerClosed, match="the server stops"):
            await sinks.put(SINK, "p", 1, DATA, lambda destination: None)

    with leveret.open(tmp_path, sync="never") as broker:
        sinks = Sinks(broker.runtime, str(tmp_path), Quota(LIMITS), 10)
        monkeypatch.setattr(sinks._staging, "put", late)
        asyncio.run(main(sinks))
