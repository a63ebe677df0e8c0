"""What spark-submit runs to try shipping: a stream is copied to a queue by machines that were sent the package.

spark-submit ... shipped_job.py URL CHECKPOINT

It prints JSON: what was copied, and where executors and the driver have the package from.
"""

import json
import sys

from pyspark.sql import SparkSession

QUERY_S = 300


def place(number: int) -> list[str]:
    """Where this process has the package from, and whether with what is compiled."""
    import leveret.core.tables

    return [leveret.__file__ or "", leveret.core.tables.__file__ or ""]


def main(url: str, checkpoint: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    stream = spark.readStream.format("leveret").options(url=url, stream="clicks", startingOffsets="earliest").load()
    writer = stream.select("value", "headers").writeStream.format("leveret").options(url=url, queue="orders")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_S)
    found = spark.read.format("leveret").options(url=url, queue="orders").load()
    told = {
        "copied": found.count(),
        "headers": found.selectExpr("headers['kind'] as kind").distinct().collect()[0].kind,
        "executors": sorted(set(map(tuple, spark.sparkContext.parallelize(range(8), 8).map(place).collect()))),
        "driver": place(0),
    }
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
