from collections.abc import Collection

from leveret.core.streams import StreamCursor
from leveret.storage.stream.reader import PartitionReader

class LogCursor(StreamCursor):
    def __init__(
        self,
        partition: int,
        reader: PartitionReader,
        least: int = 0,
        wanted: Collection[bytes] | None = None,
        match_unfiltered: bool = False,
    ) -> None: ...
