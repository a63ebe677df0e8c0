"""The table `events`: one row for each thing that happened to one message in one queue.

    event      published moved delivered returned settled purged spared defined
               refused appended read started counted lost
    reason     of published: `transient` if it was in memory only; of settled: how it left; of returned: why it came
               back; of defined: what was defined; of refused: why; of counted: the counter
    at         when; for moved, returned and defined the time of the commit
    seq        the number of the message; for purged: all below it left, but for those that are `spared`; for appended
               and read: how many there were since the start
    exchange   of refused, if no queue was to get the message

These are of no message: `started`, the broker was opened, and transient messages below `seq` are gone. `lost`, `seq`
events were dropped because the writer did not keep up. `counted`, a counter of a queue went up by `seq`; without a
queue it ends such a count, which is of what happened in `held_ms` until then.

`moved` repeats a publish whose old segment was to go.
"""

import pyarrow as pa
import pyarrow.compute as pc

from leveret.core.definition_log import REMOVED, Kind
from leveret.core.outcomes import DEATHS
from leveret.core.tally import COUNTERS
from leveret.spark.columns import (
    DUE_AT,
    ColumnBatch,
    Table,
    TableColumn,
    bigint,
    integer,
    looked_up,
    queue_id,
    queue_name,
    queue_vhost,
    timestamp,
)
from leveret.storage.journal.columns import KINDS

# By the numbers that core/ports.pxd gives them.
SETTLED = (
    "acked",
    "rejected",
    "expired",
    "maxlen",
    "delivery_limit",
    "purged",
    "cancelled",
    "moved",
    "retired",
    "auto_acked",
)
RETURNED = ("nacked", "timed_out", "requeued", "delayed")
DEFINED = {kind.value: kind.name.lower() for kind in Kind} | {
    kind.value | REMOVED: f"{kind.name.lower()} removed" for kind in Kind
}
_HOWS = 256
_NUMBER = {name: number for number, name in KINDS.items()}
REFUSED = ("full", "full_dead_lettered", "too_large", "unroutable", "returned", "no_room")
TRANSIENT = "transient"
REASONS: dict[int, str] = (
    {_NUMBER["published"] * _HOWS: TRANSIENT}
    | {_NUMBER["refused"] * _HOWS + how: name for how, name in enumerate(REFUSED)}
    | {_NUMBER["counted"] * _HOWS + how: name for how, name in enumerate(COUNTERS)}
    | {_NUMBER["settled"] * _HOWS + how: name for how, name in enumerate(SETTLED)}
    | {_NUMBER["returned"] * _HOWS + how: name for how, name in enumerate(RETURNED)}
    | {_NUMBER["defined"] * _HOWS + how: name for how, name in DEFINED.items()}
)


def _event(batch: ColumnBatch) -> pa.Array:
    """What happened."""
    return looked_up(batch.array("kind", pa.uint8()), KINDS)


def _reason(batch: ColumnBatch) -> pa.Array:
    """Why it happened."""
    kinds, hows = (batch.array(name, pa.uint8()).cast(pa.int32()) for name in ("kind", "how"))
    return looked_up(pc.add(pc.multiply(kinds, _HOWS), hows), REASONS)


def _consumer(batch: ColumnBatch) -> pa.Array:
    """Who had it."""
    return pc.if_else(
        _is(batch, "refused"), None, looked_up(batch.array("consumer", pa.int32()), batch.names.consumers)
    )


def _exchange(batch: ColumnBatch) -> pa.Array:
    """Where a message came that no queue was to get: exchanges are numbered as consumers are."""
    return pc.if_else(
        _is(batch, "refused"), looked_up(batch.array("consumer", pa.int32()), batch.names.consumers), None
    )


def _is(batch: ColumnBatch, event: str) -> pa.Array:
    return pc.equal(batch.array("kind", pa.uint8()), _NUMBER[event])


def _dead_lettered(batch: ColumnBatch) -> pa.Array:
    """Of what died: whether its queue has a dead-letter exchange."""
    keeping = {number: queue.keeps_dead for number, queue in batch.names.queues.items()}
    known = pa.array(list(keeping), pa.int32())
    kept = pa.array(keeping.values(), pa.bool_()).take(pc.index_in(batch.array("queue", pa.int32()), value_set=known))
    died = pc.and_(_is(batch, "settled"), pc.is_in(_reason(batch), value_set=pa.array(DEATHS)))
    return pc.if_else(died, kept, pa.scalar(None, pa.bool_()))


EVENTS: Table = {
    "event": TableColumn("string", pa.string(), _event),
    "at": timestamp("at_ms"),
    "vhost": TableColumn("string", pa.string(), queue_vhost),
    "queue": TableColumn("string", pa.string(), queue_name),
    "queue_id": TableColumn("bigint", pa.int64(), queue_id),
    "seq": bigint("seq"),
    "reason": TableColumn("string", pa.string(), _reason),
    "deliveries": integer("deliveries"),
    "held_ms": bigint("held_ms"),
    "consumer": TableColumn("string", pa.string(), _consumer),
    "priority": integer("priority"),
    "bytes": bigint("bytes"),
    "enqueued_at": timestamp("enqueued_ms"),
    "due_at": DUE_AT,
    "expires_at": timestamp("expiry_ms"),
    "dead_lettered": TableColumn("boolean", pa.bool_(), _dead_lettered),
    "exchange": TableColumn("string", pa.string(), _exchange),
}
