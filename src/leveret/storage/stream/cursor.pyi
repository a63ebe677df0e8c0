from collections.abc import Collection

from leveret.core.streams import Cursor
from leveret.storage.stream.reader import Reader

class LogCursor(Cursor):
    def __init__(
        self,
        partition: int,
        reader: Reader,
        least: int = 0,
        wanted: Collection[bytes] | None = None,
        match_unfiltered: bool = False,
    ) -> None: ...
