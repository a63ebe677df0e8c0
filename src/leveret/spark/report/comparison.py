"""Two periods of a history beside each other: what each queue did before, and does now; counts are by the hour."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.spark.report.period import ReportSpan
from leveret.spark.report.service import QUEUE, united

COUNTS = ("messages", "acked", "dead")
FIGURES = ("error_share", "depth_max", "waiting_p95_ms", "processing_p95_ms", "in_time_share")
HOUR_S = 3_600
COMPARED = (*(f"{name}_per_hour" for name in COUNTS), *FIGURES)


def compared(now: DataFrame, span: ReportSpan, before: DataFrame, earlier: ReportSpan) -> DataFrame:
    """Each queue of either period: every figure as it is (`NAME`) and as it was (`NAME_before`)."""
    tables = [_figures(now, span, ""), _figures(before, earlier, "_before")]
    return united(tables, QUEUE)


def _figures(queues: DataFrame, span: ReportSpan, suffix: str) -> DataFrame:
    hours = max(1.0, (span.until - span.first).total_seconds()) / HOUR_S
    figures: dict[str, Column] = {f"{name}_per_hour": F.col(name) / hours for name in COUNTS}
    figures |= {name: F.col(name) for name in FIGURES}
    return queues.select(*QUEUE, *(figure.alias(name + suffix) for name, figure in figures.items()))
