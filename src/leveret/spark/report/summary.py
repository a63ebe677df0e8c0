"""The report in a terminal: a few lines and plain tables."""

from leveret.observability.alert_rules import RULES
from leveret.spark.report.findings import Findings
from leveret.spark.report.page import QUEUES, Cell
from leveret.spark.report.wording import figure, label, moment, number, share


def summary(found: Findings) -> str:
    """What matters most, in text."""
    every = found.summary
    in_time = every["in_time"] / every["judged"] if every["judged"] else None
    lines = [
        f"{moment(found.span.first)} to {moment(found.span.until)} UTC: {number(every['messages'])} messages in "
        f"{found.queues_total} queues, {number(every['acked'])} acknowledged, {number(every['dead'])} dead, "
        f"{number(every['open'])} open, {share(in_time)} in time",
        "",
        *text_table(QUEUES, found.queues),
        "",
    ]
    units = {rule.name: rule.unit for rule in RULES}
    alerts = [
        f"{row['severity'].upper()} {row['rule']}: {label(row)} {figure(row['worst'], units[row['rule']])} "
        f"(limit {figure(row['limit'], units[row['rule']])}) at {moment(row['worst_at'])}"
        for row in found.of("alerts")
    ]
    return "\n".join(lines + (alerts or [f"none of the {len(RULES)} alert rules fired"])) + "\n"


def text_table(cells: tuple[Cell, ...], rows: list[dict[str, object]]) -> list[str]:
    """Rows in columns of equal width, words to the left and figures to the right."""
    texts = [[cell.head for cell in cells], *([cell.text(row) for cell in cells] for row in rows)]
    widths = [max(len(line[place]) for line in texts) for place in range(len(cells))]
    return [
        "  ".join(
            text.ljust(width) if cell.words else text.rjust(width)
            for text, width, cell in zip(line, widths, cells, strict=True)
        ).rstrip()
        for line in texts
    ]
