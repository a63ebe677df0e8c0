"""The tests that client libraries ship for themselves, run against the broker: `make clients`.

Each suite is downloaded in one exact version. A failure is either listed in known.toml with its reason, or it fails the
run. pika has such tests, too, but none of its published packages contains them.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.clients.conftest import Broker, running
from tests.sources import ROOT

HOME = ROOT / "build" / "clients"
NODE = Path(__file__).parent / "node"
KNOWN = Path(__file__).with_name("known.toml")
REQUIREMENTS = ["pytest>=8.4", "pytest-rerunfailures>=16", "pytest-timeout>=2.4", "setuptools>=77"]
TEST_MAX_S = 60
SUITE_MAX_S = 600

# How each test of a suite ended: passed, failed or skipped.
Outcomes = dict[str, str]


@dataclass(frozen=True)
class Suite:
    """Tests of one library: where they come from and how they run."""

    name: str
    package: str
    version: str
    files: tuple[str, ...]
    fetch: Callable[["Suite"], None]
    run: Callable[["Suite", Broker], Outcomes]

    @property
    def folder(self) -> Path:
        """Where the package is unpacked."""
        return HOME / f"{self.package}-{self.version}"


def call(*command: str | Path, cwd: Path = HOME, env: dict[str, str] | None = None, check: bool = True) -> str:
    """Run a program and give what it printed; its errors go to ours."""
    environ = os.environ | (env or {})
    environ.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, cwd=cwd, env=environ, stdout=subprocess.PIPE, text=True, timeout=SUITE_MAX_S, check=check
    )
    return done.stdout


def python() -> Path:
    """The interpreter of an environment of the suites' own: what they need is no business of ours."""
    home = HOME / "venv"
    program = home / "bin" / "python"
    if not program.exists():
        venv.create(home, with_pip=True)
        call(program, "-m", "pip", "install", "--quiet", *REQUIREMENTS)
    return program


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive with one folder inside, under a name of our choice."""
    with tarfile.open(archive) as tar:
        tar.extractall(HOME, filter="data")
        inside = HOME / tar.getnames()[0].split("/")[0]
    if inside != folder:
        inside.rename(folder)


def fetch_sdist(suite: Suite) -> None:
    """Get a source distribution, and install what the library needs."""
    pip: list[str | Path] = [python(), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    exact = f"{suite.package}=={suite.version}"
    call(*pip, "install", exact)
    call(*pip, "download", "--no-deps", "--no-build-isolation", "--no-binary", suite.package, exact)
    unpack(HOME / f"{suite.package}-{suite.version}.tar.gz", suite.folder)


def fetch_npm(suite: Suite) -> None:
    """Get a package for Node."""
    call("npm", "pack", "--silent", f"{suite.package}@{suite.version}")
    unpack(HOME / f"{suite.package}-{suite.version}.tgz", suite.folder)


def run_pytest(suite: Suite, broker: Broker) -> Outcomes:
    """Run tests that read the address of the broker from RABBITMQ_*."""
    report = HOME / f"{suite.name}.xml"
    env = {"RABBITMQ_HOST": broker.host, "RABBITMQ_5672_TCP": str(broker.port)}
    options = ["-q", "-p", "no:cacheprovider", "--disable-warnings", f"--timeout={TEST_MAX_S}", f"--junitxml={report}"]
    report.unlink(missing_ok=True)
    log = call(python(), "-m", "pytest", *options, *suite.files, cwd=suite.folder, env=env, check=False)
    (HOME / f"{suite.name}.log").write_text(log)
    return dict(junit(report))


def junit(report: Path) -> Iterator[tuple[str, str]]:
    """The tests of a JUnit report; the first child of a test, if any, says what went wrong."""
    for case in ElementTree.parse(report).iter("testcase"):
        problems = {child.tag for child in case}
        outcome = "failed" if problems & {"failure", "error"} else "skipped" if "skipped" in problems else "passed"
        yield f"{case.get('classname')}::{case.get('name')}", outcome


def run_node(suite: Suite, broker: Broker) -> Outcomes:
    """Run tests that connect to URL, or to AMQP's own port."""
    env = {"URL": broker.url, "BROKER_PORT": str(broker.port), "NODE_OPTIONS": f"--require={NODE / 'redirect.js'}"}
    options = ["--test", "--test-concurrency=1", f"--test-reporter={NODE / 'reporter.js'}"]
    lines = call("node", *options, *suite.files, cwd=suite.folder, env=env, check=False)
    return {test["name"]: test["outcome"] for test in map(json.loads, lines.splitlines())}


SUITES = [
    Suite("py-amqp", "amqp", "5.4.2", ("t/integration/test_rmq.py",), fetch_sdist, run_pytest),
    Suite("kombu", "kombu", "5.7.0", ("t/integration/test_py_amqp.py",), fetch_sdist, run_pytest),
    Suite(
        "amqplib",
        "amqplib",
        # The last version whose package contains its tests.
        "2.0.1",
        ("test/channel_api.test.js", "test/callback_api.test.js", "test/connect.test.js"),
        fetch_npm,
        run_node,
    ),
]


def report(suite: Suite, outcomes: Outcomes, known: dict[str, str]) -> bool:
    """Print how a suite ended; say whether all is as expected."""
    by = {
        kind: [name for name, outcome in outcomes.items() if outcome == kind]
        for kind in ("passed", "failed", "skipped")
    }
    unknown = [name for name in by["failed"] if name not in known]
    differing = [name for name in by["failed"] if name in known]
    counts = f"{len(by['passed'])} passed, {len(unknown)} failed, {len(differing)} known differences"
    print(f"{suite.name} {suite.version}: {counts}, {len(by['skipped'])} skipped")
    for name in unknown:
        print(f"  FAILED {name}")
    for name in differing:
        print(f"  known  {name}: {known[name]}")
    for name in set(known) - set(by["failed"]):
        print(f"  listed in {KNOWN.name}, but it does not fail here: {name}")
    return bool(by["passed"]) and not unknown


def main() -> int:
    """Run the suites named on the command line, or all."""
    wanted = sys.argv[1:] or [suite.name for suite in SUITES]
    known = tomllib.loads(KNOWN.read_text())
    HOME.mkdir(parents=True, exist_ok=True)
    data = HOME / "broker"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    good = True
    with running(data) as broker:
        for suite in SUITES:
            if suite.name in wanted:
                if not suite.folder.exists():
                    suite.fetch(suite)
                good &= report(suite, suite.run(suite, broker), known.get(suite.name, {}))
    return not good


if __name__ == "__main__":
    sys.exit(main())
