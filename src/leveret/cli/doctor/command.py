"""`leveret doctor`: explain a data directory. It changes nothing, and needs no server, unless that is a node's."""

import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from leveret.cli.doctor import cluster
from leveret.cli.doctor.examination import LEFTOVERS, DoctorReport, bytes_to_read, examine, sizes
from leveret.cli.doctor.log import SegmentFacts, SegmentHolder
from leveret.cli.output import ProgressLine, as_json, as_list, as_table, cell, in_bytes, in_time
from leveret.cli.parser import JSON, Command, argument
from leveret.clock import SystemClock
from leveret.config import ServerOptions
from leveret.runtime.storage import journal_options
from leveret.security.der import BadCertificate
from leveret.security.revocation import read_lists
from leveret.server.control import is_remote
from leveret.server.settings import broker_options, server_options, variable
from leveret.storage.journal.files.segments import segment_name
from leveret.storage.options import options_of

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


OLDEST, NEWEST = 8, 3  # segments that are shown when there are many


def report(found: DoctorReport) -> str:
    """The whole report."""
    return "\n\n".join(part for part in parts(found) if part)


def parts(found: DoctorReport) -> Iterator[str]:
    """One paragraph for each subject."""
    yield as_list(about(found))
    yield as_table(
        [{**asdict(each), "bytes": in_bytes(each.bytes)} for each in found.sizes], ("kind", "files", "bytes")
    )
    yield segments(found)
    if found.log.holders:
        rows = [asdict(each) for each in found.log.holders]
        yield "Who holds the oldest segments:\n" + as_table(
            rows, ("segment", "vhost", "queue", "live", "ready", "paused")
        )
    if found.streams:
        rows = [{**asdict(each), "bytes": in_bytes(each.bytes)} for each in found.streams]
        yield "Streams:\n" + as_table(rows, ("stream", "name", "partition", "segments", "bytes", "first", "records"))
    if found.damage:
        yield "Damage:\n" + as_table([each._asdict() for each in found.damage], ("name", "offset", "why"))
    yield "What to do:\n" + "\n".join(f"- {cell(sentence)}" for sentence in found.advice)


def about(found: DoctorReport) -> dict[str, object]:
    """What the directory is."""
    log = found.log
    open_in = "no process" if found.holder is None else f"process {found.holder}: figures move while this reads"
    again = f"a start reads {in_bytes(log.after_checkpoint_bytes)} of the log again ({in_time(log.restored_s)} here)"
    return {
        "directory": found.directory,
        "broker": found.broker or "unknown: META cannot be read",
        "created": day(found.created_ms),
        "open in": open_in,
        "messages": f"{log.ready} ready and {log.scheduled} scheduled in {log.queues} queues",
        "checkpoint": f"{log.checkpoint or 'none'}; {again}",
        "large bodies": f"{log.blobs}, {log.orphans} of them without a message",
        "checked": "every byte" if found.checked else "only what a start reads",
        "free": in_bytes(found.free_bytes),
    }


def segments(found: DoctorReport) -> str:
    """The segments of the log; of many, the oldest and the newest."""
    every = found.log.segments
    shown = every if len(every) <= OLDEST + NEWEST else [*every[:OLDEST], *every[-NEWEST:]]
    rows = [segment_row(each, found.examined_ms) for each in shown]
    text = as_table(rows, ("segment", "bytes", "age", "records", "live"))
    left_out = len(every) - len(shown)
    return text + (f"\n({left_out} segments between them are not shown)" if left_out else "")


def segment_row(segment: SegmentFacts, now_ms: int) -> dict[str, object]:
    """A segment in the table."""
    age_s = None if segment.begun_ms is None else (now_ms - segment.begun_ms) / 1000
    return {
        "segment": segment_name(segment.segment),
        "bytes": in_bytes(segment.bytes),
        "age": None if age_s is None else in_time(age_s),
        "records": segment.placed,
        "live": segment.live,
    }


def day(at_ms: int | None) -> str:
    """A time for people."""
    return "" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(" ", "seconds")


def advice_on_lists(options: ServerOptions, now_ms: int) -> Iterator[str]:
    """Lists that cannot be used, have expired, or will soon."""
    for path in filter(None, (options.tls_crl, options.cluster_tls_crl)):
        try:
            lists = read_lists(path)
        except BadCertificate as error:
            yield str(error)
            continue
        if lists.next_update_ms is None or not lists.is_due(now_ms):
            continue
        left_s = (lists.next_update_ms - now_ms) / 1_000
        when = f"expires in {in_time(left_s)}" if left_s > 0 else "has expired"
        yield f"a revocation list in {path} {when}: put a new one there, without it every certificate is refused"


def run(given: Namespace) -> int:
    """Examine and explain; fails when something is damaged, or not all of a cluster is at work."""
    settings = server_options({} if given.data is None else {"data": given.data}, os.environ, given.config)
    path, check = Path(settings.data), not given.quick
    if is_remote(settings.data):
        told = cluster.examine(path, advice_on_lists(settings, SystemClock().now_ms()))
        print(as_json(told) if given.json else cluster.report(told))
        return 0 if cluster.is_well(told) else 1
    options = journal_options(options_of(broker_options(settings)))
    total = bytes_to_read(sizes(path), check)
    with ProgressLine("reading", total, in_bytes) as progress:
        found = examine(path, options, check, progress.add)
    found.advice = advice(found, advice_on_lists(settings, found.examined_ms))
    print(as_json(found.as_dict()) if given.json else report(found))
    return 0 if found.sound or found.holder is not None else 1


ARGUMENTS = (
    argument("data", metavar="DIR", nargs="?", help=f"the data directory; default: ${variable('data')}, or data"),
    argument("--config", metavar="FILE", help="configuration file of the server; says where the keys are"),
    argument("--quick", action="store_true", help="read only what a server reads when it starts"),
    JSON,
)
COMMAND = Command(
    ARGUMENTS,
    run,
    ("leveret doctor", "leveret doctor --quick --json"),
)
