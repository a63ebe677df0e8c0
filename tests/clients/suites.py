"""The tests that client libraries ship for themselves, run against the broker: `make clients`.

Each suite is downloaded in one exact version. A failure is either listed in known.toml with its reason, or it fails the
run. pika has such tests, too, but none of its published packages contains them.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import venv
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.clients.conftest import Broker, running
from tests.parts import AMQP_GO, GO_LIBRARIES, program
from tests.server.certificates import Authority
from tests.sources import ROOT

HOME = ROOT / "build" / "clients"
VENV = HOME / "venv"
NODE = Path(__file__).parent / "node"
KNOWN = Path(__file__).with_name("known.toml")
REFUSED = Path(__file__).with_name("rabbitpy_refused.py")
GO_REPEATED = ("TestConcurrentClose", 12)  # a test of a race, and how often it runs
REQUIREMENTS = [
    "hatchling>=1.27",
    "pytest>=8.4",
    "pytest-rerunfailures>=16",
    "pytest-timeout>=2.4",
    "python-dotenv>=1",
    "setuptools>=77",
]
TEST_MAX_S = 60
SUITE_MAX_S = 180

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

    @property
    def log(self) -> Path:
        """What the last run printed."""
        return HOME / f"{self.name}.log"


# Getting the suites


def pip(*arguments: str) -> None:
    """Run pip in an environment of the suites' own: what they need is no business of ours."""
    python = VENV / "bin" / "python"
    ready = VENV / f".ready-{zlib.crc32(repr(REQUIREMENTS).encode()):x}"
    base: list[str | Path] = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if not ready.exists():
        venv.create(VENV, with_pip=True, clear=True)
        subprocess.run([*base, "install", *REQUIREMENTS], check=True)
        ready.touch()
    subprocess.run([*base, *arguments], cwd=HOME, check=True)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive with one folder inside, under a name of our choice."""
    with tarfile.open(archive) as tar:
        inside = HOME / tar.getnames()[0].split("/")[0]
        tar.extractall(HOME, filter="data")
    inside.rename(folder)


def fetch_sdist(suite: Suite) -> None:
    """Get a source distribution and install what the library needs."""
    exact = f"{suite.package}=={suite.version}"
    pip("install", exact)
    if not suite.folder.exists():
        pip("download", "--no-deps", "--no-build-isolation", "--no-binary", suite.package, exact)
        unpack(suite.folder.with_name(f"{suite.folder.name}.tar.gz"), suite.folder)


def fetch_rabbitpy(suite: Suite) -> None:
    """Get the source distribution, and put our test of refusals beside its own."""
    fetch_sdist(suite)
    (suite.folder / "pytest.ini").write_text("[pytest]\n")  # it has none: pytest would find this repository's
    shutil.copy(REFUSED, suite.folder / "tests")


def fetch_npm(suite: Suite) -> None:
    """Get a package for Node."""
    if not suite.folder.exists():
        subprocess.run(["npm", "pack", "--silent", f"{suite.package}@{suite.version}"], cwd=HOME, check=True)
        unpack(suite.folder.with_name(f"{suite.folder.name}.tgz"), suite.folder)


def fetch_go(suite: Suite) -> None:
    """Copy a library of Debian to where Go finds it; some of its tests run only if the product is RabbitMQ."""
    missing = [name for name in ("go", str(AMQP_GO)) if program(name) is None]
    if missing:
        sys.exit(f"{suite.name}: {missing[0]} is missing; run `make parts` as root")
    folder = suite.folder / "src" / AMQP_GO.relative_to(AMQP_GO.parents[2])
    if not folder.exists():
        shutil.copytree(AMQP_GO, folder)
        for file in suite.files:
            tests = folder / file
            tests.write_text(tests.read_text().replace('== "RabbitMQ"', '== "Leveret"'))


# Running them


def attempt(suite: Suite, command: list[str | Path], env: dict[str, str], folder: Path | None = None) -> Outcomes:
    """Run the tests, with their output in the log; what has not ended in time is ended and has failed."""
    environ = os.environ | env
    environ.pop("PYTHONPATH", None)
    folder = folder or suite.folder
    # A session of its own, so that what it started ends with it.
    with (
        suite.log.open("a") as log,
        subprocess.Popen(command, cwd=folder, env=environ, stdout=log, start_new_session=True) as process,
    ):
        try:
            process.wait(SUITE_MAX_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return {f"did not end within {SUITE_MAX_S} s": "failed"}
    return {}


def run_pytest(suite: Suite, broker: Broker) -> Outcomes:
    """Run tests that read the address of the broker from RABBITMQ_*."""
    report = HOME / f"{suite.name}.xml"
    report.unlink(missing_ok=True)
    ports = {"RABBITMQ_5672_TCP": str(broker.port), "RABBITMQ_5671_TCP": str(broker.tls_port)}
    options = ["-q", "-p", "no:cacheprovider", "--disable-warnings", f"--timeout={TEST_MAX_S}", f"--junitxml={report}"]
    command: list[str | Path] = [VENV / "bin" / "python", "-m", "pytest", *options, *suite.files]
    late = attempt(suite, command, {"RABBITMQ_HOST": broker.host, "RABBITMQ_URL": f"{broker.url}%2f", **ports})
    return late or dict(junit(report))


def junit(report: Path) -> Iterator[tuple[str, str]]:
    """The tests of a JUnit report; the children of a test say what went wrong."""
    for case in ElementTree.parse(report).iter("testcase"):
        problems = {child.tag for child in case}
        outcome = "failed" if problems & {"failure", "error"} else "skipped" if "skipped" in problems else "passed"
        yield f"{case.get('classname')}::{case.get('name')}", outcome


def run_node(suite: Suite, broker: Broker) -> Outcomes:
    """Run tests that connect to URL, or to AMQP's own port."""
    env = {"URL": broker.url, "BROKER_PORT": str(broker.port), "NODE_OPTIONS": f"--require={NODE / 'redirect.js'}"}
    late: Outcomes = {}
    # One at a time: they use the same names of queues.
    for file in suite.files:
        late |= attempt(suite, ["node", "--test", f"--test-reporter={NODE / 'reporter.js'}", file], env)
    return late | {test["name"]: test["outcome"] for test in map(json.loads, suite.log.read_text().splitlines())}


def run_go(suite: Suite, broker: Broker) -> Outcomes:
    """Run tests of Go that connect to AMQP_URL, all once and those of a race often; one failure of a test counts."""
    path = f"{suite.folder}:{GO_LIBRARIES}"
    env = {"GOPATH": path, "GO111MODULE": "off", "AMQP_URL": broker.url}
    command: list[str | Path] = ["go", "test", "-tags=integration", "-v", f"-timeout={SUITE_MAX_S}s"]
    name, times = GO_REPEATED
    late: Outcomes = {}
    for options in (["-count=1"], [f"-count={times}", f"-run=^{name}$"]):
        late |= attempt(suite, [*command, *options], env, suite.folder / "src/github.com/rabbitmq/amqp091-go")
    log = suite.log.read_text()
    ends = re.findall(r"^--- (PASS|FAIL|SKIP): (\w+)", log, re.MULTILINE)
    outcomes = {test: {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}[end] for end, test in ends}
    outcomes |= {test: "failed" for end, test in ends if end == "FAIL"}
    # After its last test it looks for what was left running, a connection that does not end for example.
    whole = "passed" if len(re.findall(r"^ok\b", log, re.MULTILINE)) == 2 else "failed"
    return late | outcomes | {"no goroutine is left": whole}


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
    Suite(
        "rabbitpy",
        "rabbitpy",
        "3.0.2",
        ("tests/test_integration.py", f"tests/{REFUSED.name}"),
        fetch_rabbitpy,
        run_pytest,
    ),
    Suite("amqp091-go", "amqp091-go", "1.5.0", ("integration_test.go",), fetch_go, run_go),
]


def report(suite: Suite, outcomes: Outcomes, known: dict[str, str]) -> bool:
    """Print how a suite ended; say whether all is as expected."""
    failed = [name for name, outcome in outcomes.items() if outcome == "failed"]
    unknown = [name for name in failed if name not in known]
    counts = {kind: list(outcomes.values()).count(kind) for kind in ("passed", "skipped")}
    print(
        f"{suite.name} {suite.version}: {counts['passed']} passed, {len(unknown)} failed, "
        f"{len(failed) - len(unknown)} known differences, {counts['skipped']} skipped"
    )
    for name in unknown:
        print(f"  FAILED {name} (see {suite.log})")
    for name, reason in known.items():
        print(f"  known: {name}: {reason}" if name in failed else f"  listed in {KNOWN.name}, but passed: {name}")
    return counts["passed"] > 0 and not unknown


def certificates(folder: Path, suites: list[Suite]) -> list[str]:
    """Certificates where py-amqp looks for those of its authors; the flags for a server that clients trust by them."""
    authority = Authority(folder)
    server, client = (authority.issue("localhost", file=name) for name in ("server", "client"))
    named = {
        "ca_certificate": authority.cert,
        "client_certificate": client.cert,
        "client_key": client.key,
        # A key of another certificate: it must not work.
        "client_certificate_broken": client.cert,
        "client_key_broken": server.key,
    }
    for suite in suites:
        target = suite.folder / "t" / "certs"
        if target.parent.exists():
            target.mkdir(exist_ok=True)
            for name, source in named.items():
                shutil.copy(source, target / f"{name}.pem")
    return ["--amqps-port", "0", "--tls-cert", str(server.cert), "--tls-key", str(server.key)]


def main() -> int:
    """Run the suites named on the command line, or all."""
    suites = [suite for suite in SUITES if suite.name in sys.argv[1:] or not sys.argv[1:]]
    known = tomllib.loads(KNOWN.read_text())
    data = HOME / "broker"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    for suite in suites:
        suite.fetch(suite)
        suite.log.unlink(missing_ok=True)
    with running(data, "--host", "127.0.0.1,::1", *certificates(data, suites)) as broker:
        good = [report(suite, suite.run(suite, broker), known.get(suite.name, {})) for suite in suites]
    return not all(good)


if __name__ == "__main__":
    sys.exit(main())
