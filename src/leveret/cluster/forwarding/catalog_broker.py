"""The asynchronous broker for definitions: what is done at it is decided for the whole cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from leveret.cluster.catalog.catalog import Verb
from leveret.core.broker import Broker as Core
from leveret.embedded.broker import Broker
from leveret.protocols.http.async_broker import AsyncBroker

T = TypeVar("T")


class CatalogBroker(AsyncBroker):
    """An asynchronous broker over the copy of the catalog; there are no messages at it."""

    def __init__(self, broker: Broker, decide: Callable[[Verb], Awaitable[Any]]) -> None:
        """`decide` runs a verb for all nodes: see Node.decide."""
        super().__init__(broker)
        self._decide = decide

    def change(self, action: Callable[[Core], T]) -> T | Awaitable[T]:
        """See AsyncBroker; the answer comes when no node answers by what was before."""
        return self.in_thread(lambda: action(self.runtime.core))

    def in_thread(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run verbs of Broker and Queue, for all nodes."""
        return asyncio.ensure_future(self._decide(lambda core: function()))
