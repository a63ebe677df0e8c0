"""A driver of a streaming query in a process of its own, to be killed: folder, checkpoint and URL of the server."""

import sys

from leveret.pipeline.session import SMALL, session


def main(folder: str, checkpoint: str, url: str) -> None:
    """Send the lines of files to the queue `few`."""
    spark = session("local[1]", **SMALL)
    lines = spark.readStream.schema("value string").text(folder)
    query = lines.writeStream.format("leveret").options(url=url, queue="few", checkpointLocation=checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
