"""The metrics that expressions of Prometheus name."""

import re
from collections.abc import Iterable

METRIC = re.compile(r"\b(?:leveret_|rabbitmq_|process_)[a-z0-9_]+\b|\bup\b")


def metrics_in(expressions: Iterable[str]) -> set[str]:
    """Every metric in some expressions; what stands in quotes is no metric."""
    return {name for each in expressions for name in METRIC.findall(re.sub(r'"[^"]*"', "", each))}
