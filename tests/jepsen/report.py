"""What a run has found, for people and as one line of JSON."""

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tests.jepsen.checker import BROKEN, Findings, Tally

SHOWN_MAX = 5
COLUMNS = ("acknowledged", "lost", "duplicated", "out_of_order", "gaps", "stale")


def _lines(first: str, titles: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
    """A table with its names at the left."""
    lines = ["  ".join([f"{first:32}", *titles])]
    for name, cells in rows.items():
        right = (f"{cell:>{len(title)}}" for cell, title in zip(cells, titles, strict=True))
        lines.append("  ".join([f"{name:32}", *right]))
    return lines


def _counts(tally: Tally) -> list[str]:
    return [str(getattr(tally, column)) for column in COLUMNS]


def table(findings: Findings, left_out: dict[str, str]) -> str:
    """What happened at each kind of fault, and to each queue, stream and target of sinks."""
    titles = [column.replace("_", " ") for column in COLUMNS]
    kinds: dict[str, Sequence[str]] = {}
    for kind, tally in findings.by_kind.items():
        gaps = tally.unavailable_s or [0.0]
        kinds[kind] = [str(tally.faults), *_counts(tally), f"{statistics.median(gaps):.2f}", f"{max(gaps):.2f}"]
    queues = {queue: _counts(tally) for queue, tally in findings.by_queue.items()}
    return "\n".join(
        [
            *_lines("fault", ["faults", *titles, "unavailable p50 s", "max s"], kinds),
            *(f"{kind:32}  LEFT OUT: {reason}" for kind, reason in left_out.items()),
            "",
            *_lines("queue", titles, queues),
        ]
    )


def summary(findings: Findings, seed: int, complaints: list[str]) -> dict[str, Any]:
    """The line of JSON."""
    kinds = findings.by_kind
    return {
        "seed": seed,
        "faults": sum(tally.faults for tally in kinds.values()),
        "invoked": findings.invoked,
        "acknowledged": findings.acknowledged,
        "delivered": findings.delivered,
        "duplicated": findings.duplicated,
        "changed": findings.changed,
        "looks": findings.looks,
        "returned": findings.returned,
        **{name: len(getattr(findings, name)) for name in BROKEN},
        "complaints": len(complaints),
        "unavailable_s_max": {name: max(tally.unavailable_s) for name, tally in kinds.items() if tally.unavailable_s},
    }


def tell(findings: Findings, left_out: dict[str, str], seed: int, complaints: list[str]) -> None:
    """Print what was found."""
    print(table(findings, left_out))
    if findings.silences:
        silence = max(findings.silences)
        print(
            f"longest silence: {silence.queue}, {silence.seconds:.1f} s from {silence.since_s:.1f} s on: {silence.kind}"
        )
    for name in BROKEN:
        for message in getattr(findings, name)[:SHOWN_MAX]:
            print(f"{name}: {message}")
    for complaint in complaints[:SHOWN_MAX]:
        print(complaint)
    print(json.dumps(summary(findings, seed, complaints)), flush=True)
