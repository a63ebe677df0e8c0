"""Where history begins: behind the last segment that a limit of history removed before an archive had it."""

import os
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from leveret.spark.archive_state import is_archive
from leveret.spark.directories import is_stored
from leveret.spark.segments import number_of, segment_files, shard_in
from leveret.storage.disk import Disk
from leveret.storage.journal.files.segments import begun_ms


class Beginning(NamedTuple):
    """What history lacks."""

    gone_segments: int = 0
    """Segments of all shards that are nowhere any more."""
    complete_since: datetime | None = None
    """When the first segment behind all of them begins; None: none is gone, or only an archive has that segment."""

    @classmethod
    def of(cls, places: Iterable[str]) -> "Beginning":
        """That of data directories and archives together; what this machine does not see is not looked at."""
        present: defaultdict[int, dict[int, str | None]] = defaultdict(dict)
        for place in places:
            if (is_stored(place) or os.path.isdir(place)) and is_archive(place):
                # Not above: reading a data directory needs no library for archives.
                from leveret.spark.iceberg import IcebergArchive

                for shard, journal in IcebergArchive(place).state("events").journals.items():
                    archived = filter(journal.has, range(journal.first, journal.last + 1))
                    present[shard] = dict.fromkeys(archived) | present[shard]
            elif os.path.isdir(place):
                for file in segment_files(place):
                    present[shard_in(file)][number_of(file)] = file
        gone, times = 0, []
        for segments in present.values():
            missing = [number for number in range(1, max(segments, default=1)) if number not in segments]
            gone += len(missing)
            if missing and (path := segments[missing[-1] + 1]) is not None:
                times.append(begun_ms(Disk(os.path.dirname(path)), missing[-1] + 1))
        since_ms = max((each for each in times if each is not None), default=None)
        return cls(gone, None if since_ms is None else datetime.fromtimestamp(since_ms / 1000, UTC))


COMPLETE = Beginning()
"""Nothing is known to be gone."""
