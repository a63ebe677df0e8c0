"""What verbs of one client share: the link, the outbox, and what is said about verbs that AMQP does not have."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar, Unpack

from leveret.client.amqp.connection import ClientConnection
from leveret.client.amqp.link import Link
from leveret.client.amqp.outbox import Outbox
from leveret.client.amqp.receiving import ReceiveChannel
from leveret.client.amqp.servers import AmqpServer, ReconnectPlan, servers_of
from leveret.client.amqp.task_link import TaskLink
from leveret.client.amqp.thread_link import ThreadLink
from leveret.client.calls import ClientCall, Page, Row
from leveret.client.session import REQUEST_S, RETRIES, ClientOptions, Session, check_options
from leveret.core.errors import InvalidArgument, NotSupported

PREFETCH = 250
PREFETCH_MAX = 65_535
HEARTBEAT_S = 20
HEARTBEAT_S_MAX = 65_535
HTTP_PORTS = {False: ("http", 15672), True: ("https", 15671)}

T = TypeVar("T")


class AmqpSession(Session):
    """The connection of one client, where a client over HTTP has its requests."""

    def __init__(self, new_link: type[ThreadLink | TaskLink], url: str, **options: Unpack[ClientOptions]) -> None:
        check_options(options)
        found = servers_of(url, options.get("token"), options.get("tls"), options.get("vhost"))
        heartbeat = _whole("heartbeat", options.get("heartbeat", HEARTBEAT_S), 0, HEARTBEAT_S_MAX)
        self.prefetch = _whole("prefetch", options.get("prefetch", PREFETCH), 1, PREFETCH_MAX)
        plan = ReconnectPlan(found, options.get("retries", RETRIES))
        self._amqp_servers: list[AmqpServer] = found
        connection = ClientConnection(plan, heartbeat, options.get("idempotent", True))
        self.link: Link = new_link(connection, options.get("timeout", REQUEST_S))
        self.rest = self.link.rest
        self.outbox = Outbox()
        self._getters: dict[str, ReceiveChannel] = {}

    def __repr__(self) -> str:
        return ",".join(map(repr, self._amqp_servers))

    def getter(self, queue: str) -> ReceiveChannel:
        """The channel over which single messages of a queue are taken; called under the lock."""
        found = self._getters.get(queue)
        if found is None:
            found = self._getters[queue] = self.link.connection.receiver(queue)
        return found

    async def ask(self, call: ClientCall[T]) -> T:
        """What other verbs of the client over HTTP ask has no equal in AMQP."""
        server = self._amqp_servers[0]
        scheme, port = HTTP_PORTS[server.tls is not None]
        base = f"{scheme}://{server.host}:{port}"
        raise NotSupported(
            f"AMQP has nothing for this: use leveret.connect('{base}') of the same broker, which asks {call.method} "
            f"{base}{call.path.partition('?')[0]}"
        )

    async def rows(self, page: Callable[[str], ClientCall[Page]]) -> AsyncGenerator[Row, None]:
        """A list: see ask."""
        for row in (await self.ask(page("")))[0]:
            yield row

    def new_key(self) -> str | None:
        """Messages have no keys over AMQP."""
        return None

    async def close(self) -> None:
        await self.link.close()


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InvalidArgument(f"{name} is a whole number from {least} to {most}, not {value!r}")
    return value
