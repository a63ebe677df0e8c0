"""The handler of /metrics: who may scrape, what, and in which format.

A client on this machine needs no login; others need the tag `monitoring` or `administrator`, unless `metrics_public`
says that all may. What came through a proxy does not count as from this machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.observability.exposition import Format, wanted
from leveret.operations.registry import OPERATIONS
from leveret.protocols.http.auth import Auth
from leveret.protocols.http.request import FIELDS_MAX, Refusal, Request
from leveret.protocols.http.response import Answer, Answered, Response, Streamed
from leveret.protocols.http.router import Router
from leveret.protocols.http.server import Handler
from leveret.protocols.management.context import AdminContext
from leveret.protocols.metrics.broker import CHANNELS, CLUSTER, GLOBAL, NODE, OWN, POSTGRES_FIGURES, QUEUES, REDIS
from leveret.protocols.metrics.facts import gather
from leveret.protocols.metrics.figure import BrokerMetric
from leveret.protocols.metrics.objects import GROUPS, Find, Objects, Vhosts
from leveret.security.authorisation import check_tag

if TYPE_CHECKING:
    from leveret.runtime.shared.redis import Redis

PATHS = (b"/metrics", b"/metrics/")
"""Its path, and how others begin."""
LONG_ONES_MAX = 4  # at the same time: each may be of a hundred thousand queues, a second of work
NO_STORE = (("Cache-Control", "no-store"), ("Vary", "Accept"))
Parts = AsyncGenerator[bytes, None]

WHOLE: Sequence[BrokerMetric] = (*NODE, *GLOBAL, *CHANNELS, *QUEUES, *OWN, *REDIS, *POSTGRES_FIGURES)
BESIDE_OBJECTS: Sequence[BrokerMetric] = (*NODE, *GLOBAL, *OWN, *REDIS, *POSTGRES_FIGURES)
"""Without those that are told of each object under the same name."""


class Metrics:
    """A handler for the paths under /metrics."""

    def __init__(
        self,
        exporter: Exporter,
        auth: Auth,
        limit: Callable[[Handler], Handler] = lambda handler: handler,
        *,
        public: bool = False,
    ) -> None:
        """Serve scrapes; `limit` makes handlers for those who do not ask too often."""
        self._exporter = exporter
        self._public = public
        self._open = Router(
            {("GET", "/metrics"): self._whole, ("GET", "/metrics/per-object"): self._per_object}
            | {("GET", "/metrics/detailed"): self._detailed}
        )
        self._limited = limit(self._open)
        self._guarded = auth.wrap(limit(self._checked))
        self._long_ones = 0

    def __call__(self, request: Request) -> Answered:
        if request.is_local:
            return self._open(request)
        return self._limited(request) if self._public else self._guarded(request)

    def _checked(self, request: Request) -> Answered:
        assert request.identity is not None, "it was asked who that is"
        check_tag(request.identity, OPERATIONS["metrics.read"].rule)
        return self._open(request)

    async def _whole(self, request: Request) -> Answer:
        format = wanted(request.header(b"accept"))
        return Response(200, await self._exporter.whole(format), format.content_type, NO_STORE)

    def _per_object(self, request: Request) -> Answer:
        return self._long(request, self._exporter.per_object)

    def _detailed(self, request: Request) -> Answer:
        asked = query(request)
        families = list(dict.fromkeys(value for name, value in asked if name == "family"))
        vhosts = frozenset(value for name, value in asked if name == "vhost") or None
        unknown = [name for name in families if name not in GROUPS]
        if unknown or not families:
            which = f"the family {unknown[0][:100]!r} is not known" if unknown else "no family is asked for"
            raise Refusal(400, f"{which}: ask for some of {', '.join(GROUPS)}, each as family=")
        return self._long(request, lambda format: self._exporter.detailed(format, families, vhosts))

    def _long(self, request: Request, parts: Callable[[Format], Parts]) -> Streamed:
        if self._long_ones >= LONG_ONES_MAX:
            raise Refusal(429, f"{LONG_ONES_MAX} scrapes of objects are being answered: wait", (("Retry-After", "1"),))
        format = wanted(request.header(b"accept"))
        return Streamed(self._counted(parts(format)), format.content_type, NO_STORE)

    async def _counted(self, parts: Parts) -> Parts:
        self._long_ones += 1
        try:
            async with aclosing(parts):
                async for part in parts:
                    yield part
        finally:
            self._long_ones -= 1


def query(request: Request) -> list[tuple[str, str]]:
    """The fields of a query in which a name may be repeated."""
    try:
        return parse_qsl(request.raw_query.decode("ascii"), errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError:
        raise Refusal(
            400, f"the query has over {FIELDS_MAX} fields, or bytes that are no percent-encoded UTF-8: correct it"
        ) from None


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
