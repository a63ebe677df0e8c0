"""`python -m tests.nightly`: the long checks, one after the other, each with a budget and a time limit; one table.

A job is a target of the Makefile in a process group of its own, which is ended when its time is over. What it prints
goes into build/nightly/JOB.log. Seeds change from day to day; the table names the one that was used. The exit code is 1
when a job failed, and in CI also when one was skipped because a part is missing.
"""

import argparse
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import IN_CI
from tests.parts import program
from tests.sources import ROOT
from tests.text_table import text_table

FOLDER = ROOT / "build" / "nightly"
END_S = 60.0
"""What a job has to end its servers after SIGTERM, before SIGKILL."""
SEEDS_A_DAY = 10_000
FIGURE_CHARS_MAX = 100
QUIET = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")
"""Variables of an outer make: its settings are not meant for the jobs."""
TITLES = ("job", "budget", "result", "seconds", "figure")

PASSED, FAILED, LATE, SKIPPED = "passed", "FAILED", "TIME OVER", "skipped"


# Figures


def of_json(*names: str) -> Callable[[str], str]:
    """Fields of the last line of JSON that a job printed."""

    def figure(log: str) -> str:
        lines = [line for line in log.splitlines() if line.startswith("{") and line.endswith("}")]
        report = json.loads(lines[-1]) if lines else {}
        return ", ".join(f"{name.replace('_', ' ')} {report[name]}" for name in names if name in report)

    return figure


def of_lines(pattern: str) -> Callable[[str], str]:
    """The last line that has the pattern, from there on."""

    def figure(log: str) -> str:
        found = re.findall(rf"{pattern}.*", log)
        return found[-1].strip(" =") if found else ""

    return figure


def of_fuzzers(log: str) -> str:
    """How often how many fuzzers called what they try."""
    runs = [int(count) for count in re.findall(r"^Done (\d+) runs", log, re.MULTILINE)]
    return f"{sum(runs):,} runs of {len(runs)} fuzzers"


def of_suites(log: str) -> str:
    """The sums of the suites of client libraries."""
    found = re.findall(r"(\d+) passed, (\d+) failed, (\d+) known differences", log)
    sums = [sum(map(int, column)) for column in zip(*found, strict=True)] or [0, 0, 0]
    return f"{len(found)} suites: {sums[0]} passed, {sums[1]} failed, {sums[2]} known differences"


tests_passed = of_lines(r"\d+ (?:passed|failed|error)")


# Jobs


@dataclass(frozen=True)
class Job:
    """A target with the settings that bound its work, and the seconds after which it is ended in any case."""

    target: str
    full: Mapping[str, str]
    quick: Mapping[str, str]
    limit_s: float
    figure: Callable[[str], str]
    needs: tuple[str, ...] = ()


STORES = ("initdb", "etcd", "redis-server")
JOBS = (
    Job("sim", {"POINTS": "200000"}, {"POINTS": "500"}, 1_800, of_json("points", "mutants_caught")),
    Job("sim-cluster", {"SEEDS": "2000"}, {"SEEDS": "5"}, 3_600, of_json("seeds", "findings", "mutants_caught")),
    Job(
        "jepsen",
        {"FAULTS": "60"},
        {"FAULTS": "2"},
        5_400,
        of_json("faults", "acknowledged", "lost", "duplicated"),
        STORES,
    ),
    Job("fuzz", {"RUNS": "200000"}, {"RUNS": "500"}, 5_400, of_fuzzers, ("module atheris",)),
    Job("asan", {"RUNS": "20000"}, {"RUNS": "100"}, 5_400, tests_passed, ("library libasan.so",)),
    Job("rabbitmq", {}, {"ARGS": "-k arguments"}, 1_800, tests_passed, ("rabbitmq-server", "erl")),
    Job("clients", {}, {"CLIENT": "amqplib"}, 1_800, of_suites, ("node", "npm")),
    Job("spark-slow", {}, {}, 3_600, tests_passed, ("java",)),
    Job("slow", {}, {"ARGS": "tests/jepsen"}, 3_600, tests_passed),
    Job("kill", {"SECONDS": "300"}, {"SECONDS": "3"}, 900, of_lines(r"\d+ kills")),
    Job("attack", {}, {"ARGS": "none --seconds 2"}, 1_800, of_lines("limits: ")),
    Job("soak", {}, {}, 7_200, of_lines(r"\S")),
)
SEEDED = {"sim", "sim-cluster", "jepsen"}
OPTIONAL = {"soak"}
"""Targets that a checkout may not have: no row then."""


def missing(needs: Iterable[str]) -> list[str]:
    """The parts of a job that are not on this machine; make installs the modules that can be had."""
    absent = []
    for need in needs:
        kind, _, name = need.rpartition(" ")
        if kind == "module":
            subprocess.run(["make", ".venv/.fuzz"], cwd=ROOT, capture_output=True, check=False)
            importlib.invalidate_caches()
            there = importlib.util.find_spec(name) is not None
        elif kind == "library":
            answer = subprocess.run([os.environ.get("CC", "cc"), f"-print-file-name={name}"], capture_output=True)
            there = Path(answer.stdout.decode().strip()).is_absolute()
        else:
            there = program(name) is not None
        if not there:
            absent.append(name)
    return absent


def command(job: Job, settings: Mapping[str, str], seed: int) -> list[str]:
    """What is run: make with the target and its settings."""
    seeded = {"SEED": str(seed)} if job.target in SEEDED else {}
    return ["make", "--no-print-directory", job.target, *(f"{k}={v}" for k, v in {**settings, **seeded}.items())]


# Running


@dataclass(frozen=True)
class Ended:
    """How a job ended: a row of the table."""

    job: str
    budget: str
    result: str
    seconds: float
    figure: str

    @property
    def is_bad(self) -> bool:
        """Whether the night has failed by it; in CI nothing may be missing."""
        return self.result in (FAILED, LATE) or (self.result == SKIPPED and IN_CI)

    @property
    def cells(self) -> list[str]:
        """The row as text."""
        return [self.job, self.budget, self.result, f"{self.seconds:.0f}", self.figure]


def within(words: Sequence[str], log: Path, limit_s: float, end_s: float = END_S) -> str:
    """Run a command in a process group of its own, with its output in a file; say how it ended."""
    environ = {name: value for name, value in os.environ.items() if name not in QUIET}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            words, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        ) as process,
    ):
        try:
            return FAILED if process.wait(limit_s) else PASSED
        except subprocess.TimeoutExpired:
            return LATE
        finally:
            if process.returncode is None:  # its time is over, or this program is interrupted
                end(process, end_s)


def end(process: subprocess.Popen[bytes], end_s: float) -> None:
    """End a process and its group: in order, or by force after `end_s`."""
    os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(end_s)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what is left of the group, though make itself may have ended


def done(job: Job, settings: Mapping[str, str], seed: int, folder: Path) -> Ended:
    """Run a job unless a part is missing."""
    words = command(job, settings, seed)
    budget = " ".join(words[3:]) or "all"
    absent = missing(job.needs)
    if absent:
        return Ended(job.target, budget, SKIPPED, 0, f"missing: {', '.join(absent)}")
    log = folder / f"{job.target}.log"
    started = time.monotonic()
    result = within(words, log, job.limit_s)
    figure = job.figure(log.read_text(errors="replace")) or "none"
    return Ended(job.target, budget, result, time.monotonic() - started, figure[:FIGURE_CHARS_MAX])


def targets() -> set[str]:
    """What the Makefile has."""
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def main(arguments: list[str] | None = None) -> int:
    """Run the jobs, print the table; 1 when a job failed."""
    jobs = [job for job in JOBS if job.target in targets() or job.target not in OPTIONAL]
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description="The long checks, in one table.")
    parser.add_argument("jobs", nargs="*", help=f"which ones (default: all): {', '.join(job.target for job in jobs)}")
    parser.add_argument("--quick", action="store_true", help="tiny budgets: shows that every job can run")
    parser.add_argument("--seed", type=int, default=int(time.time() // 86_400) * SEEDS_A_DAY, help="(default: the day)")
    given = parser.parse_args(arguments)
    unknown = set(given.jobs) - {job.target for job in jobs}
    if unknown:
        parser.error(f"there is no job {', '.join(sorted(unknown))}: see --help")
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = []
    for job in jobs:
        if job.target in given.jobs or not given.jobs:
            print(f"{job.target} ...", file=sys.stderr, flush=True)
            rows.append(done(job, job.quick if given.quick else job.full, given.seed, FOLDER))
    table = text_table(TITLES, [row.cells for row in rows])
    (FOLDER / "table.txt").write_text(table + "\n")
    print(table)
    return int(any(row.is_bad for row in rows))


if __name__ == "__main__":
    sys.exit(main())
