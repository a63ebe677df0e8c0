"""`python -m tests.soak --minutes 60`: does the memory of a server stay bounded while queues and clients come and go?

Clients of SQS, REST and AMQP work at a fixed pace on a new server (see workload.py). Each minute is one line of JSON.
The exit code is 1 when a client failed, or when the memory after the first ten minutes exceeds what it was then by more
than 20 %. A shorter run takes the first sixth as its warm-up.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.measure import line
from tests.process_figures import cpu_s, open_files, status
from tests.server_process import ServerProcess
from tests.soak.workload import EVERY_S, Client, Target

MINUTES = 60
WARM_UP_MINUTES = 10
GROWTH_MAX = 1.2
MINUTE_S = 60.0
SEED = 1
RESULTS = Path("build/soak.jsonl")
MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """The server at the end of one minute; counts are those since the start."""

    minute: int
    rss_mib: float
    peak_mib: float
    cpu_share: float
    """Of one core, during this minute."""
    threads: int
    open_files: int
    data_mib: float
    rounds: int
    queues: int
    connections: int
    messages: int
    failures: int


def directory_bytes(folder: Path) -> int:
    """The size of all files; one that is removed meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def sample(minute: int, server: ServerProcess, used_s: float, clients: list[Client], seconds: float) -> Sample:
    """Look at the server and at what its clients have done."""
    pid = server.pid
    counts: Counter[str] = sum((client.work.counts for client in clients), Counter())
    return Sample(
        minute=minute,
        rss_mib=round(status(pid, "VmRSS:") / MIB, 1),
        peak_mib=round(status(pid, "VmHWM:") / MIB, 1),
        cpu_share=round((cpu_s(pid) - used_s) / seconds, 3),
        threads=status(pid, "Threads:"),
        open_files=open_files(pid),
        data_mib=round(directory_bytes(server.data) / MIB, 1),
        failures=sum(len(client.work.failures) for client in clients),
        **{name: counts[name] for name in ("rounds", "queues", "connections", "messages")},
    )


def growth(samples: list[Sample]) -> float:
    """The largest memory after the warm-up, as a multiple of the largest during it."""
    warm = min(WARM_UP_MINUTES, max(1, len(samples) // 6))
    before, after = samples[:warm], samples[warm:]
    return max((each.rss_mib for each in after), default=0.0) / max(each.rss_mib for each in before)


def soak(minutes: int, seed: int, results: Path, minute_s: float = MINUTE_S) -> tuple[list[Sample], list[str]]:
    """Let the clients work on a new server; give a sample for each minute, and what failed."""
    samples: list[Sample] = []
    stop = threading.Event()
    with (
        tempfile.TemporaryDirectory(prefix="leveret-soak-") as folder,
        results.open("w") as lines,
        ServerProcess(Path(folder), "--sqs-auth", "off") as server,
    ):
        target = Target(server.ports["amqp"], server.ports["http"], server.ports["sqs"])
        clients = [Client(kind, target, seed, stop) for kind in EVERY_S]
        for client in clients:
            client.start()
        started, used_s = time.monotonic(), cpu_s(server.pid)
        for minute in range(1, minutes + 1):
            stop.wait(max(0.0, started + minute * minute_s - time.monotonic()))
            samples.append(sample(minute, server, used_s, clients, minute_s))
            used_s = cpu_s(server.pid)
            told = line("soak", **asdict(samples[-1]))
            lines.write(told + "\n")
            lines.flush()
            print(told, flush=True)
        stop.set()
        for client in clients:
            client.join()
    return samples, [failure for client in clients for failure in client.work.failures]


def main() -> int:
    """Run a soak and judge it."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=int, default=MINUTES, help=f"how long it runs (default {MINUTES})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of names and sizes (default {SEED})")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"the file for the lines (default {RESULTS})")
    given = parser.parse_args()
    if given.minutes < 2:
        parser.error("--minutes must be 2 or more: the first is compared with the others")
    given.results.parent.mkdir(exist_ok=True)
    samples, failures = soak(given.minutes, given.seed, given.results)
    grown = growth(samples)
    for failure in sorted(set(failures))[:5]:
        print(f"failed: {failure[:200]}")
    verdict = "ok" if grown <= GROWTH_MAX and not failures else "BAD"
    print(f"{verdict}: memory is at most {grown:.2f} of the warm-up's (limit {GROWTH_MAX}), {len(failures)} failures")
    return verdict != "ok"


if __name__ == "__main__":
    sys.exit(main())
