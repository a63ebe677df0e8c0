"""A stream at the node that has it, and at another one: published to with confirms, then read from its beginning."""

from bench.amqp.brokers import Target, greeting
from bench.amqp.load import Options, run_load
from bench.cluster_http import pids
from bench.measure import progress, report
from tests.cluster.processes import Nodes

STREAMS = {"local": "log", "proxied": "record"}
BODY_BYTES = 200
WINDOW = 10_000
STREAM_OPTIONS: Options = {"argument": "x-queue-type=stream", "body": BODY_BYTES}
STEPS: dict[str, Options] = {
    "publish": {"mode": "publish", "window": WINDOW},
    "read": {"mode": "consume", "consumer-argument": "x-stream-offset=first", "prefetch": WINDOW},
}


def measure_streams(nodes: Nodes, paths: dict[str, str], messages: int) -> None:
    """Publish so many messages through a node on each path, then read them through it."""
    for step, options in STEPS.items():
        for path, node in paths.items():
            progress(f"stream: {step}, {path}")
            port = nodes.port(node)
            target = Target("127.0.0.1", port, greeting("127.0.0.1", port), tuple(pids(nodes)))
            count: Options = {"messages": messages} if step == "publish" else {}
            result = run_load(target, {**STREAM_OPTIONS, "queue": STREAMS[path], **options, **count})
            report(
                f"cluster_stream_{step}",
                path=path,
                body_bytes=BODY_BYTES,
                messages_per_s=round(result["messages_per_s"]),
                cpu_us_per_message=result.get("broker_cpu_us"),
            )
