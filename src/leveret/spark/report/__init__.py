"""Reports on queues: tables, a page with plots, and a few lines for a terminal, from the events of a broker."""

from leveret.spark.report.job import Report, build
from leveret.spark.report.service import Objective

__all__ = ["Objective", "Report", "build"]
