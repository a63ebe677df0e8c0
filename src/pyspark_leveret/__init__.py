"""How Spark finds `format("leveret")` without registration: it looks into packages that are named pyspark_*."""

from leveret.spark.source import LeveretSource as DefaultSource

__all__ = ["DefaultSource"]
