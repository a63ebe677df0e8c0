"""Puts the figures of the AMQP benchmark into a page, between two marks: `python -m bench.amqp.table LINES PAGE`."""

import json
import sys
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- amqp figures -->", "<!-- end of amqp figures -->"
REFERENCE = "rabbitmq"
NAMES = {"leveret": "Leveret", REFERENCE: "RabbitMQ", "disk": "bare disk"}
DIGITS_MAX = 3

Line = dict[str, Any]
Cases = dict[str, dict[str, Line]]


def read(text: str) -> Cases:
    """The lines by case and peer, in the order of the run."""
    cases: Cases = {}
    for row in text.splitlines():
        line = json.loads(row)
        cases.setdefault(line["what"], {})[line["peer"]] = line
    return cases


def short(value: float) -> str:
    """A number with as many digits as one reads."""
    if value >= 10 ** (DIGITS_MAX - 1):
        return f"{round(value, DIGITS_MAX - len(str(int(value)))):,.0f}"
    return f"{value:.{DIGITS_MAX}g}"


def rate(line: Line) -> str:
    cpu = line.get("cpu_us_per_message")
    return f"{short(line['messages_per_s'])}/s" + (f", {short(cpu)} us" if cpu is not None else "")


def latency(line: Line) -> str:
    return f"p50 {short(line['p50_ms'])} ms, p99 {short(line['p99_ms'])} ms"


def size(count: float) -> str:
    for unit, unit_bytes in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= unit_bytes:
            return f"{short(count / unit_bytes)} {unit}"
    return f"{short(count)} B"


def memory(line: Line) -> str:
    used = "" if line.get("rss_bytes") is None else f", {size(line['rss_bytes'])}"
    each = f", {size(line['rss_bytes_each'])} each" if "rss_bytes_each" in line else ""
    return f"{short(line['seconds'])} s{used}{each}"


# What is said about a line, and which of its multiples of RabbitMQ's figures, by a figure that it has.
KINDS = (
    ("p50_ms", latency, (("p50_ms", "p50"), ("p99_ms", "p99"))),
    ("seconds", memory, (("seconds", "time"), ("rss_bytes", "memory"))),
    ("messages_per_s", rate, (("messages_per_s", "rate"), ("cpu_us_per_message", "CPU"))),
)


def cells(line: Line | None) -> tuple[str, str]:
    """What a line says, and how it compares."""
    if line is None:
        return "", ""
    _, say, ratios = next(kind for kind in KINDS if kind[0] in line)
    multiples: dict[str, float] = line.get(f"of_{REFERENCE}", {})
    return say(line), ", ".join(
        f"{name} x {short(multiples[figure])}" for figure, name in ratios if figure in multiples
    )


def rows(cases: Cases) -> list[list[str]]:
    """The table: a column for each broker, and Leveret's multiples of RabbitMQ's figures."""
    found = {peer: line for lines in cases.values() for peer, line in lines.items()}
    table = [["case", *(f"{NAMES.get(peer, peer)} {line['version']}".strip() for peer, line in found.items())]]
    compares = REFERENCE in found and "leveret" in found
    if compares:
        table[0].append("Leveret / RabbitMQ")
    for what, lines in cases.items():
        row = [what, *(cells(lines.get(peer))[0] for peer in found)]
        table.append([*row, cells(lines.get("leveret"))[1]] if compares else row)
    return table


def markdown(cases: Cases) -> str:
    """The table with what it was measured on."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows(cases))
    line = next(iter(next(iter(cases.values())).values()))
    return "\n".join([f"Measured on {line['machine']}.", "", head, "|---" * head.count(" | ") + "|---|", *body])


def placed(page: str, table: str) -> str:
    """The page with the table between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main() -> None:
    lines, page = (Path(name) for name in sys.argv[1:])
    page.write_text(placed(page.read_text(), markdown(read(lines.read_text()))))


if __name__ == "__main__":
    main()
