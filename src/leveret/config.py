"""Every option of a broker once: its name, default and help."""

from dataclasses import dataclass, field
from typing import Any, Literal

MIB = 1 << 20


def option(default: Any, help: str) -> Any:
    """A field with its help."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a broker is opened: the keywords of leveret.open.

    What concerns files has no effect on a broker in memory. docs/options.md has each option with its help.
    """

    sync: Literal["always", "interval", "never"] = option(
        "always", "when send() returns: always = on disk; interval, never = a power cut may lose what was confirmed"
    )
    interval_ms: int = option(200, "time between syncs when sync is interval")
    encryption_key_file: str | None = option(None, "file with the keys for encryption at rest; the first one writes")
    encryption_key_env: str | None = option(None, "environment variable with the keys for encryption at rest")
    archive_dir: str | None = option(None, "directory that gets each log segment before it is removed")
    blobs: str | None = option(None, "URL of the object store for large bodies; default: a directory beside the log")
    blob_bytes: int = option(256 * 1024, "bodies over this size are kept outside of the log")
    message_bytes_max: int = option(16 * MIB, "largest body of a queue without a max_message_size of its own")
    segment_bytes: int = option(64 * MIB, "size of a log segment")
    cache_bytes: int = option(
        16 * MIB, "memory for the end of the log, so that recent messages are not read back from disk"
    )
    checkpoint_bytes: int = option(256 * MIB, "bytes written between two checkpoints")
    spare_bytes: int = option(64 * MIB, "room kept so that acknowledgements work on a full disk")
    disk_free_min_bytes: int = option(256 * MIB, "free space below which publishes are refused")
    salvage: bool = option(False, "skip damaged parts of the log instead of refusing to start")
    on_failure: Literal["exit", "raise"] = option(
        "exit", "after a failed write or sync: end the process, or raise JournalFailed from every verb"
    )
