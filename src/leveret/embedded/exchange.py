"""An exchange as its users see it: publish to whatever is bound to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leveret.core.errors import QueueFull
from leveret.embedded.managed import ManagedQueue
from leveret.embedded.message import ids
from leveret.embedded.outgoing import Outgoing, PreparedMessage, in_trace, prepare
from leveret.embedded.verbs import Durable, durably, twin

if TYPE_CHECKING:
    from leveret.embedded.broker import Broker


class Exchange:
    """One exchange, from broker.exchange(): hands each message to every queue that is bound to it and matches."""

    __slots__ = ("_broker", "_vhost", "name", "runtime")

    def __init__(self, broker: Broker, vhost: str, name: str) -> None:
        self._broker = broker
        self.runtime = broker.runtime
        self._vhost = vhost
        self.name = name

    def __repr__(self) -> str:
        return f"<Exchange {self.name!r}>"

    @durably
    def publish(self, /, routing_key: str, body: Any, **options: Any) -> Durable[str | None]:
        """Publish a message with the options of queue.send; give its id once it is durable, None without a route."""
        return self._publish(routing_key, self._prepare(body, options))

    async def apublish(self, routing_key: str, body: Any, **options: Any) -> str | None:
        """The same as publish, for asyncio."""
        prepared = self._prepare(body, options)
        if self._broker.is_large(prepared):
            commit_batch, sent = await asyncio.to_thread(self._publish, routing_key, prepared)
        else:
            commit_batch, sent = self._publish(routing_key, prepared)
        await self.runtime.wait_async(commit_batch)
        return sent

    def _prepare(self, body: Any, options: dict[str, Any]) -> PreparedMessage:
        """Check and convert a message."""
        return prepare(in_trace(Outgoing(body, **options)), self._broker.options.message_bytes_max)

    def _publish(self, routing_key: str, message: PreparedMessage) -> tuple[int, str | None]:
        """Put a large body away, hand the message to the core; give the commit batch to wait for and the id."""
        prepared = self._broker.put_away(message)
        properties, data = prepared.properties, prepared.data
        with self.runtime as core:
            options = prepared.options(core.now_ms)
            try:
                published = core.publish_through(self._vhost, self.name, routing_key, properties, data, **options)
            finally:
                self._broker.drop_unused(prepared)
            commit_batch = self.runtime.commit()
        if published.refused:
            raise QueueFull(f"a queue behind exchange '{self.name}' is at its limit: let consumers work, or raise it")
        return commit_batch, ids(self._broker.runtime.core.tag, [published.seq])[0]

    @durably
    def bind(
        self, to: str | ManagedQueue | Exchange, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Durable[None]:
        """Hand messages with a matching routing key to a queue (by name too) or to another exchange."""
        name, kind = _end(to)
        with self.runtime as core:
            core.bind(self._vhost, self.name, name, key, arguments, kind)
            return self.runtime.commit(), None

    @durably
    def unbind(
        self, to: str | ManagedQueue | Exchange, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Durable[None]:
        """Remove a binding; a missing one is no error."""
        name, kind = _end(to)
        with self.runtime as core:
            core.unbind(self._vhost, self.name, name, key, arguments, kind)
            return self.runtime.commit(), None

    @durably
    def delete(self, *, if_unused: bool = False) -> Durable[None]:
        """Delete the exchange and its bindings."""
        with self.runtime as core:
            core.delete_exchange(self._vhost, self.name, if_unused)
            return self.runtime.commit(), None

    # The same for asyncio

    abind = twin(bind)
    aunbind = twin(unbind)
    adelete = twin(delete)


def _end(to: str | ManagedQueue | Exchange) -> tuple[str, str]:
    """Name and kind of what an exchange is bound to."""
    if isinstance(to, str):
        return to, "queue"
    return to.name, "exchange" if isinstance(to, Exchange) else "queue"
