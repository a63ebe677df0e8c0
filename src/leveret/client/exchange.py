"""Exchanges on a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from leveret.client.calls import ClientCall, nothing, send
from leveret.client.session import Remote
from leveret.core.jsonable import encode
from leveret.runtime.outgoing import Outgoing
from leveret.runtime.verbs import Asynchronous, Threaded, verb

if TYPE_CHECKING:
    from leveret.client.broker import AsyncRemoteBroker, RemoteBroker

Arguments = Mapping[str, Any] | None


class ExchangeVerbs(Remote):
    """What both clients do with an exchange."""

    _kind = "exchanges"

    @verb
    async def publish(self, /, routing_key: str, body: Any, **options: Any) -> str | None:
        """Publish a message with the options of queue.send; give its id once it is durable, None without a route."""
        message, key = Outgoing(body, **options), self.broker.session.new_key()
        sent: str | None = await self._ask(send(self._path("messages"), message, key, routing_key=routing_key))
        return sent

    @verb
    async def bind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Hand messages with a matching routing key to a queue (by name too) or to another exchange."""
        await self._bind("POST", to, key, arguments)

    @verb
    async def unbind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Remove a binding; a missing one is no error."""
        await self._bind("DELETE", to, key, arguments)

    async def _bind(self, method: str, to: Any, key: str, arguments: Arguments) -> None:
        body = {
            "destination": to if isinstance(to, str) else to.name,
            "destination_type": "exchange" if isinstance(to, ExchangeVerbs) else "queue",
            "routing_key": key,
            "arguments": encode(arguments or {}),
        }
        await self._ask(ClientCall(method, self._path("bindings"), nothing, body))

    @verb
    async def delete(self, *, if_unused: bool = False) -> None:
        """Delete the exchange and its bindings."""
        query = urlencode({"if_unused": str(if_unused).lower()})
        await self._ask(ClientCall("DELETE", f"{self._path()}?{query}", nothing))


class RemoteExchange(ExchangeVerbs, Threaded):
    """One exchange, from broker.exchange(). See leveret.Exchange."""

    broker: RemoteBroker


class AsyncRemoteExchange(ExchangeVerbs, Asynchronous):
    """The same for asyncio."""

    broker: AsyncRemoteBroker
