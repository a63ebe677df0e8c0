"""Start a broker, let a small shop send and work, then archive what happened and report on it.

    python -m examples.demo [seconds of traffic] [directory of the report]

Needs the extras `dev` (for pika) and `pipeline`, and Java.
"""

import shlex
import sys
import tempfile
import time
from pathlib import Path

from examples.demo import broker, traffic
from leveret.cli.main import INTERRUPTED
from leveret.cli.main import main as leveret
from leveret.spark.session import SMALL

TRAFFIC_S = 40.0
OUT = "build/demo"
WITHIN_MS, SHARE = 2_000, 0.95


def main(seconds: float = TRAFFIC_S, out: str = OUT) -> int:
    """Run the demo; give its exit code."""
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:5.1f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="leveret-demo-") as name:
        folder = Path(name)
        with broker.running(folder) as url:
            say(f"a broker runs; {seconds:g} s of traffic, in which workers fail now and then")
            traffic.run(url, seconds)
        say("the broker has stopped")
        for arguments in jobs(folder, out):
            say(f"leveret pipeline {shlex.join(arguments)}\n")
            code = leveret(["pipeline", *arguments, *small()])
            if code:
                return code
            print()
    say(f"the report: {Path(out, 'index.html').resolve()}")
    return 0


def jobs(folder: Path, out: str) -> list[list[str]]:
    """The jobs, one after the other: full segments become Parquet; that and what is not yet there is reported on."""
    data, archive = ["--path", str(folder / "data")], str(folder / "archive")
    whole = [*data, "--archive", archive]
    return [
        ["archive", *data, "--archive", str(folder / "handed"), "--out", archive, "--remove-segments"],
        ["lifecycle", *whole, "--out", str(folder / "lives")],
        ["report", *whole, "--out", out, "--within-ms", str(WITHIN_MS), "--share", str(SHARE)],
    ]


def small() -> list[str]:
    """Flags for Spark with few rows, on two cores."""
    return ["--master", "local[2]", *(word for pair in SMALL.items() for word in ("--conf", "=".join(pair)))]


if __name__ == "__main__":
    try:
        sys.exit(main(*(kind(given) for kind, given in zip((float, str), sys.argv[1:], strict=False))))
    except KeyboardInterrupt:
        print("\ninterrupted: the broker has stopped, and its data is removed", file=sys.stderr)
        sys.exit(INTERRUPTED)
