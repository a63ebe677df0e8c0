"""An exchange as its users see it: publish to whatever is bound to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from leveret.runtime.keywords import SendOptions
from leveret.runtime.managed import ManagedQueue
from leveret.runtime.outgoing import Outgoing, apublish, in_trace, publish
from leveret.runtime.verbs import Durable, OldTwins, durably, twin

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime


class Exchange(OldTwins):
    """One exchange, from broker.exchange(): hands each message to every queue that is bound to it and matches."""

    __slots__ = ("_vhost", "name", "runtime")

    def __init__(self, runtime: Runtime, vhost: str, name: str) -> None:
        self.runtime = runtime
        self._vhost = vhost
        self.name = name

    def __repr__(self) -> str:
        return f"<Exchange {self.name!r}>"

    @durably
    def publish(self, /, routing_key: str, body: Any, **options: Unpack[SendOptions]) -> Durable[str | None]:
        """Publish a message with the options of queue.send; give its id once it is durable, None without a route."""
        return publish(self.runtime, self._vhost, self.name, routing_key, in_trace(Outgoing(body, **options)))

    async def _apublish(self, /, routing_key: str, body: Any, **options: Unpack[SendOptions]) -> str | None:
        """The same as publish, for asyncio."""
        return await apublish(self.runtime, self._vhost, self.name, routing_key, in_trace(Outgoing(body, **options)))

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

    _abind = twin(bind)
    _aunbind = twin(unbind)
    _adelete = twin(delete)


def _end(to: str | ManagedQueue | Exchange) -> tuple[str, str]:
    """Name and kind of what an exchange is bound to."""
    if isinstance(to, str):
        return to, "queue"
    return to.name, "exchange" if isinstance(to, Exchange) else "queue"
