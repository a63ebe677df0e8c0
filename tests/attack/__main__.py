"""`python -m tests.attack`: what clients at 127.0.0.1 notice of floods from 127.0.0.2; 1 when it is too much.

Each flood meets a new server with default limits. Beside it, a client of every protocol measures its own latency; the
peak of the server's memory is the kernel's (VmHWM). The flood runs with a lower priority: an attacker has a machine of
its own, and what is measured is what the server does.
"""

import argparse
import base64
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.measure import line
from tests.attack.clients import KINDS
from tests.attack.floods import ATTACKER, FLOODS, PASSWORD, POLICYMAKER, USER
from tests.process_figures import cpu_s, status
from tests.server_process import ServerProcess

P99_MS_MAX = 250.0
MIB = 1 << 20
MEMORY_BYTES_MAX = 512 * MIB
SECONDS = 8.0
LEAD_S = 2.0  # that a flood has before the others are measured
NONE = "none"
QUEUES = 300
RESULTS = Path("build/attack.jsonl")


@dataclass
class Row:
    """What one flood did to one server."""

    flood: str
    p99_ms: dict[str, float]
    worst_ms: dict[str, float]
    failures: list[str]
    peak_bytes: int
    cpu_s: float

    @property
    def is_good(self) -> bool:
        """Whether the clients were served, in time, and the server stayed small."""
        in_time = all(each <= P99_MS_MAX for each in self.p99_ms.values())
        return in_time and not self.failures and self.peak_bytes <= MEMORY_BYTES_MAX


def p99(values: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else values[0]


def meet(server: ServerProcess, flood: str, seconds: float, key: tuple[str, str]) -> Row:
    """Let clients work while a flood comes."""
    ports = [str(server.ports[name]) for name in ("amqp", "http", "sqs")]
    program = [sys.executable, "-m"]
    clients = subprocess.Popen(
        [*program, "tests.attack.clients", str(seconds), *ports],
        env=os.environ | {"AWS_ACCESS_KEY_ID": key[0], "AWS_SECRET_ACCESS_KEY": key[1]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert clients.stdout is not None
    assert clients.stdin is not None
    assert clients.stdout.readline() == "warm\n", "the clients were not served before the flood"
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    used_s = cpu_s(server.pid)
    attack = None
    if flood != NONE:
        attack = subprocess.Popen([*program, "tests.attack.floods", flood, str(seconds + LEAD_S), *ports])
        try:
            attack.wait(LEAD_S)
            raise AssertionError(f"the flood {flood} ended by itself with {attack.returncode}")
        except subprocess.TimeoutExpired:
            pass
    told, _ = clients.communicate("go\n")
    row = as_row(flood, json.loads(told), status(server.pid, "VmHWM:"), cpu_s(server.pid) - used_s)
    if attack is not None:
        attack.kill()
        attack.wait()
    return row


def as_row(flood: str, told: dict[str, Any], peak_bytes: int, used_s: float) -> Row:
    """What the clients have seen, in a few figures."""
    failures = [f"{name}: {each}" for name, notes in told.items() for each in notes["failures"]]
    latencies = {name: notes["latencies_ms"] for name, notes in told.items()}
    p99s = {name: p99(values) for name, values in latencies.items()}
    return Row(flood, p99s, {name: max(values) for name, values in latencies.items()}, failures, peak_bytes, used_s)


def tell(row: Row) -> None:
    """A line for people, and the reason when it is bad."""
    figures = "  ".join(f"{row.p99_ms[name]:6.0f} {row.worst_ms[name]:6.0f}" for name in row.p99_ms)
    verdict = "ok" if row.is_good else "BAD"
    print(f"{row.flood:15} {figures}  {row.peak_bytes // MIB:5d} MiB {row.cpu_s:5.1f} s  {verdict}", flush=True)
    for each in sorted(set(row.failures))[:3]:
        print(f"{'':15} failed: {each[:160]}", flush=True)


def prepared(server: ServerProcess) -> tuple[str, str]:
    """Users for the floods, queues to look at, and an access key for the client of SQS."""
    login = base64.b64encode(b"guest:guest").decode()
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"])
    rights = {"configure": "^$", "write": "^$", "read": "^$"}
    wanted: dict[str, object] = {
        f"/api/users/{USER}": {"password": PASSWORD, "tags": "management"},
        f"/api/users/{POLICYMAKER}": {"password": PASSWORD, "tags": "policymaker"},
        f"/api/permissions/%2F/{USER}": rights,
        f"/api/permissions/%2F/{POLICYMAKER}": rights,
        **{f"/api/queues/%2F/{'a' * (1 + number % 60)}-{number}": {"durable": True} for number in range(QUEUES)},
    }
    for path, given in wanted.items():
        connection.request("PUT", path, json.dumps(given), headers)
        answer = connection.getresponse()
        assert answer.status < 300, f"{path}: {answer.status} {answer.read()!r}"
        answer.read()
    connection.close()
    command = [sys.executable, "-m", "leveret", "keys", "add", "guest", "--data", str(server.data), "--json"]
    key = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return key["id"], key["secret"]


def met(flood: str, seconds: float) -> Row:
    """What a flood does to a new server."""
    with tempfile.TemporaryDirectory() as folder:
        server = ServerProcess(Path(folder)).start()
        try:
            return meet(server, flood, seconds, prepared(server))
        finally:
            server.kill()  # one that a flood has stopped would not end in order


def main() -> int:
    """Meet every flood; print a table, and one line of JSON each into a file."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("floods", nargs="*", help=f"which ones (default: all): {', '.join(FLOODS)}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"how long each lasts (default {SECONDS:g})")
    given = parser.parse_args()
    unknown = set(given.floods) - set(FLOODS) - {NONE}
    if unknown:
        parser.error(f"there is no flood {', '.join(sorted(unknown))}: choose from {', '.join(FLOODS)}")
    print(f"clients at 127.0.0.1, floods from {ATTACKER}; p99 and worst latency in ms, peak memory, CPU of the server")
    print(f"{'flood':15} {'  '.join(f'{name:>13}' for name in KINDS)}      peak      CPU", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    rows = []
    with RESULTS.open("w") as results:
        for flood in given.floods or [NONE, *FLOODS]:
            row = met(flood, given.seconds)
            tell(row)
            results.write(line("attack", **asdict(row)) + "\n")
            rows.append(row)
    bad = [row.flood for row in rows if not row.is_good]
    limits = f"p99 {P99_MS_MAX:g} ms, memory {MEMORY_BYTES_MAX // MIB} MiB, no failure"
    print(f"limits: {limits}; {f'BAD: {chr(44).join(bad)}' if bad else 'all floods within them'}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
