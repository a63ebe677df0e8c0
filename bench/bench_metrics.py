"""Scrapes of a broker with 100,000 queues, a tenth of them in use: time, bytes, CPU, longest stop of the loop.

A second client asks for /health/live again and again meanwhile: its slowest answer is how long the loop was not free.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import leveret
from bench.amqp.processes import free_port, started
from bench.measure import report

QUEUES = 5_000 if os.environ.get("QUICK") else 100_000
USED_SHARE = 10  # every tenth queue has messages
SCRAPES = 3
SAMPLE_S = 5  # the server looks at all queues so often, for rates
MEASURED_S = SAMPLE_S if os.environ.get("QUICK") else 2 * SAMPLE_S
START_S_MAX = 120
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PATHS = {
    "whole": "/metrics",
    "alerts": "/metrics/detailed?family=leveret_queue_metrics&family=leveret_queue_times&family=leveret_graveyards",
    "per_object": "/metrics/per-object",
}


def prepare(data: Path) -> None:
    """Make the queues, and let something happen in some of them."""
    names = [f"queue-{number:06d}" for number in range(QUEUES)]
    with leveret.open(data, sync="never") as broker:
        broker.declare_queues(names)
        for name in names[::USED_SHARE]:
            broker.queue(name).send_many([b"message"] * 3)


def cpu_s(pid: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


async def ask(port: int, path: str) -> int:
    """One request on a connection of its own; gives the bytes of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    size = 0
    first = b""
    while piece := await reader.read(1 << 18):
        first = first or piece
        size += len(piece)
    writer.close()
    await writer.wait_closed()
    assert first.startswith(b"HTTP/1.1 200"), first[:200]
    return size


async def ready(port: int) -> None:
    """Wait until the server answers."""
    deadline = time.monotonic() + START_S_MAX
    while True:
        try:
            await ask(port, "/health/ready")
            return
        except OSError:
            assert time.monotonic() < deadline, "the server did not start"
            await asyncio.sleep(0.2)


async def ping(port: int, stalls_s: list[float]) -> None:
    """Ask for the least thing over and over; keep how long each answer took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while True:
            began = time.perf_counter()
            writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"}")
            stalls_s.append(time.perf_counter() - began)
            await asyncio.sleep(0.001)
    finally:
        writer.close()


async def measure(port: int, pid: int, path: str, idle_share: float) -> dict[str, float]:
    """Scrapes alone, for time and CPU; then with somebody beside them, for the longest stop."""
    times_s, stalls_s = [], [0.0]
    size, used_s, began_s = 0, cpu_s(pid), time.perf_counter()
    while (spent_s := time.perf_counter() - began_s) < MEASURED_S:
        size = await ask(port, path)
        times_s.append(time.perf_counter() - began_s - spent_s)
    used_s = cpu_s(pid) - used_s - idle_share * spent_s
    pinging = asyncio.create_task(ping(port, stalls_s))
    for _ in range(SCRAPES):
        await ask(port, path)
    pinging.cancel()
    await asyncio.gather(pinging, return_exceptions=True)
    return {
        "ms": round(min(times_s) * 1_000),
        "bytes": size,
        "broker_cpu_ms": round(used_s / len(times_s) * 1_000),
        "longest_stall_ms": round(max(stalls_s) * 1_000, 1),
    }


async def idle(pid: int) -> float:
    """The share of a core that the server takes without a scrape."""
    used_s, began_s = cpu_s(pid), time.perf_counter()
    await asyncio.sleep(MEASURED_S)
    return (cpu_s(pid) - used_s) / (time.perf_counter() - began_s)


async def drive(port: int, pid: int) -> dict[str, Any]:
    """Every kind of scrape."""
    await ready(port)
    await asyncio.sleep(SAMPLE_S)  # so that the first look at all queues is over
    share = await idle(pid)
    return {"idle_core_share": round(share, 3)} | {
        name: await measure(port, pid, path, share) for name, path in PATHS.items()
    }


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        prepare(Path(folder) / "data")
        port = free_port()
        command = [
            sys.executable,
            "-m",
            "leveret",
            "serve",
            "--data",
            str(Path(folder) / "data"),
            "--http-port",
            str(port),
        ]
        others = ("--amqp-port", "0", "--sqs-port", "off", "--alerts-every-s", "0", "--log-level", "warning")
        with started([*command, *others], Path(folder) / "log") as server:
            found = asyncio.run(drive(port, server.pid))
    report("metrics", queues=QUEUES, used=QUEUES // USED_SHARE, **found, goal_longest_stall_ms=50)


if __name__ == "__main__":
    main()
