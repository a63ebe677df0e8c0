"""From a client of RabbitMQ to the report: what it says is what the client did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pika

from leveret.spark.report import Objective, build
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel
    from pyspark.sql import SparkSession

MESSAGES = 60
DEAD = "graveyard"
LIMIT = 2
TENANTS = ("acorn", "birch")


def parameters(url: str) -> pika.URLParameters:
    """How to connect: with a name, by which the report knows the consumer."""
    found = pika.URLParameters(url)
    found.client_properties = {"connection_name": "till-1"}
    return found


def send(channel: BlockingChannel) -> None:
    """Publish orders of two tenants, with confirms."""
    channel.confirm_delivery()
    for number in range(MESSAGES):
        headers = {"x-group-id": TENANTS[number % 2]}
        properties = pika.BasicProperties(delivery_mode=2, priority=number % 3, headers=headers)
        channel.basic_publish("", "orders", str(number).encode(), properties)


def exhausted(done: dict[str, int]) -> int:
    """How many came until their limit: each message that is given back comes again until then."""
    return done["returned"] // (LIMIT + 1)


def work(channel: BlockingChannel) -> dict[str, int]:
    """Take everything: every tenth is refused, every seventh given back again and again; gives what became of them."""
    done = {"acked": 0, "rejected": 0, "returned": 0}
    for method, _, body in channel.consume("orders", inactivity_timeout=PATIENCE_S):
        assert method is not None, f"nothing comes any more after {done}"
        number = int(body)
        if number % 10 == 0:
            channel.basic_reject(method.delivery_tag, requeue=False)
            done["rejected"] += 1
        elif number % 7 == 0:
            channel.basic_nack(method.delivery_tag, requeue=True)
            done["returned"] += 1
        else:
            channel.basic_ack(method.delivery_tag)
            done["acked"] += 1
        if done["acked"] + done["rejected"] + exhausted(done) == MESSAGES:
            break
    channel.cancel()
    return done


def test_a_report_tells_what_workers_did(spark: SparkSession, tmp_path: Path) -> None:
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": LIMIT}
    arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
    with ServerProcess(tmp_path) as server, pika.BlockingConnection(parameters(server.url)) as connection:
        channel = connection.channel()
        channel.queue_declare(DEAD, durable=True)
        channel.queue_declare("orders", durable=True, arguments=arguments)
        send(channel)
        done = work(channel)
    report = build(spark, {"path": str(server.data)}, tmp_path / "report", objective=Objective(60_000))
    orders, dead = report.findings.queues
    dropped = exhausted(done)
    assert (orders["queue"], orders["messages"], orders["published"]) == ("orders", MESSAGES, MESSAGES)
    assert (orders["acked"], orders["dead"]) == (done["acked"], done["rejected"] + dropped)
    assert orders["redelivered"] == dropped
    assert orders["delivered"] == sum(done.values())
    assert (dead["queue"], dead["open"]) == (DEAD, done["rejected"] + dropped)
    origins = {(row["origin"], row["reason"]): row["messages"] for row in report.findings.of("origins")}
    assert origins == {("orders", "rejected"): done["rejected"], ("orders", "delivery_limit"): dropped}
    (consumer,) = report.findings.of("consumers")
    assert (consumer["consumer"], consumer["acked"]) == ("guest/till-1", done["acked"])
    tenants = {row["tenant"]: row["messages"] for row in report.findings.of("tenants") if row["queue"] == "orders"}
    assert tenants == dict.fromkeys(TENANTS, MESSAGES // 2)
    assert Path(report.page).read_text().count("<svg") > 4
    assert "orders" in report.summary
