"""Exchanges on a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leveret.client import calls
from leveret.client.calls import ClientCall
from leveret.client.session import Remote
from leveret.embedded.outgoing import Outgoing
from leveret.embedded.verbs import Asynchronous, Threaded, verb

if TYPE_CHECKING:
    from leveret.client.broker import AsyncRemoteBroker, RemoteBroker

Arguments = Mapping[str, Any] | None


class ExchangeVerbs(Remote):
    """What both clients do with an exchange."""

    @verb
    async def publish(self, /, routing_key: str, body: Any, **options: Any) -> str | None:
        """Publish a message with the options of queue.send; give its id once it is durable, None without a route."""
        key = self.broker.session.new_key()
        return await self._ask(calls.publish(self.name, routing_key, Outgoing(body, **options), key))

    @verb
    async def bind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Hand messages with a matching routing key to a queue (by name too) or to another exchange."""
        await self._ask(self._binding(to, key, arguments, True))

    @verb
    async def unbind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Remove a binding; a missing one is no error."""
        await self._ask(self._binding(to, key, arguments, False))

    def _binding(self, to: Any, key: str, arguments: Arguments, bound: bool) -> ClientCall[None]:
        kind = "exchange" if isinstance(to, ExchangeVerbs) else "queue"
        name = to if isinstance(to, str) else to.name
        return calls.bind(self.name, name, kind, key, arguments, bound)

    @verb
    async def delete(self, *, if_unused: bool = False) -> None:
        """Delete the exchange and its bindings."""
        await self._ask(calls.delete_exchange(self.name, if_unused))


class RemoteExchange(ExchangeVerbs, Threaded):
    """One exchange, from broker.exchange(). See leveret.Exchange."""

    broker: RemoteBroker


class AsyncRemoteExchange(ExchangeVerbs, Asynchronous):
    """The same for asyncio."""

    broker: AsyncRemoteBroker
