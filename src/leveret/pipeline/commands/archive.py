"""`leveret pipeline archive`: sealed segments become Parquet."""

from dataclasses import asdict

from leveret.clock import SystemClock
from leveret.pipeline.archive import Archive, archive
from leveret.pipeline.commands.context import Context, Outcome


def run(context: Context) -> Outcome:
    """Bring an archive up to date."""
    given = context.given
    job = Archive(
        directory=given.out,
        sources=tuple(path for path in (given.path, given.archive) if path is not None),
        retention_days=None if given.keep else given.retention_days,
        remove_segments=given.remove_segments,
        streams=tuple(given.stream),
        url=given.url,
        token=given.token,
        compact=not given.no_compact,
        keys=(given.encryption_key_file, given.encryption_key_env),
    )
    with context.spark() as (spark, status):
        done = archive(spark, job, SystemClock().now_ms(), status.tell)
    return Outcome({"archive": given.out, **asdict(done)})
