"""The desk for definitions: what is done at it is decided for the whole cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from leveret.cluster.catalog.catalog import Verb
from leveret.cluster.catalog.runtime import CatalogGuard
from leveret.core.broker import Broker as Core
from leveret.embedded.broker import Broker
from leveret.protocols.http.async_broker import Desk

T = TypeVar("T")


class CatalogDesk(Desk):
    """A desk over the copy of the catalog; there are no messages at it."""

    def __init__(self, broker: Broker, decide: Callable[[Verb], Awaitable[Any]]) -> None:
        """`decide` runs a verb for all nodes: see Node.decide."""
        super().__init__(broker)
        self._decide = decide

    def change(self, action: Callable[[Core], T]) -> T | Awaitable[T]:
        """See Desk; the answer comes when no node answers by what was before."""
        return self.elsewhere(lambda: action(self.guard.core))

    def elsewhere(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run verbs of Broker and Queue, for all nodes."""
        guard = self.guard
        assert isinstance(guard, CatalogGuard), "the copy has one"
        return asyncio.ensure_future(self._decide(guard.verb(function)))
