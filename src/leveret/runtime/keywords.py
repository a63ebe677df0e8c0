"""The keywords of the verbs that programs call: declared once, for threads and asyncio, here and in clients.

Type checkers refuse a misspelt one by these tables, and editors complete it; docs/ says what each of them does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict


class OpenOptions(TypedDict, total=False):
    """leveret.open: those of leveret.Options."""

    sync: Literal["always", "interval", "never"]
    interval_ms: int
    encryption_key_file: str | None
    encryption_key_env: str | None
    archive_dir: str | None
    history_age_s: float
    history_bytes: int
    history_events: Literal["durable", "all"]
    blobs: str | None
    blob_bytes: int
    message_bytes_max: int
    segment_bytes: int
    cache_bytes: int
    checkpoint_bytes: int
    spare_bytes: int
    disk_free_min_bytes: int
    salvage: bool
    tracing: bool
    tracing_endpoint: str | None
    tracing_ratio: float
    tracing_rate_max: int
    tracing_spans_max: int
    on_failure: Literal["exit", "raise"]


class QueueOptions(TypedDict, total=False):
    """broker.queue and declare_queues: those that set arguments; times in seconds."""

    visibility_timeout: float | None
    max_deliveries: int | None
    dead_letter: str | None
    max_priority: int | None
    priority_mode: Literal["strict", "weighted", "ageing"] | None
    ageing: float | None
    delay: float | None
    ttl: float | None
    expires: float | None
    max_length: int | None
    max_bytes: int | None
    overflow: Literal["drop-head", "reject-publish", "reject-publish-dlx"] | None
    retention: float | None
    backoff: Literal["exponential", "linear", "none"] | Sequence[float] | None
    backoff_jitter: float | None
    dedup_window: float | None
    dedup_scope: Literal["queue", "group"] | None
    content_dedup: bool | None
    groups: Literal["fifo", "fifo-batch", "fair", "off"] | None
    max_message_size: int | None
    single_active_consumer: bool | None
    display_name: str | None


class StreamSettings(TypedDict, total=False):
    """broker.stream."""

    partitions: int | None
    max_age: str | float | timedelta | None
    max_bytes: int | None
    segment_bytes: int | None
    create: bool


class ExchangeOptions(TypedDict, total=False):
    """broker.exchange."""

    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, Any] | None


class SendOptions(TypedDict, total=False):
    """queue.send, send_many and exchange.publish; times in seconds."""

    priority: int | None
    delay: float | None
    ttl: float | None
    group: str | None
    dedup_id: str | None
    headers: dict[str, Any] | None
    properties: dict[str, Any] | None


class RecordOptions(TypedDict, total=False):
    """stream.send and send_many."""

    key: str | None
    headers: dict[str, Any] | None
    properties: dict[str, Any] | None
    producer: str | None
    sequence: int | None
    filter: str | None


class ReaderOptions(TypedDict, total=False):
    """stream.reader and iterate."""

    filters: Iterable[str] | None
    match_unfiltered: bool


class Conditions(TypedDict, total=False):
    """queue.browse, redrive and discard: which messages."""

    headers: Mapping[str, Any] | None
    contains: str | bytes | None
    since: datetime | float | None
    until: datetime | float | None
    priority_min: int | None
    priority_max: int | None
    group: str | None
    message_ids: Collection[str | int | None] | None
    routing_key: str | None


class ConsumerOptions(TypedDict, total=False):
    """queue.consume."""

    prefetch: int
    priority: int
    exclusive: bool
    tag: str | None


class WorkerOptions(TypedDict, total=False):
    """queue.worker and run."""

    concurrency: int
    idempotent: bool
    name: str
