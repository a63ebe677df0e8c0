"""Messages that are not persistent, when a shard is given to another node on purpose: they go with it.

    let go       they are journaled as they are, and a definition says that the next owner may have them
    taken over   it does: they stay, and no owner after this one gets them
    otherwise    they are dropped, as by any restart of a broker

What is in queues that are not durable is lost in any case.
"""

from __future__ import annotations

from leveret.core.broker import Broker
from leveret.core.catalog import Kind
from leveret.core.restore import drop_transient, transient

KEPT_BYTES_MAX = 64 << 20  # of a shard: who leaves has ten seconds for all of them; what is over is lost
KEY = {"name": "transient"}


def pack(core: Broker) -> None:
    """Journal what is in memory only, the oldest first; the last act of an owner, under the lock."""
    core.restorer.relocate(0, KEPT_BYTES_MAX)
    if any(queue.durable and transient(queue) for queue in core.queues.values()):
        core.define(Kind.HANDOVER, {**KEY, "planned": True})


def unpack(core: Broker) -> None:
    """Keep what the last owner has packed, or drop it; the first act of an owner, under the lock."""
    found = core.catalog.get(Kind.HANDOVER, **KEY)
    if found is None:
        return
    if found["planned"]:
        core.define(Kind.HANDOVER, {**KEY, "planned": False})
    else:
        for queue in core.queues.values():
            drop_transient(queue)
        core.undefine(Kind.HANDOVER, KEY)
