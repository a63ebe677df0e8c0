"""Streams for readers of very much: GET /queues/{queue}/offsets, GET /queues/{queue}/blocks."""

import re

from leveret.protocols.http.response import Response, json_response
from leveret.protocols.rest.fields import PatternText, RecordField, Whole
from leveret.protocols.rest.operation import Answer, Operation, RestCall
from leveret.runtime.blocks import BLOCKS_BYTES_MAX, PartitionOffsets, blocks, offsets

MEDIA_TYPE = "application/vnd.leveret.blocks"
OFFSET_MAX = (1 << 63) - 1
PARTITION_MAX = 1 << 16
AFTER_CHARS_MAX = 32_768
"""Room for a partition and an offset for each of as many partitions as there can be."""
PAIRS = re.compile("[0-9]{1,18}:[0-9]{1,18}(?:,[0-9]{1,18}:[0-9]{1,18})*")
_NUMBER = {"type": "integer"}
_OFFSETS = {
    "type": "object",
    "required": ["partitions"],
    "properties": {
        "partitions": {
            "type": "array",
            "items": {"type": "object", "properties": dict.fromkeys(PartitionOffsets._fields, _NUMBER)},
        }
    },
}


async def show_offsets(call: RestCall) -> Answer:
    """The offsets of every partition."""
    queue, query = call.queue, call.query
    after = _pairs(query["after"]) if "after" in query else None
    rows = await call.async_broker.in_thread(
        lambda: offsets(queue.core, query.get("timestamp_ms"), after, query.get("bytes"))
    )
    told = [{name: value for name, value in row._asdict().items() if value is not None} for row in rows]
    return json_response({"partitions": told})


def _pairs(text: str) -> dict[int, int]:
    """Partitions and offsets, as in 0:42,1:17."""
    pairs = (pair.split(":") for pair in text.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


async def read_blocks(call: RestCall) -> Answer:
    """Blocks as they lie in the log."""
    queue, query = call.queue, call.query
    size = query.get("bytes", BLOCKS_BYTES_MAX)
    partition, offset, end = query.get("partition", 0), query["offset"], query.get("end", OFFSET_MAX)
    data = await call.async_broker.in_thread(lambda: blocks(queue.core, partition, offset, end, size))
    return Response(200, data, MEDIA_TYPE)


OPERATIONS = (
    Operation(
        "GET",
        "/queues/{queue}/offsets",
        "Look at the offsets of a stream",
        show_offsets,
        "stream.read",
        {200: ("The oldest and the next offset of each partition.", _OFFSETS)},
        query=RecordField(
            "What else is wanted.",
            {
                "timestamp_ms": Whole("`at`: the offset of the first record of this time or later.", 0, OFFSET_MAX),
                "after": PatternText(
                    "`reach`: begin at these offsets of these partitions, such as 0:42,1:17.",
                    PAIRS,
                    "a partition and an offset for some partitions, such as 0:42,1:17",
                    AFTER_CHARS_MAX,
                ),
                "bytes": Whole("`reach`: the offset after about so many bytes.", 1, OFFSET_MAX),
            },
        ),
    ),
    Operation(
        "GET",
        "/queues/{queue}/blocks",
        "Read records of a stream as they lie in the log, many at a time",
        read_blocks,
        "stream.read",
        {
            200: (
                "Whole blocks: the first may begin before the offset, the last may go on after the end.",
                {"type": "string", "contentMediaType": MEDIA_TYPE},
            )
        },
        query=RecordField(
            "Which records.",
            {
                "partition": Whole("Of which partition; default: 0.", 0, PARTITION_MAX),
                "offset": Whole("From this offset on.", 0, OFFSET_MAX, required=True),
                "end": Whole("Up to before this offset.", 0, OFFSET_MAX),
                "bytes": Whole("About how many at most.", 1, BLOCKS_BYTES_MAX),
            },
        ),
    ),
)
