"""Messages before they are published again: chosen by a condition, changed by expressions of SQL, and aimed."""

import re
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.core.errors import InvalidArgument

PUBLISHED = (
    "value",
    "exchange",
    "routing_key",
    "priority",
    "message_id",
    "correlation_id",
    "content_type",
    "content_encoding",
    "reply_to",
    "delay_ms",
    "ttl_ms",
    "type",
    "app_id",
    "timestamp",
    "headers",
    "message_group_id",
    "dedup_id",
)
"""The columns of a message that are published again. A user id is not: the publisher is another user now."""
EDITS_MAX = 100
REHEARSAL_ID = "x-rehearsal-id"
"""Which message of the rehearsed period it is (rehearsal.py)."""
# Headers that brokers write: where a message died is history, and a de-duplicated one would not arrive twice.
_OWN_HEADERS = (
    "x-death",
    "x-first-death-",
    "x-last-death-",
    "x-delivery-count",
    "x-origin-id",
    "x-received",
    "x-deduplication-id",
    "x-group-id",
    REHEARSAL_ID,
)
_EDIT = re.compile(r"\s*(\w+)\s*=(?!=)(.+)", re.DOTALL)


@dataclass(frozen=True)
class Aim:
    """Where messages go: a queue, an exchange (with their routing keys), or neither: back to where they came from.

    A dead letter came from the queue in which it died first, any other message from the queue that it was in.
    """

    queue: str | None = None
    exchange: str | None = None

    def __post_init__(self) -> None:
        if self.queue is not None and self.exchange is not None:
            raise InvalidArgument("a queue and an exchange are given: messages go to one of them")


def chosen(rows: DataFrame, where: str | None) -> DataFrame:
    """The messages that a condition chooses."""
    if where is None:
        return rows
    try:
        found = rows.where(where)
        found.schema  # noqa: B018  a remote session looks at a query only when it is asked
        return found
    except (AnalysisException, ParseException) as error:
        raise InvalidArgument(f"where {where!r}: {_sentence(error)}") from None


def aimed(rows: DataFrame, aim: Aim) -> DataFrame:
    """Messages with the exchange and routing key that they go to."""
    if aim.exchange is not None:
        return rows.withColumn("exchange", F.lit(aim.exchange))
    origin = F.coalesce(F.col("headers")["x-first-death-queue"], F.element_at("x_death", -1)["queue"], F.col("queue"))
    target: Column = F.lit(aim.queue) if aim.queue is not None else origin
    return rows.withColumns({"exchange": F.lit(""), "routing_key": target})


def cleaned(rows: DataFrame) -> DataFrame:
    """Messages as if they had never been in a queue: without what brokers wrote into them."""
    own = [F.lit(name) for name in _OWN_HEADERS]

    def is_theirs(name: Column, value: Column) -> Column:
        return ~F.exists(F.array(*own), lambda prefix: F.startswith(name, prefix))

    return rows.withColumns(
        {
            "headers": F.map_filter("headers", is_theirs),
            "dedup_id": F.lit(None).cast("string"),
            "ttl_ms": F.expr("try_cast(expiration as bigint)"),
            "delay_ms": F.lit(None).cast("bigint"),
        }
    )


def edited(rows: DataFrame, edits: tuple[str, ...]) -> DataFrame:
    """Messages with some columns changed, all at once: every expression sees them as they were."""
    if not edits:
        return rows
    if len(edits) > EDITS_MAX:
        raise InvalidArgument(f"{len(edits)} edits: give up to {EDITS_MAX}")
    changes: dict[str, Column] = {}
    for edit in edits:
        name, expression = _parsed(edit)
        if name in changes:
            raise InvalidArgument(f"set {edit!r}: {name} is set twice")
        kind = rows.schema[name].dataType
        try:
            changes[name] = F.expr(expression).cast(kind)
            rows.select(changes[name]).schema  # noqa: B018  as above
        except (AnalysisException, ParseException) as error:
            raise InvalidArgument(f"set {edit!r}: {_sentence(error)}") from None
    return rows.withColumns(changes)


def _parsed(edit: str) -> tuple[str, str]:
    """The column and the expression of an edit."""
    match = _EDIT.fullmatch(edit)
    if match is None or match[1] not in PUBLISHED:
        raise InvalidArgument(f"set {edit!r}: write COLUMN = EXPRESSION, with one of {', '.join(PUBLISHED)}")
    return match[1], match[2]


def _sentence(error: Exception) -> str:
    """The first line of what Spark says, without its code."""
    first = str(error).strip().splitlines()[0]
    return re.sub(r"^\[[\w.]+\]\s*", "", first).split(" SQLSTATE")[0]
