"""What is read of a broker at work: a stream or a queue, as the options say."""

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader

from leveret.spark import queues, streams
from leveret.spark.options import Options, flag
from leveret.spark.queues import BrowseReader, PushdownBrowseReader, QueueSource, ReservationReader
from leveret.spark.stream_files import StoredStream
from leveret.spark.stream_server import ServedStream
from leveret.spark.streams import OffsetReader, RangeReader, StreamSource

Live = StreamSource | QueueSource


def live_source(options: Options) -> Live | None:
    """The stream, or the queue of a server, that options name; None when they mean the journal."""
    if "stream" in options:
        place = ServedStream.of(options) if "url" in options else StoredStream.of(options)
        return StreamSource.of(place, options)
    if "url" in options:
        return QueueSource.of(options)
    return None


def live_reader(source: Live, options: Options) -> DataSourceReader:
    """A table."""
    if isinstance(source, StreamSource):
        return RangeReader(source, options)
    return (PushdownBrowseReader if flag(options, "pushdown", False) else BrowseReader)(source)


def live_stream_reader(source: Live, options: Options) -> DataSourceStreamReader:
    """A streaming query."""
    if isinstance(source, StreamSource):
        return OffsetReader(source, streams.StreamAdmission.of(options))
    return ReservationReader(source, queues.QueueAdmission.of(options))
