"""Start a broker, let a small shop send and work, and report on it.

    python -m examples.demo [seconds of traffic] [directory of the report]

Needs the extras `dev` (for pika) and `pipeline`, and Java.
"""

import sys
import tempfile
import time
from pathlib import Path

from examples.demo import broker, traffic
from leveret.pipeline.report import Objective, build
from leveret.pipeline.session import SMALL, session

TRAFFIC_S = 40.0
OUT = "build/demo"
OBJECTIVE = Objective(within_ms=2000, share=0.95)


def main(seconds: float = TRAFFIC_S, out: str = OUT) -> str:
    """Run the demo; give the path of the page."""
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:5.1f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="leveret-demo-") as name:
        folder = Path(name)
        with broker.running(folder) as url:
            say(f"a broker runs; {seconds:g} s of traffic, in which workers fail now and then")
            traffic.run(url, seconds)
        say("the broker has stopped; Spark starts")
        spark = session("local[2]", **SMALL)
        try:
            say("events to lives to a report")
            report = build(spark, {"path": str(folder / "data")}, out, objective=OBJECTIVE)
        finally:
            spark.stop()
    say("done\n")
    print(report.summary)
    print(f"the report: {Path(report.page).resolve()}")
    return report.page


if __name__ == "__main__":
    main(*(kind(given) for kind, given in zip((float, str), sys.argv[1:], strict=False)))
