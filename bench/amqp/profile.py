"""Where the broker's CPU goes: `python -m bench.amqp.profile [CASE]` runs a case on Leveret under perf.

Prints the rate, and the threads, libraries and symbols that took most. The recording stays in build/perf.data, for
`perf annotate` and `perf report --children`. perf needs root, or kernel.perf_event_paranoid at 1 or less.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.amqp.brokers import SERVE, Target, start_leveret
from bench.amqp.cases import traffic_cases
from bench.amqp.load import PROGRAM, Options, run_load
from bench.measure import report

RECORDING = PROGRAM.parent / "perf.data"
SECONDS = 8
WARMUP_S = 2
ROWS_MAX = 25


def record(target: Target, step: Options) -> float:
    """Run the load with perf attached to the broker; give CPU microseconds per message."""
    pids = ",".join(str(pid) for pid in target.pids())
    command = ["perf", "record", "--quiet", "--call-graph", "fp", "--pid", pids, "--output", str(RECORDING)]
    with subprocess.Popen([*command, "--", "sleep", str(WARMUP_S + SECONDS)], stderr=subprocess.DEVNULL):
        result = run_load(target, {**step, "warmup": WARMUP_S, "duration": SECONDS})
    report("amqp_profile", messages_per_s=round(result["messages_per_s"]), cpu_us_per_message=result["broker_cpu_us"])
    return float(result["broker_cpu_us"])


def shares(cpu_us: float, *fields: str) -> list[str]:
    """What took most by these fields of perf: its share, and what that is for each message."""
    command = ["perf", "report", "--input", str(RECORDING), "--stdio", "--no-children", "--call-graph", "none"]
    options = ["--sort", ",".join(fields), "--field-separator", "\t"]
    text = subprocess.run([*command, *options], capture_output=True, text=True, check=True).stdout
    rows = [row.split("\t") for row in text.splitlines() if row.strip() and not row.startswith("#")]
    # Some processors give perf more columns than were asked for.
    found = [[field.strip() for field in row[: 1 + len(fields)]] for row in rows[:ROWS_MAX]]
    return [f"{float(share.rstrip('%')) * cpu_us / 100:7.3f} us {share:>7}  {'  '.join(who)}" for share, *who in found]


def main() -> None:
    cases = {case.name: case for case in traffic_cases()}
    parser = argparse.ArgumentParser(prog="python -m bench.amqp.profile", description=__doc__)
    parser.add_argument("case", nargs="?", default="16B", choices=cases)
    parser.add_argument("--serve", default=SERVE, help="command that starts Leveret, with {data} and {port}")
    options = parser.parse_args()
    if shutil.which("perf") is None:
        sys.exit("perf is needed: on Debian, `apt-get install linux-perf`")
    with tempfile.TemporaryDirectory() as directory, start_leveret(options.serve, Path(directory)) as target:
        cpu_us = record(target, cases[options.case].steps[0])
    for fields in (("comm",), ("dso",), ("symbol", "dso")):
        print("", f"by {' and '.join(fields)}", *shares(cpu_us, *fields), sep="\n")


if __name__ == "__main__":
    main()
