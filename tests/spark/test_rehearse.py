"""`leveret pipeline rehearse`: a past period for another version of its consumer, on a real server."""

import shlex
import sys
from pathlib import Path

import pika
import pytest

from leveret.cli import main
from leveret.cli.connection import ask
from tests.server_process import ServerProcess
from tests.spark import rehearsed_worker
from tests.spark.conftest import Run

EVERY = 5


def first_version(server: ServerProcess) -> list[str]:
    """Orders that came by an exchange and directly, each acknowledged; their routing keys by number."""
    keys = [f"new.{number}" for number in range(20)] + ["orders"] * 6
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders.dead", durable=True)
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dead"}
        channel.queue_declare("orders", durable=True, arguments=dead)
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_bind("orders", "shop", "new.#")
        kept = pika.BasicProperties(delivery_mode=2, headers={"shop": "north"})
        for number, key in enumerate(keys):
            channel.basic_publish("shop" if key.startswith("new") else "", key, str(number).encode(), kept)
        for taken, (method, _, _) in enumerate(channel.consume("orders"), 1):
            assert method is not None
            channel.basic_ack(method.delivery_tag)
            if taken == len(keys):
                break
        channel.cancel()
    return keys


def test_what_the_next_version_of_a_consumer_does_differently_is_told(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "rehearsal"
    worker = shlex.join([sys.executable, rehearsed_worker.__file__, str(EVERY)])
    with ServerProcess(tmp_path) as server, server.client() as client:
        keys = first_version(server)
        flags = {"path": server.data, "url": server.http_url, "out": out, "consumer": worker}
        found = run("rehearse", "--yes", **flags, speed=0)
        assert [row["name"] for row in ask(client, "/vhosts")] == ["/"]
        rejected = {str(number) for number in range(0, len(keys), EVERY)}
        assert (found["messages"], found["drained"]) == (len(keys), True)
        assert found["outcomes that differ"] == len(found["differences"]) == len(rejected)
        assert {(row["outcome_before"], row["outcome"]) for row in found["differences"]} == {("acked", "rejected")}
        orders, graves = found["queues"]
        assert (orders["queue"], orders["acked_before"], orders["dead_before"]) == ("orders", len(keys), 0)
        assert (orders["acked"], orders["dead"]) == (len(keys) - len(rejected), len(rejected))
        assert orders["waiting_p95_ms_before"] is not None is not orders["waiting_p95_ms"]
        assert (graves["queue"], graves["messages_before"], graves["messages"]) == ("orders.dead", 0, len(rejected))
        seen = [line.split() for line in (out / "consumer.log").read_text().splitlines()]
        assert [(str(number), key) for number, key in enumerate(keys)] == sorted(
            map(tuple, seen), key=lambda row: int(row[0])
        )
        # What was rehearsed is not rehearsed again; a consumer that ends leaves messages where they are.
        flags |= {"consumer": f"{sys.executable} -c 'raise SystemExit(3)'", "into": "once-more"}
        again = run("rehearse", "--keep", **flags, speed=1000)
        assert (again["messages"], again["drained"], again["consumer ended with"]) == (len(keys), False, 3)
        assert [row["outcome"] for row in again["differences"]] == ["open"] * len(keys)
        assert {row["name"] for row in ask(client, "/vhosts")} == {"/", "once-more"}


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("", "give --yes"),
        ("--yes --speed -1", "speed=-1.0"),
        ("--yes --consumer ''", "--consumer is empty"),
        ('--yes --consumer "\'"', "No closing quotation"),
        ("--yes", "name that of the server at --url by --data"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused_before_spark_starts(
    flags: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["rehearse", "--path", str(tmp_path), "--url", "http://127.0.0.1:1", "--out", str(tmp_path / "out")]
    assert main.main(["pipeline", *line, *shlex.split(flags)]) == 1
    assert told in capsys.readouterr().err
