"""Publishing a message to an exchange, large or small."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leveret.core.errors import QueueFull
from leveret.runtime.large_bodies import drop_unused, is_large, put_away
from leveret.runtime.message import ids
from leveret.runtime.outgoing import Outgoing, PreparedMessage, prepare

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime


def publish(runtime: Runtime, vhost: str, exchange: str, routing_key: str, message: Outgoing) -> tuple[int, str | None]:
    """Publish a message; give the commit batch to wait for and the id, None without a route."""
    return _enter(runtime, vhost, exchange, routing_key, prepare(message, runtime.options.message_bytes_max))


async def apublish(runtime: Runtime, vhost: str, exchange: str, routing_key: str, message: Outgoing) -> str | None:
    """Publish a message, and put a large body away in another thread; give its id once it is durable."""
    prepared = prepare(message, runtime.options.message_bytes_max)
    if is_large(runtime, prepared):
        commit_batch, sent = await asyncio.to_thread(_enter, runtime, vhost, exchange, routing_key, prepared)
    else:
        commit_batch, sent = _enter(runtime, vhost, exchange, routing_key, prepared)
    await runtime.wait_async(commit_batch)
    return sent


def _enter(
    runtime: Runtime, vhost: str, exchange: str, routing_key: str, message: PreparedMessage
) -> tuple[int, str | None]:
    """Put a large body away, and hand the message to the core."""
    prepared = put_away(runtime, message)
    properties, data = prepared.properties, prepared.data
    with runtime as core:
        options = prepared.options(core.now_ms)
        try:
            published = core.publish_through(vhost, exchange, routing_key, properties, data, **options)
        finally:
            drop_unused(runtime, prepared)
        commit_batch = runtime.commit()
    if published.refused:
        raise QueueFull(f"a queue behind exchange '{exchange}' is at its limit: let consumers work, or raise it")
    return commit_batch, ids(core.tag, [published.seq])[0]
