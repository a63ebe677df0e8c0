"""The firehose of a virtual host: what RabbitMQ copies to amq.rabbitmq.trace, recorded in firehose.txt.

`python -m tests.rabbitmq.firehose` asks a RabbitMQ of our own, which traces all virtual hosts from its start.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from leveret.wire import methods as m
from tests.rabbitmq import rabbit
from tests.rabbitmq.operations import ack, bind, consume, exchange, get, nack, publish, qos, queue
from tests.rabbitmq.script import Listen, Op, Run, Script, on

RECORDED = Path(__file__).parent / "firehose.txt"
PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"a": 1, "deep": {"b": "c"}},
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "corr",
    "reply_to": "there",
    "expiration": "60000",
    "message_id": "id",
    "timestamp": 1_700_000_000,
    "type": "kind",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "cluster",
}
# fmt: off
SCRIPT: Script = [
    queue("trace"), bind("amq.rabbitmq.trace", "trace", "#"), queue(), queue("r"), exchange("x", "fanout"),
    bind("x", "q"), bind("x", "r"), Op(m.QueuePurge("trace")),
    *on("a2", publish("k", "one", "x")), Listen(),
    *on("a2", publish("nowhere", "lost")), Listen(),
    *on("a2", publish("q", "all", **PROPERTIES)), Listen(),
    *on("a2", publish("q", "copies", headers={"CC": ["r"], "BCC": ["s"], "n": 5})), Listen(),
    *on("a2", get("r", no_ack=False)), Listen(), *on("a2", nack(1), get("r")), Listen(),
    *on("a2", qos(1), consume("q")), Listen(), *on("a2", ack(3)), Listen(),
    *on("a2", publish("trace", "not of the exchange")), Listen(),
    *[get("trace") for _ in range(11)],
    *on("a3", publish("k", "refused", "amq.rabbitmq.trace")), Listen(),
]
# fmt: on
SCRUBBED = (
    (re.compile(r"'connection': '[^']*'"), "'connection': *"),
    (re.compile(r"'node': '[^']*'"), "'node': *"),
    (re.compile(r"'vhost': '[^']*'"), "'vhost': *"),
)


def played(address: tuple[str, int, str], patience: float = 1.0) -> list[str]:
    """The transcript, without what differs from server to server."""
    lines = Run(*address, patience).play(SCRIPT)
    for pattern, replacement in SCRUBBED:
        lines = [pattern.sub(replacement, line) for line in lines]
    return lines


def main() -> None:
    """Record what RabbitMQ says."""
    with TemporaryDirectory() as directory, rabbit.playing(Path(directory), traced=True) as addresses:
        RECORDED.write_text("\n".join([*played(addresses[0]), ""]))


if __name__ == "__main__":
    main()
