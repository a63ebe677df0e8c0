"""What a node keeps on its disk, and which versions of what it is made of."""

from __future__ import annotations

import platform
import ssl
from functools import partial
from importlib.metadata import version

from leveret.core.broker import Broker
from leveret.embedded.guard import Guard
from leveret.embedded.stats import journal_stats
from leveret.http.management.call import Call
from leveret.http.management.nodes import check_node
from leveret.http.management.refusals import answer
from leveret.http.management.site import Row
from leveret.http.router import Answer

JOURNAL = (
    "sync",
    "frames",
    "syncs",
    "segments",
    "log_bytes",
    "unwritten_bytes",
    "cached_bytes",
    "full",
    "archive_problem",
)


async def look(call: Call) -> Answer:
    """The storage of this node."""
    check_node(call)
    guard = call.site.desk.guard
    with guard as core:
        streams = _streams(core)
    journal = await call.site.desk.elsewhere(partial(_journal, guard))
    return answer({"journal": journal, "streams": streams, "versions": versions(call.site.process.version)})


def _journal(guard: Guard) -> Row | None:
    """The journal, if there is one; all queues would have to be counted to tell how many messages each sync had."""
    if guard.store is None:
        return None
    stats = journal_stats(guard.store, guard.first_frame, 0)
    return {name: getattr(stats, name) for name in JOURNAL}


def _streams(core: Broker) -> Row:
    """All streams together; under the lock."""
    partitions = [
        figures for queue in core.queues.values() if queue.recorder is not None for figures in queue.recorder.figures()
    ]
    return {
        "partitions": len(partitions),
        "segments": sum(each["segments"] for each in partitions),
        "bytes": sum(each["size_bytes"] for each in partitions),
    }


def versions(product: str) -> dict[str, str]:
    """What whoever reports a problem is asked for."""
    return {
        "Leveret": product,
        "Python": platform.python_version(),
        "uvloop": version("uvloop"),
        "TLS": ssl.OPENSSL_VERSION,
        "System": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }
