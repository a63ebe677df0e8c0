import asyncio

import pytest

from leveret.server.process import noticed


async def fail() -> None:
    raise LookupError("nobody thought of this")


def test_a_job_that_ends_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        await asyncio.wait([noticed(asyncio.create_task(fail()))])

    asyncio.run(run())
    assert [record.message for record in caplog.records] == ["job failed"]


def test_a_job_that_is_cancelled_is_nothing_to_speak_of(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        task = noticed(asyncio.create_task(asyncio.sleep(60)))
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())
    assert not caplog.records
