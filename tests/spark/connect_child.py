"""A client of Spark Connect: SQL on the journal, a queue and a stream, and a streaming query, without a Java here.

python -m tests.spark.connect_child sc://... FOLDER --json
"""

import json
import sys
from pathlib import Path

from leveret.spark.session import session
from leveret.spark.sql import attach
from tests.server_process import ServerProcess
from tests.spark.test_sink import close_clients

QUERY_S = 300


def main(url: str, folder: Path) -> None:
    spark = session(remote=url)
    place = folder / "server"
    place.mkdir()
    history = {"path": str(folder / "data"), "archive": str(folder / "handed")}
    with ServerProcess(place) as server, server.client() as client:
        client.queue("orders")
        client.stream("clicks", partitions=1).send_many([b"%d" % number for number in range(30)])
        attach(spark, "leveret", **history, url=server.http_url, queues=["orders"], streams=["clicks"])
        spark.sql("insert into leveret.orders (value) select value from leveret.clicks where offset < 10")
        source = spark.readStream.format("leveret").options(
            url=server.http_url, stream="clicks", startingOffsets="earliest"
        )
        writer = (
            source.load().select("value").writeStream.format("leveret").options(url=server.http_url, queue="orders")
        )
        query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(QUERY_S)
        published = spark.sql("select count(*) from leveret.events where event = 'published'").collect()[0][0]
        told = {
            "messages": published,
            "rows of a queue": spark.sql("select count(*) from leveret.orders").collect()[0][0],
            "ready": client.queue("orders").stats().ready,
        }
        assert told["ready"] == told["rows of a queue"] == 40, told
    print(json.dumps(told))
    close_clients()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
