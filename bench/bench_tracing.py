"""What tracing costs a server: off, on for one message in a hundred, on for all of them.

One producer and one consumer over AMQP, 16 B, persistent, confirmed and acknowledged, none of them with a trace context
of its own. The three servers take turns; CPU is that of the server, its exporter included. The collector takes
whatever comes.
"""

import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.amqp.brokers import SERVE, start_leveret
from bench.amqp.load import PROGRAM, run_load
from bench.measure import report

QUICK = os.environ.get("QUICK", "") not in ("", "0")
ROUNDS = 1 if QUICK else 3
LOAD = {"body": 16, "delete-after": True, "warmup": 1, "duration": 2 if QUICK else 5}
RATIOS = {"off": None, "on_1_percent": 0.01, "on_all": 1}
PORTS = "--http-port 0 --sqs-port 0"


class Swallow(BaseHTTPRequestHandler):
    """Takes a request and says that all is well."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def collector() -> Iterator[str]:
    """The URL of something that takes spans."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Swallow) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces"
        finally:
            server.shutdown()
            thread.join()


def command(url: str, ratio: float | None) -> str:
    """How a server is started."""
    if ratio is None:
        return f"{SERVE} {PORTS}"
    return f"{SERVE} {PORTS} --tracing --tracing-endpoint {url} --tracing-ratio {ratio} --tracing-rate-max 0"


def main() -> None:
    if not PROGRAM.exists():
        sys.exit("the load generator is not built: `make build/amqpload`")
    cpu_us: dict[str, list[float]] = {name: [] for name in RATIOS}
    rates: dict[str, list[float]] = {name: [] for name in RATIOS}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR"))))
        url = stack.enter_context(collector())
        targets = {}
        for name, ratio in RATIOS.items():
            (directory / name).mkdir()
            targets[name] = stack.enter_context(start_leveret(command(url, ratio), directory / name))
        for _ in range(ROUNDS):
            for name, target in targets.items():
                result = run_load(target, {"queue": name, **LOAD})
                cpu_us[name].append(result["broker_cpu_us"])
                rates[name].append(result["messages_per_s"])
    report(
        "tracing",
        **{f"{name}_cpu_us": round(statistics.median(found), 3) for name, found in cpu_us.items()},
        **{f"{name}_messages_per_s": round(statistics.median(found)) for name, found in rates.items()},
    )


if __name__ == "__main__":
    main()
