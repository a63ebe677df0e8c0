"""A stream in a data directory, as a place that tasks read from; the broker need not run."""

import os
from dataclasses import dataclass
from functools import lru_cache

from leveret.core.errors import DamagedJournal, InvalidArgument, NotFound
from leveret.spark.directories import directory
from leveret.spark.options import Options, required
from leveret.spark.records import VHOST
from leveret.spark.segments import EntityNames, QueueName, segment_files, slices
from leveret.spark.spans import OffsetSpan
from leveret.spark.streams import BlockGroup, Ends
from leveret.storage.disk import Disk
from leveret.storage.encryption import load_keys
from leveret.storage.store_url import is_url
from leveret.storage.stream.reader import LogFiles, offset_at, piece, reach

DIRECTORY = "streams"
PIECE_BYTES = 8 << 20
SURVEY_BYTES = 1 << 30
LOGS_MAX = 64

KeyPlaces = tuple[str | None, str | None]


@dataclass(frozen=True)
class StoredStream:
    """The directories of one stream; fit to be sent to another process, keys as the place where they are."""

    directory: str
    keys: KeyPlaces

    @classmethod
    def of(cls, options: Options) -> "StoredStream":
        """What options say."""
        keys = options.get("encryption_key_file"), options.get("encryption_key_env")
        name = QueueName(options.get("vhost", VHOST), required(options, "stream"))
        path = required(options, "path")
        if is_url(path):
            raise InvalidArgument(
                "streams in PostgreSQL are read through their server: give its url in place of a path"
            )
        return cls(directory_of(directory("path", path), name, keys), keys)

    def ends(self) -> dict[int, Ends]:
        return {number: Ends(log.first_offset, log.committed) for number, log in self._logs().items()}

    def at(self, timestamp_ms: int) -> dict[int, int]:
        return {number: offset_at(log, timestamp_ms) for number, log in self._logs().items()}

    def reach(self, spans: list[OffsetSpan], size: int) -> dict[int, int]:
        logs = self._logs()
        return {span.partition: reach(logs[span.partition], span.first, size) for span in spans}

    def piece(self, span: OffsetSpan) -> BlockGroup:
        directory = os.path.join(self.directory, str(span.partition))
        log = _known_log(directory, self.keys)
        if log.committed < span.end:
            _known_log.cache_clear()
            log = _known_log(directory, self.keys)
        try:
            data = piece(log, span.first, span.end, PIECE_BYTES)
        except DamagedJournal as error:
            raise DamagedJournal(os.path.join(directory, str(error))) from error
        return BlockGroup(data, f"{directory} from offset {span.first} on")

    def _logs(self) -> dict[int, LogFiles]:
        """Every partition as it is now."""
        numbers = sorted(int(name) for name in os.listdir(self.directory) if name.isdigit())
        return {number: _log(os.path.join(self.directory, str(number)), self.keys) for number in numbers}


def _log(directory: str, keys: KeyPlaces) -> LogFiles:
    """The files of a partition."""
    return LogFiles(Disk(directory), load_keys(*keys))


_known_log = lru_cache(LOGS_MAX)(_log)


def directory_of(path: str, stream: QueueName, keys: KeyPlaces) -> str:
    """Where a stream lies; its journal knows the number under which."""
    files = segment_files(path)
    names = EntityNames()
    for _, survey in slices(files, load_keys(*keys), SURVEY_BYTES, files[-1] if files else None):
        names.learn(survey.definitions)
    found = [
        directory
        for number, queue in sorted(names.queues.items())
        if queue == stream and os.path.isdir(directory := os.path.join(path, DIRECTORY, str(number)))
    ]
    if not found:
        raise NotFound(
            f"{path} has no stream '{stream.name}' in vhost '{stream.vhost}': look at its name, and whether this is "
            "the data directory"
        )
    return found[-1]
