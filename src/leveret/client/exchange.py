"""Exchanges on a server, for threads and for asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leveret.client import calls
from leveret.client.calls import ClientCall
from leveret.embedded.outgoing import Outgoing

if TYPE_CHECKING:
    from leveret.client.abroker import AsyncRemoteBroker
    from leveret.client.broker import RemoteBroker

Arguments = Mapping[str, Any] | None


class RemoteExchange:
    """One exchange, from broker.exchange(). See leveret.Exchange."""

    def __init__(self, broker: RemoteBroker, name: str) -> None:
        self.broker = broker
        self.name = name

    def publish(self, routing_key: str, body: Any, **options: Any) -> str | None:
        """Publish a message with the options of queue.send; give its id once it is durable, None without a route."""
        key = self.broker.new_key()
        return self.broker.run(calls.publish(self.name, routing_key, Outgoing(body, **options), key))

    def bind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Hand messages with a matching routing key to a queue (by name too) or to another exchange."""
        self.broker.run(_binding(self.name, to, key, arguments, True))

    def unbind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Remove a binding; a missing one is no error."""
        self.broker.run(_binding(self.name, to, key, arguments, False))

    def delete(self, *, if_unused: bool = False) -> None:
        """Delete the exchange and its bindings."""
        self.broker.run(calls.delete_exchange(self.name, if_unused))


class AsyncRemoteExchange:
    """The same for asyncio."""

    def __init__(self, broker: AsyncRemoteBroker, name: str) -> None:
        self.broker = broker
        self.name = name

    async def publish(self, routing_key: str, body: Any, **options: Any) -> str | None:
        """Publish a message with the options of queue.send; give its id once it is durable, None without a route."""
        key = self.broker.new_key()
        return await self.broker.run(calls.publish(self.name, routing_key, Outgoing(body, **options), key))

    async def bind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Hand messages with a matching routing key to a queue (by name too) or to another exchange."""
        await self.broker.run(_binding(self.name, to, key, arguments, True))

    async def unbind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Remove a binding; a missing one is no error."""
        await self.broker.run(_binding(self.name, to, key, arguments, False))

    async def delete(self, *, if_unused: bool = False) -> None:
        """Delete the exchange and its bindings."""
        await self.broker.run(calls.delete_exchange(self.name, if_unused))


def _binding(exchange: str, to: Any, key: str, arguments: Arguments, bound: bool) -> ClientCall[None]:
    """A binding to a queue or exchange, or to the queue of a name."""
    kind = "exchange" if isinstance(to, RemoteExchange | AsyncRemoteExchange) else "queue"
    name = to if isinstance(to, str) else to.name
    return calls.bind(exchange, name, kind, key, arguments, bound)
