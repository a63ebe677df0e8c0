"""A stream in a data directory, as a place that tasks read from; the broker need not run."""

import os
from dataclasses import dataclass, field
from functools import lru_cache

from leveret.core.errors import DamagedJournal, InvalidArgument, NotFound, NotSupported
from leveret.spark.directories import directory
from leveret.spark.options import Options, required
from leveret.spark.records import VHOST
from leveret.spark.segments import EntityNames, segment_files, slices
from leveret.spark.spans import OffsetSpan
from leveret.spark.streams import BlockGroup, Ends, Survey
from leveret.storage.disk import Disk
from leveret.storage.encryption import load_keys
from leveret.storage.options import is_url
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

    def survey(self) -> Survey:
        ends = {number: Ends(log.first_offset, log.committed) for number, log in self._logs().items()}
        return Survey(int(os.path.basename(self.directory)), ends)

    def at(self, timestamp_ms: int) -> dict[int, int]:
        return {number: offset_at(log, timestamp_ms) for number, log in self._logs().items()}

    def reach(self, spans: list[OffsetSpan], size: int) -> dict[int, int]:
        logs = self._logs()
        return {number: reach(logs[number], first, size) for (_, number), first, _ in spans}

    def piece(self, span: OffsetSpan) -> BlockGroup:
        directory = os.path.join(self.directory, str(span.partition.number))
        log = _known_log(directory, self.keys)
        if log.committed < span.end:
            _known_log.cache_clear()
            log = _known_log(directory, self.keys)
        try:
            data = piece(log, span.first, span.end, PIECE_BYTES).data
        except DamagedJournal as error:
            raise DamagedJournal(os.path.join(directory, str(error))) from error
        return BlockGroup(data, f"{directory} from offset {span.first} on")

    def note(self, group: str, offsets: dict[int, int]) -> None:
        raise NotSupported(f"{self.directory} is read without a server, which would note how far group '{group}' is")

    def _logs(self) -> dict[int, LogFiles]:
        """Every partition as it is now."""
        numbers = sorted(int(name) for name in os.listdir(self.directory) if name.isdigit())
        return {number: _log(os.path.join(self.directory, str(number)), self.keys) for number in numbers}


def _log(directory: str, keys: KeyPlaces) -> LogFiles:
    """The files of a partition."""
    return LogFiles(Disk(directory), load_keys(*keys))


_known_log = lru_cache(LOGS_MAX)(_log)


@dataclass(frozen=True)
class StoredStreams:
    """The streams of a virtual host in a data directory; fit to be sent to another process."""

    path: str
    vhost: str
    keys: KeyPlaces
    known: dict[str, str] = field(default_factory=dict, compare=False)
    """The directories of streams: tasks need not look for them."""
    looked: list[str] = field(default_factory=list, compare=False)
    """The directories that there were then; one more may be of a stream that was made anew."""

    @classmethod
    def of(cls, options: Options) -> "StoredStreams":
        """What options say."""
        keys = options.get("encryption_key_file"), options.get("encryption_key_env")
        path = required(options, "path")
        if is_url(path):
            raise InvalidArgument(
                "streams in PostgreSQL are read through their server: give its url in place of a path"
            )
        return cls(directory("path", path), options.get("vhost", VHOST), keys)

    def stream(self, name: str) -> StoredStream:
        if set(self._directories()) - {*self.looked} or name not in self.known:
            self.streams()
        if name not in self.known:
            raise NotFound(
                f"{self.path} has no stream '{name}' in vhost '{self.vhost}': look at its name, and whether this is "
                "the data directory"
            )
        return StoredStream(self.known[name], self.keys)

    def _directories(self) -> list[str]:
        place = os.path.join(self.path, DIRECTORY)
        return os.listdir(place) if os.path.isdir(place) else []

    def streams(self) -> list[str]:
        """The journal knows the numbers under which they lie; of some with one name, the one that is there."""
        files = segment_files(self.path)
        names = EntityNames()
        for _, survey in slices(files, load_keys(*self.keys), SURVEY_BYTES, files[-1] if files else None):
            names.learn(survey.definitions)
        self.looked[:] = self._directories()
        self.known.clear()
        for number, stream in sorted(names.queues.items()):
            place = os.path.join(self.path, DIRECTORY, str(number))
            if stream.vhost == self.vhost and os.path.isdir(place):
                self.known[stream.name] = place
        return list(self.known)
