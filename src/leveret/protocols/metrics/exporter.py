"""Scrapes: of the whole broker, of every object, or of some families; in pieces, so that messages flow between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.observability.exposition import Format
from leveret.protocols.management.context import AdminContext
from leveret.protocols.metrics.cluster import CLUSTER
from leveret.protocols.metrics.facts import gather
from leveret.protocols.metrics.figure import BrokerMetric
from leveret.protocols.metrics.node import NODE
from leveret.protocols.metrics.objects import GROUPS, Find, Objects, Vhosts
from leveret.protocols.metrics.own import OWN
from leveret.protocols.metrics.postgres import CONNECTIONS
from leveret.protocols.metrics.redis import REDIS
from leveret.protocols.metrics.totals import CHANNELS, GLOBAL, QUEUES

if TYPE_CHECKING:
    from leveret.runtime.shared.redis import Redis

Parts = AsyncGenerator[bytes, None]

WHOLE: Sequence[BrokerMetric] = (*NODE, *GLOBAL, *CHANNELS, *QUEUES, *OWN, *REDIS, *CONNECTIONS)
BESIDE_OBJECTS: Sequence[BrokerMetric] = (*NODE, *GLOBAL, *OWN, *REDIS, *CONNECTIONS)
"""Without those that are told of each object under the same name."""


class Exporter:
    """Makes scrapes of one broker."""

    def __init__(self, context: AdminContext, limited: Callable[[], int], redis: Redis | None = None) -> None:
        """`limited` tells how many requests came too often."""
        self._context = context
        self._limited = limited
        self._redis = redis

    async def whole(self, format: Format) -> bytes:
        """The broker as one."""
        return await self._figures(format, WHOLE) + format.end.encode()

    async def per_object(self, format: Format) -> Parts:
        """The broker, and all that is told of single objects."""
        yield await self._figures(format, BESIDE_OBJECTS)
        async with aclosing(self._objects(format, GROUPS, None, "rabbitmq_")) as parts:
            async for part in parts:
                yield part
        yield format.end.encode()

    async def detailed(self, format: Format, families: Iterable[str], vhosts: Vhosts) -> Parts:
        """Some families, of some virtual hosts; RabbitMQ gives them other names so that both can be scraped."""
        async with aclosing(self._objects(format, families, vhosts, "rabbitmq_detailed_")) as parts:
            async for part in parts:
                yield part
        yield format.end.encode()

    async def _figures(self, format: Format, figures: Sequence[BrokerMetric]) -> bytes:
        facts = await gather(self._context, self._limited, self._redis)
        more = () if self._context.cluster is None else CLUSTER
        return "".join([figure.write(format, facts) for figure in (*figures, *more)]).encode()

    async def _objects(self, format: Format, families: Iterable[str], vhosts: Vhosts, prefix: str) -> Parts:
        """Family after family, as the format wants it: each looks at every object anew."""
        found: dict[Find, list[Objects]] = {}
        told: set[str] = set()
        for group in [GROUPS[name] for name in families]:
            if group.find not in found:
                found[group.find] = [each async for each in group.find(self._context, vhosts)]
            for column in group.columns:
                name = column.family.name.replace("rabbitmq_", prefix, 1)
                if name in told:
                    continue
                told.add(name)
                yield format.head(column.family._replace(name=name)).encode()
                for runtime, labels, objects in found[group.find]:
                    lines = ""
                    with suppress(BrokerClosed, JournalFailed), runtime:  # a shard may go meanwhile
                        lines = column.lines(name, labels, objects)
                    yield lines.encode()
                    await asyncio.sleep(0)
