"""A client and sources of Spark in a process that has nothing compiled of Leveret: pure_child.py URL AMQP_URL."""

import json
import sys
from typing import Any

import pyarrow as pa
from pyspark.sql.types import MapType, StringType, StructType

import leveret
from leveret.spark.sink import CLIENTS
from leveret.spark.source import LeveretSource


def rows(**options: str) -> list[dict[str, Any]]:
    """What a task reads."""
    reader: Any = LeveretSource(options).reader(StructType())
    return [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]


def over_amqp(url: str) -> list[Any]:
    """What comes back of messages that were sent."""
    with leveret.connect(url) as broker:
        pure = broker.queue("pure")
        pure.send("one", group="g", dedup_id="d")
        pure.send_many([b"x" * 200_000, {"two": 2}])
        found = pure.receive(5)
        pure.ack_many(found)
        return [found[0].group, len(found[1].data), found[2].body]


def main(url: str, amqp_url: str) -> None:
    with leveret.connect(url) as broker:
        orders = broker.queue("orders")
        orders.send("one", headers={"a": 1})
        orders.send({"two": 2})
        taken = orders.receive(10)
        told: dict[str, object] = {"received": [message.body for message in taken]}
        orders.ack_many(taken)
        clicks = broker.stream("clicks", partitions=1)
        clicks.send_many([str(number) for number in range(3)], headers={"kind": "a"})
        records = rows(url=url, stream="clicks")
        told["stream"] = [record["value"].decode() for record in records]
        told["headers"] = [record["headers"] for record in records]
        schema = StructType().add("value", "binary").add("headers", MapType(StringType(), StringType()))
        writer = LeveretSource({"url": url, "queue": "orders"}).writer(schema, False)
        types = pa.schema([("value", pa.binary()), ("headers", pa.map_(pa.string(), pa.string()))])
        facts = [{"value": value, "headers": [("k", "v")]} for value in (b"x", b"y")]
        writer.commit([writer.write(iter([pa.RecordBatch.from_pylist(facts, types)]))])
        told["queue"] = [row["value"].decode() for row in rows(url=url, queue="orders")]
        told["published"] = [message.data.decode() for message in orders.receive(10)]
    told["amqp"] = over_amqp(amqp_url)
    while CLIENTS:
        CLIENTS.popitem()[1].close()
    files = [
        getattr(module, "__file__", None) or "" for name, module in sys.modules.items() if name.startswith("leveret")
    ]
    told |= {"from": leveret.__file__, "compiled": [file for file in files if file.endswith(".so")]}
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
