"""What a node keeps on its disk, and which versions of what it is made of."""

from __future__ import annotations

import asyncio
import platform
import ssl
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version

from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.nodes import check_node
from leveret.protocols.management.refusals import answer
from leveret.runtime.runtime import Runtime
from leveret.runtime.stats import journal_stats

SUMMED = ("frames", "syncs", "segments", "log_bytes", "unwritten_bytes", "cached_bytes")


async def look(call: ManagementCall) -> Answer:
    """The storage of this node."""
    check_node(call)
    runtimes = call.context.runtimes
    journal = await asyncio.to_thread(_journal, runtimes)
    return answer(
        {"journal": journal, "streams": _streams(runtimes), "versions": versions(call.context.process.version)}
    )


def _journal(runtimes: Sequence[Runtime]) -> Row | None:
    """The journal, or those of shards together, if there are any.

    All queues would have to be counted to tell how many messages each sync had.
    """
    found = [journal_stats(each.store, each.first_batch, 0) for each in runtimes if each.store is not None]
    if not found:
        return None
    sums = {name: sum(getattr(stats, name) for stats in found) for name in SUMMED}
    problem = next((stats.archive_problem for stats in found if stats.archive_problem is not None), None)
    return {"sync": found[0].sync, **sums, "full": any(stats.full for stats in found), "archive_problem": problem}


def _streams(runtimes: Sequence[Runtime]) -> Row:
    """All streams together."""
    partitions: list[dict[str, int]] = []
    for runtime in runtimes:
        with suppress(BrokerClosed, JournalFailed), runtime as core:
            streams = [queue.recorder for queue in core.queues.values() if queue.recorder is not None]
            partitions += [figures for recorder in streams for figures in recorder.figures()]
    return {
        "partitions": len(partitions),
        "segments": sum(each["segments"] for each in partitions),
        "bytes": sum(each["size_bytes"] for each in partitions),
    }


def versions(product: str) -> dict[str, str]:
    """What a report of a problem should have."""
    return {
        "Leveret": product,
        "Python": platform.python_version(),
        "uvloop": version("uvloop"),
        "TLS": ssl.OPENSSL_VERSION,
        "System": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }
