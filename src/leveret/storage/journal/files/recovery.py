"""Recovery: from the files to the state that was durable.

The newest good checkpoint is restored, then the commit batches after it are replayed. A bad commit batch is one that
is not whole, has another salt than its segment, or is out of sequence. Where is it?

    in the last segment, nothing after it proves that it was durable     a torn write: cut
    in the last segment, and a later commit batch says that it was durable      damage: refuse
    anywhere else; a segment is missing; numbers have a gap              damage: refuse

`salvage` skips what is damaged and counts it. A last segment without a good header and without a commit batch died in
its creation and is removed.

What a process left behind that did not close cleanly may be in the page cache only: after a failed sync its pages
count as clean, so syncing them again does nothing. The last segment is therefore written anew, as a whole, before
anything relies on it.

Opening a directory reads what it needs; damage in a part of the log that a checkpoint stands for shows only when that
part is read. `verify` reads every byte of a directory that no process has open and changes none: META, checkpoints and
segments against their checksums. Encrypted data is checked without its key.
"""

import dataclasses
import json
from collections.abc import Iterator

from leveret.core.errors import DamagedJournal, JournalError
from leveret.core.ports import JournaledState
from leveret.storage.disk import Bytes, Disk, NoRoom, cut_file, replace_file
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.checkpoint import (
    Checkpoint,
    Position,
    checkpoint_is_whole,
    checkpoint_names,
    read_checkpoint,
)
from leveret.storage.journal.columns import Survey
from leveret.storage.journal.entries import BatchHead, Replay, read_head
from leveret.storage.journal.files.meta import META_NAME, meta_is_whole, read_meta
from leveret.storage.journal.files.segments import (
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    SegmentHeader,
    parse_header,
    segment_name,
    segment_numbers,
)
from leveret.storage.segments import HEADER_BYTES, Damage, occurrences

REMEDY = "restore it from a backup, or start once with salvage to skip what is damaged"


START = Position(1, HEADER_BYTES, 0)
"""Where the first commit batch of a new log goes."""


@dataclasses.dataclass
class RecoveredJournal:
    """What recovery found, and where the log goes on."""

    segments: int = 0
    frames: int = 0
    entries: int = 0
    torn_bytes: int = 0
    from_checkpoint: bool = False
    checkpoints_ignored: int = 0
    skipped_frames: int = 0
    skipped_bytes: int = 0
    skipped_messages: int = 0
    skipped: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    """Segment, offset and end of each damage; 0 to 0: what should be before the segment, or it, is missing."""
    seconds: float = 0.0
    position: Position = START
    placed: dict[int, int] = dataclasses.field(default_factory=dict)
    last: SegmentHeader | None = None
    """The header of the last segment, if the log can go on in it."""

    def restore(self, state: JournaledState, checkpoint: Checkpoint, oldest: int) -> Position:
        """Bring a state to a checkpoint; give the position to replay from."""
        state.restore(memoryview(checkpoint.snapshot))
        self.from_checkpoint = True
        self.placed.update({n: c for n, c in checkpoint.placed.items() if n >= oldest})
        return checkpoint.position


class Recovery:
    """One reading of a data directory."""

    def __init__(self, disk: Disk, state: JournaledState, keys: MasterKeys, oldest: int, salvage: bool = False) -> None:
        """Recover a state from the segments numbered `oldest` and above."""
        self._disk = disk
        self._state = state
        self._keys = keys
        self._oldest = oldest
        self._salvage = salvage
        self._restored: Position | None = None
        self.result = RecoveredJournal()

    def run(self) -> RecoveredJournal:
        """Restore, replay, and leave a log that can be appended to."""
        result = self.result
        segments = self._segments()
        position = self._restore(segments)
        replay = Replay(self._state, result.placed)
        result.segments = len(segments)
        for segment in segments:
            if segment >= position.segment:
                position = self._replay_segment(segment, position, replay, last=segment == segments[-1])
        result.position = position
        result.entries = replay.entries
        return result

    def _segments(self) -> list[int]:
        """The segments of the log, without those of history; what died in its creation is removed."""
        found = [number for number in segment_numbers(self._disk) if number >= self._oldest]
        if found and self._died_in_creation(found[-1]):
            self._disk.unlink(segment_name(found.pop()))
            self._disk.sync_dir()
        expected = range(self._oldest, found[-1] + 1 if found else self._oldest + (self._oldest > 1))
        known = {segment for segment, offset in salvaged(self._disk) if offset == 0}
        missing = sorted(set(expected) - set(found) - known)
        if missing and not self._salvage:
            raise DamagedJournal(f"{segment_name(missing[0])} is missing: {REMEDY}")
        self.result.skipped += [(number, 0, 0) for number in missing]
        return found

    def _died_in_creation(self, segment: int) -> bool:
        """Whether a last segment has neither a good header nor a commit batch."""
        data = self._disk.read_all(segment_name(segment))
        if parse_header(data, segment) is not None:
            return False
        salts = ((at, int.from_bytes(data[at + 32 : at + 36], "little")) for at in occurrences(data, FRAME_MAGIC))
        return all(read_head(data, at, salt) is None for at, salt in salts)

    def _restore(self, segments: list[int]) -> Position:
        """Restore the newest checkpoint that is of use; give the position to replay from."""
        for name in checkpoint_names(self._disk):
            checkpoint = read_checkpoint(self._disk, name, self._keys)
            if checkpoint is not None and self._is_usable(checkpoint, segments):
                self._restored = self.result.restore(self._state, checkpoint, self._oldest)
                return self._restored
            self.result.checkpoints_ignored += 1
        first = segments[0] if segments else self._oldest
        return Position(first, HEADER_BYTES, -1 if segments else 0)

    def _is_usable(self, checkpoint: Checkpoint, segments: list[int]) -> bool:
        """Whether all commit batches after a checkpoint are here; refuse a log that ends before it."""
        segment, offset, _ = checkpoint.position
        if segment < self._oldest:
            return False
        if segment in segments:
            complete = self._disk.size(segment_name(segment)) >= offset
        else:
            complete = offset == HEADER_BYTES and segment - 1 in segments
        if not complete and not self._salvage:
            raise DamagedJournal(f"{segment_name(segment)} is cut before offset {offset}: {REMEDY}")
        return complete

    def _replay_segment(self, segment: int, position: Position, replay: Replay, last: bool) -> Position:
        """Replay the commit batches of a segment from a position on; give the position after the last one."""
        data = self._disk.read_all(segment_name(segment))
        header = parse_header(data, segment)
        offset, seq = (position.offset, position.seq) if segment == position.segment else (HEADER_BYTES, position.seq)
        if header is None:
            self._refuse(segment, 0, "its header is damaged")
            return self._skip(segment, data, HEADER_BYTES, len(data), Position(segment + 1, HEADER_BYTES, seq))
        if offset == HEADER_BYTES:
            if seq not in (-1, header.first_seq - 1):
                self._refuse(segment, 0, f"frame {seq + 1} should be its first, not {header.first_seq}")
                self.result.skipped_frames += max(0, header.first_seq - 1 - seq)
                self.result.skipped.append((segment, 0, 0))
            seq = header.first_seq - 1
        while offset < len(data):
            head = read_head(data, offset, header.salt)
            if head is None or head.seq != seq + 1:
                found = self._next_good(data, offset, header, seq, last)
                if found is None:
                    break
                self._skip(segment, data, offset, found, Position(segment, found, seq))
                head = read_head(data, found, header.salt)
                assert head is not None
                self.result.skipped_frames += max(0, head.seq - seq - 2)
                offset = found
            play_batch(replay, data, offset, head, header, self._keys)
            self.result.frames += 1
            offset, seq = head.end, head.seq
        if last:
            self._finish(header, data, offset)
        elif offset < len(data):
            self._skip(segment, data, offset, len(data), Position(segment, offset, seq))
        if self.result.last is not None:
            return Position(segment, offset, seq)
        return Position(segment + 1, HEADER_BYTES, seq)

    def _next_good(self, data: bytes, offset: int, header: SegmentHeader, seq: int, last: bool) -> int | None:
        """After a bad commit batch: None to cut here, the offset of the next good commit batch to skip to, or an
        error.
        """
        later, passed = None, offset
        for found in occurrences(data, FRAME_MAGIC, offset):
            head = read_head(data, found, header.salt) if found >= passed else None
            if head is None or head.seq <= seq:
                continue
            if not last or head.synced > seq:
                later = found
                break
            passed = head.end
        if later is not None or not last:
            self._refuse(header.segment, offset, "a frame that was durable is damaged")
        return later

    def _finish(self, header: SegmentHeader, data: bytes, end: int) -> None:
        """Cut the torn tail; write what may be torn anew; say whether the log can go on in this segment."""
        self.result.torn_bytes = len(data) - end
        if end < len(data) or not self._ends_at_checkpoint(header.segment, end):
            self._write_anew(segment_name(header.segment), memoryview(data)[:end])
        if header.key.is_plain and not self._keys:
            self.result.last = header

    def _ends_at_checkpoint(self, segment: int, end: int) -> bool:
        """Whether the log ends with a commit batch that was durable before the checkpoint was written."""
        if self._restored is None or end == HEADER_BYTES:
            return False  # a segment without a commit batch may have been begun after the checkpoint
        return self._restored[:2] == (segment, end)

    def _write_anew(self, name: str, data: Bytes) -> None:
        """Replace a segment by a copy of itself; on a full disk sync it where it is, which is all that can be done."""
        try:
            replace_file(self._disk, name, data)
        except NoRoom:
            cut_file(self._disk, name, len(data))

    def _refuse(self, segment: int, offset: int, why: str) -> None:
        """Refuse damage, unless it is to be skipped."""
        if not self._salvage:
            raise DamagedJournal(f"{segment_name(segment)} is damaged at offset {offset}: {why}; {REMEDY}")

    def _skip(self, segment: int, data: Bytes, offset: int, end: int, position: Position) -> Position:
        """Count damaged bytes that are skipped, with the messages that they seem to hold."""
        self.result.skipped.append((segment, offset, end))
        self.result.skipped_bytes += end - offset
        self.result.skipped_frames += 1
        self.result.skipped_messages += _messages_in(data, offset, end)
        return position


def _messages_in(data: Bytes, offset: int, end: int) -> int:
    """How many publishes a damaged commit batch seems to hold; a guess, for the report only."""
    body_len = int.from_bytes(data[offset + 8 : offset + 12], "little")
    index_len = int.from_bytes(data[offset + 12 : offset + 16], "little")
    first = offset + FRAME_HEADER_BYTES + body_len
    if bytes(data[offset : offset + 4]) != FRAME_MAGIC or first + index_len > end:
        return 0
    return sum(data[entry] == 1 for entry in range(first, first + index_len, 32))


def play_batch(
    replay: Replay, data: bytes, offset: int, head: BatchHead, header: SegmentHeader, keys: MasterKeys, base: int = 0
) -> None:
    """Replay one good commit batch of data that begins at `base` of its segment."""
    start = offset + FRAME_HEADER_BYTES
    if header.key.is_plain:
        replay.batch(data, start, head, header.segment, base + start)
        return
    authentic = data[offset + 8 : start]
    plain = header.opened(keys, head.seq, data[start : head.end], authentic)
    replay.batch(plain, 0, head, header.segment, base + start)


def queues_in(data: bytes, segment: int, keys: MasterKeys) -> set[int]:
    """The queues that a segment mentions, up to its end or the first bad commit batch."""
    name, header = segment_name(segment), parse_header(data, segment)
    if header is None:
        raise DamagedJournal(f"{name} has a damaged header: {REMEDY}")
    opener = header.opener(keys)
    survey = Survey(data, name, HEADER_BYTES, len(data), header.salt, open_batch=opener, may_be_torn=True)
    survey.piece(len(data))
    return survey.queues


SALVAGED_NAME = "SALVAGED"


def salvaged(disk: Disk) -> dict[tuple[int, int], int]:
    """Damage that a salvage has skipped already: its end by its segment and offset."""
    if SALVAGED_NAME not in disk.names():
        return {}
    try:
        return {(segment, offset): end for segment, offset, end in json.loads(disk.read_all(SALVAGED_NAME))}
    except (ValueError, TypeError):
        return {}  # then verify reports that damage


def note_salvaged(disk: Disk, skipped: list[tuple[int, int, int]]) -> None:
    """Remember damage that was skipped, as long as its segments are there."""
    known = {**salvaged(disk), **{(segment, offset): end for segment, offset, end in skipped}}
    first = min(segment_numbers(disk), default=0)
    rows = [(segment, offset, end) for (segment, offset), end in known.items() if segment >= first]
    replace_file(disk, SALVAGED_NAME, json.dumps(sorted(rows)).encode())


def verify(disk: Disk) -> list[Damage]:
    """Everything that is damaged in a directory, without what a salvage has skipped."""
    return [*_damage_in_meta(disk), *_damage_in_checkpoints(disk), *_damage_in_segments(disk)]


def _damage_in_meta(disk: Disk) -> Iterator[Damage]:
    if META_NAME not in disk.names():
        yield Damage(META_NAME, 0, "it is missing")
    elif not meta_is_whole(disk):
        yield Damage(META_NAME, 0, "its checksum is wrong")


def _damage_in_checkpoints(disk: Disk) -> Iterator[Damage]:
    for name in checkpoint_names(disk):
        if not checkpoint_is_whole(disk, name):
            yield Damage(name, 0, "its checksum is wrong: it will be ignored, and the log be replayed in full")


def _damage_in_segments(disk: Disk) -> Iterator[Damage]:
    """Check all segments, commit batch by commit batch, and that none of the log is missing."""
    oldest, expected, seq, known = oldest_of(disk), 0, -1, salvaged(disk)
    for number in segment_numbers(disk):
        if number != expected:
            if number > oldest and (expected or oldest) and (max(expected, oldest), 0) not in known:
                yield Damage(segment_name(max(expected, oldest)), 0, "it is missing")
            else:
                seq = -1  # the archive may have taken any part of history
        expected = number + 1
        seq, found = _damage_in_segment(disk, number, seq, known)
        yield from found


def oldest_of(disk: Disk) -> int:
    """The first segment of the log: older ones are history; 0 when META cannot be read."""
    try:
        return read_meta(disk).oldest
    except (JournalError, FileNotFoundError):
        return 0


def _damage_in_segment(
    disk: Disk, segment: int, seq: int, known: dict[tuple[int, int], int]
) -> tuple[int, list[Damage]]:
    """Check one segment, whose first commit batch follows number `seq`; give the number of its last one."""
    name = segment_name(segment)
    data = disk.read_all(name)
    header = parse_header(data, segment)
    if header is None:
        return -1, [] if (segment, HEADER_BYTES) in known else [Damage(name, 0, "its header is damaged")]
    if seq not in (-1, header.first_seq - 1) and (segment, 0) not in known:
        return -1, [Damage(name, 0, f"frame {seq + 1} should be its first, not {header.first_seq}")]
    seq, offset = header.first_seq - 1, HEADER_BYTES
    while offset < len(data):
        head = read_head(data, offset, header.salt)
        if head is not None and seq in (-1, head.seq - 1):
            seq, offset = head.seq, head.end
        elif known.get((segment, offset), 0) > offset:
            seq, offset = -1, known[segment, offset]
        else:
            return -1, [Damage(name, offset, "a frame is damaged, or was torn by a crash")]
    return seq, []
