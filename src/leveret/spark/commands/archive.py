"""`leveret pipeline archive`: sealed segments become tables of Iceberg."""

import os
from dataclasses import asdict

from leveret.clock import SystemClock
from leveret.core.errors import NotFound
from leveret.spark.archive import Archive, archive
from leveret.spark.commands.context import Context, Outcome
from leveret.spark.segments import is_data_directory

RARE = (
    "compacted_files",
    "expired_files",
    "removed_segments",
    "missing_segments",
    "gone_segments",
    "records",
    "missing_records",
)
"""What people need not be told when there is none of it."""
NOTHING_NEW = "There is no new segment: the last one is archived when a running server has sealed it."


def run(context: Context) -> Outcome:
    """Bring an archive up to date."""
    given = context.given
    if given.path is not None and os.path.isdir(given.path) and not is_data_directory(given.path):
        raise NotFound(
            f"{given.path} has no journal: if its server keeps it in PostgreSQL, give --store in place of --path"
        )
    job = Archive(
        directory=given.out,
        sources=tuple(path for path in (given.path, given.archive) if path is not None),
        store=given.store,
        retention_days=None if given.keep else given.retention_days,
        remove_segments=given.remove_segments,
        streams=tuple(given.stream),
        url=given.url,
        token=given.token,
        compact=not given.no_compact,
        convert=given.convert,
        keys=(given.encryption_key_file, given.encryption_key_env),
    )
    with context.spark() as (spark, status):
        done = archive(spark, job, SystemClock().now_ms(), status.tell)
    facts = {"archive": given.out, **asdict(done)}
    if not given.json:
        facts = {name: fact for name, fact in facts.items() if fact or name not in RARE}
    return Outcome(facts, text="" if done.segments or not (job.sources or job.store) else NOTHING_NEW)
