"""`make nightly`: jobs end in time, with all that they started; the table says what each one did."""

import re
import sys
from pathlib import Path

import pytest

from tests import nightly
from tests.nightly import FAILED, JOBS, LATE, OPTIONAL, PASSED, SKIPPED, Ended, Job, targets, within
from tests.test_nursery import is_alive
from tests.text_table import text_table
from tests.waiting import PATIENCE_S, wait_until

STAYS = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
{}
signal.pause()
"""
CHILD = STAYS.format("print('ready', flush=True)")
PARENT = STAYS.format(
    f"""
import subprocess
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
"""
)


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_every_job_is_a_target_of_the_makefile() -> None:
    assert {job.target for job in JOBS} - targets() <= OPTIONAL
    assert len({job.target for job in JOBS}) == len(JOBS)


def test_a_job_without_settings_for_a_quick_run_has_none_for_a_long_one() -> None:
    assert [job.target for job in JOBS if job.full.keys() - job.quick.keys()] == []


@pytest.mark.parametrize(("text", "result"), [("print('5 passed')", PASSED), ("raise SystemExit(3)", FAILED)])
def test_a_job_passes_or_fails_by_its_exit_code(tmp_path: Path, text: str, result: str) -> None:
    assert within(python(text), tmp_path / "log", PATIENCE_S) == result


def test_output_and_errors_of_a_job_are_in_its_log(tmp_path: Path) -> None:
    within(python("import sys; print('out'); sys.exit('err')"), tmp_path / "log", PATIENCE_S)
    assert set((tmp_path / "log").read_text().split()) == {"out", "err"}


def test_settings_of_the_outer_make_do_not_reach_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", " -- QUICK=1")
    within(python("import os; print('MAKEFLAGS' in os.environ)"), tmp_path / "log", PATIENCE_S)
    assert (tmp_path / "log").read_text() == "False\n"


def test_a_job_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    limit_s = 1.0
    while not (log.exists() and log.read_text().strip()):  # it has to have begun, on a machine however slow
        assert within(python(PARENT), log, limit_s, end_s=0.1) == LATE
        limit_s *= 2
        assert limit_s < PATIENCE_S
    wait_until(lambda: not is_alive(int(log.read_text())))


def test_a_job_whose_part_is_missing_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("sim", {}, {}, 1, nightly.tests_passed, ("no-such-program", "library no-such-library.so", "make"))
    ended = nightly.done(job, {}, 7, tmp_path)
    assert (ended.result, ended.figure) == (SKIPPED, "missing: no-such-program, no-such-library.so")
    assert list(tmp_path.iterdir()) == []
    for in_ci in (False, True):
        monkeypatch.setattr(nightly, "IN_CI", in_ci)
        assert ended.is_bad is in_ci


@pytest.mark.parametrize(("result", "bad"), [(PASSED, False), (FAILED, True), (LATE, True)])
def test_a_job_that_fails_or_is_late_fails_the_night(result: str, bad: bool) -> None:
    assert Ended("sim", "all", result, 1.0, "").is_bad is bad


def test_seeds_are_given_to_the_jobs_that_have_some() -> None:
    by_name = {job.target: job for job in JOBS}
    assert nightly.command(by_name["sim"], {"POINTS": "5"}, 7)[2:] == ["sim", "POINTS=5", "SEED=7"]
    assert nightly.command(by_name["kill"], {"SECONDS": "5"}, 7)[2:] == ["kill", "SECONDS=5"]


@pytest.mark.parametrize(
    ("job", "log", "figure"),
    [
        (
            "sim",
            '{"points": 3}\nx\n{"seed": 1, "points": 500, "mutants_caught": "5/5"}\n  points 500\n',
            "points 500, mutants caught 5/5",
        ),
        ("jepsen", "no line of JSON", ""),
        ("fuzz", "Done 500 runs in 1 second(s)\n...\nDone 500 runs in 0 second(s)\n", "1,000 runs of 2 fuzzers"),
        ("rabbitmq", "1 passed in 1s\n====== 5 passed, 1 skipped in 3.20s ======\n", "5 passed, 1 skipped in 3.20s"),
        ("rabbitmq", "== 1 failed, 4 passed in 3.20s ==\n", "1 failed, 4 passed in 3.20s"),
        (
            "clients",
            "a 1: 5 passed, 0 failed, 1 known differences, 0 skipped\nb 1: 7 passed, 2 failed, 0 known differences",
            "2 suites: 12 passed, 2 failed, 1 known differences",
        ),
        ("clients", "", "0 suites: 0 passed, 0 failed, 0 known differences"),
        (
            "kill",
            "seed 1, 1 kills: 3 confirmed\nseed 1, 2 kills: 7 confirmed, lost 0\n",
            "2 kills: 7 confirmed, lost 0",
        ),
    ],
)
def test_the_figure_of_a_job_is_found_in_its_output(job: str, log: str, figure: str) -> None:
    assert next(each for each in JOBS if each.target == job).figure(log) == figure


def test_a_night_prints_one_table_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nightly, "FOLDER", tmp_path)
    jobs = (
        Job("help", {}, {"QUICK": "1"}, PATIENCE_S, nightly.of_lines("make sim-cluster")),
        Job("counts", {}, {}, PATIENCE_S, nightly.tests_passed, ("no-such-program",)),
        Job("soak-that-is-not-there", {}, {}, PATIENCE_S, nightly.tests_passed),
    )
    monkeypatch.setattr(nightly, "JOBS", jobs)
    monkeypatch.setattr(nightly, "OPTIONAL", {"soak-that-is-not-there"})
    monkeypatch.setattr(nightly, "IN_CI", False)
    assert nightly.main(["--quick"]) == 0
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "table.txt").read_text()
    head, *rows = printed.splitlines()
    assert head.split() == ["job", "budget", "result", "seconds", "figure"]
    assert [re.split(r" {2,}", row)[:3] for row in rows] == [
        ["help", "QUICK=1", "passed"],
        ["counts", "all", "skipped"],
    ]
    assert nightly.main(["help"]) == 0
    monkeypatch.setattr(nightly, "OPTIONAL", set())
    assert nightly.main([]) == 1  # a target that does not exist
    with pytest.raises(SystemExit):
        nightly.main(["nonsense"])


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    rows = [["sim", "12"], ["sim-cluster", "1,234"]]
    assert text_table(["job", "s"], rows) == "job              s\nsim             12\nsim-cluster  1,234"
    assert text_table(["job"], []) == "job"
