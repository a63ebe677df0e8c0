"""How Spark finds `format("leveret")` without registration: it looks into packages that are named pyspark_*."""

from leveret.pipeline.source import LeveretSource as DefaultSource

__all__ = ["DefaultSource"]
