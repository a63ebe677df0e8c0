"""What to do about what was found: a table of questions, the most pressing ones first."""

from collections.abc import Callable, Iterable, Iterator

from leveret.cli.doctor.examination import DoctorReport
from leveret.cli.doctor.log import SegmentHolder
from leveret.cli.doctor.sizes import LEFTOVERS
from leveret.cli.units import in_bytes, in_time

FREE_MIN_BYTES = 1 << 30
REPLAY_MANY_BYTES = 4 << 30
OLD_MS = 86_400_000
SPARSE_SHARE = 0.2  # of the records of a segment that still live
SPARSE_SEGMENTS = 10
NAMED = 5  # files that a sentence names

Question = Callable[[DoctorReport], Iterator[str]]


def damaged(found: DoctorReport) -> Iterator[str]:
    """Bytes that are not as they were written."""
    if found.log.trouble:
        yield f"a server does not start on this: {found.log.trouble}"
    if found.damage:
        names = ", ".join(sorted({each.name for each in found.damage})[:NAMED])
        yield (
            f"restore {names} from a backup; without one, start once with --salvage, "
            "which skips what is damaged and says how much that was"
        )
    if found.log.torn_bytes and not found.log.trouble:
        size = in_bytes(found.log.torn_bytes)
        yield f"{size} at the end were being written at a crash: the next start cuts them, nothing is lost"
    for each in found.streams:
        if each.trouble:
            yield f"stream {each.name or each.stream}, partition {each.partition}: {each.trouble}"


def held(found: DoctorReport) -> Iterator[str]:
    """Old segments that cannot go because of a few messages."""
    segments = found.log.segments
    if len(segments) < 2 or not found.log.holders:
        return
    first = found.log.holders[0]
    oldest = next((each for each in segments if each.segment == first.segment), None)
    if oldest is None or oldest.begun_ms is None or found.examined_ms - oldest.begun_ms < OLD_MS:
        return
    age = in_time((found.examined_ms - oldest.begun_ms) / 1000)
    who = f"queue '{first.queue}' with {first.live} messages"
    yield f"segment {oldest.segment} is {age} old and held by {who}: {remedy(first)}"


def remedy(holder: SegmentHolder) -> str:
    """What lets the messages of a queue go."""
    if holder.paused:
        return "it is paused; resume it (leveret queues resume), or move them (leveret redrive --to)"
    return "let its consumers work, move them (leveret redrive --to), or give the queue a ttl or retention"


def sparse(found: DoctorReport) -> Iterator[str]:
    """A log that is mostly settled."""
    old = found.log.segments[:-1]
    thin = [each for each in old if each.placed and each.live < SPARSE_SHARE * each.placed]
    if len(thin) >= SPARSE_SEGMENTS:
        yield (
            f"{len(thin)} of {len(old)} older segments are mostly settled and will go when the oldest one does: a "
            "running server removes them by itself, one after the other"
        )


def slow_start(found: DoctorReport) -> Iterator[str]:
    """A start that takes long."""
    if found.log.after_checkpoint_bytes > REPLAY_MANY_BYTES:
        again = in_bytes(found.log.after_checkpoint_bytes)
        yield f"a start reads {again} again: stop the server with SIGTERM, which writes a checkpoint"


def blobs(found: DoctorReport) -> Iterator[str]:
    """Large bodies without a message, and the other way around."""
    if found.log.orphans:
        yield (
            f"{found.log.orphans} large bodies ({in_bytes(found.log.orphan_bytes)}) belong to no message: the "
            "next start removes them"
        )
    if found.log.missing_blobs:
        yield f"{found.log.missing_blobs} large bodies are missing: restore the directory blobs from a backup"


def leftovers(found: DoctorReport) -> Iterator[str]:
    """What a crash left behind."""
    if any(each.kind == LEFTOVERS for each in found.sizes):
        yield "files that end in .tmp were being written at a crash: the next start removes them"
    if any(each.name is None for each in found.streams) and not found.log.trouble:
        yield "there are directories of streams that are deleted: the next start removes them"


def little_room(found: DoctorReport) -> Iterator[str]:
    """A disk that is nearly full."""
    if found.free_bytes < FREE_MIN_BYTES:
        yield f"only {in_bytes(found.free_bytes)} are free on the disk: make room, or publishers will have to wait"


QUESTIONS: tuple[Question, ...] = (damaged, little_room, held, blobs, slow_start, sparse, leftovers)


def advice(found: DoctorReport, more: Iterable[str] = ()) -> list[str]:
    """Everything that can be said, and more; in use figures move, so nothing is said about crashes then."""
    questions = QUESTIONS if found.holder is None else (little_room, held, slow_start)
    about = [sentence for question in questions for sentence in question(found)]
    return [*about, *more] or ["nothing needs to be done"]
