"""An examination for people: a few short tables."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime

from leveret.cli.doctor.examination import DoctorReport
from leveret.cli.doctor.log import SegmentFacts
from leveret.cli.output import as_list, as_table, cell
from leveret.cli.units import in_bytes, in_time
from leveret.storage.journal.files.segments import segment_name

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
