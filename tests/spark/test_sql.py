"""SQL on the journal, on queues and on streams, without a line of Python but for the names of tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from leveret.core.errors import InvalidArgument
from leveret.spark.sql import attach
from tests.server_process import ServerProcess
from tests.spark.history import small_history
from tests.spark.test_sink import close_clients

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tables_are_read_and_inserted_into_by_name(spark: SparkSession, tmp_path: Path) -> None:
    small_history(tmp_path / "data")
    (tmp_path / "server").mkdir()
    with ServerProcess(tmp_path / "server") as server, server.client() as broker:
        broker.queue("in orders")
        broker.stream("clicks", partitions=1)
        live = {"url": server.http_url}
        options = ", ".join(f"{name} '{value}'" for name, value in live.items())
        spark.sql(f"create temporary view inbox using leveret options ({options}, queue 'in orders')")
        spark.sql("insert into inbox (value, headers) values (binary('one'), map('kind', 'view'))")
        made = attach(spark, "shop", path=str(tmp_path / "data"), queues=["in orders"], streams=["clicks"], **live)
        assert made == ["shop.events", "shop.messages", "shop.in_orders", "shop.clicks"]
        spark.sql("insert into shop.clicks (value) select value from shop.messages where queue = 'invoices'")
        assert spark.sql("select decode(value, 'utf-8') from shop.clicks").collect()[0][0] == "invoice"
        found = spark.sql("select headers['kind'], decode(value, 'utf-8') from shop.in_orders").collect()
        assert [tuple(row) for row in found] == [("view", "one")]
        assert tuple(found[0]) == tuple(spark.table("inbox").selectExpr("headers['kind']", "'one'").collect()[0])
        counted = "select count(*) from shop.events with (queue = 'orders') where event = 'published'"
        assert spark.sql(counted).collect()[0][0] == 5
        with pytest.raises(PySparkException, match="a table has all of its columns: select some"):
            spark.sql("select * from shop.events with (columns = 'event')").collect()
        with pytest.raises(PySparkException, match="column 'delivery_count' cannot be inserted, the broker writes it"):
            spark.sql("insert into inbox (value, delivery_count) values (binary('two'), 7)")
        assert [message.body for message in broker.queue("in orders").receive(10)] == [b"one"]
    close_clients()


def test_attaching_nothing_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgument, match="nothing to attach"):
        attach(spark, url="http://127.0.0.1:1")
    with pytest.raises(InvalidArgument, match="stream 'a b': there is a table 'a_b' already"):
        attach(spark, url="http://127.0.0.1:1", queues=["a_b"], streams=["a b"])
