"""The lock around a node's copy of the catalog, for the verbs of every edge.

A verb that is decided on runs under that lock already, as often as it takes (see leveret.cluster.catalog.catalog). It
is the same code as on a single server, which takes the lock itself: here that is no more than a word.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from leveret.cluster.catalog.catalog import Verb
from leveret.core.broker import Broker
from leveret.runtime.runtime import Runtime

T = TypeVar("T")


class CatalogRuntime(Runtime):
    """A runtime whose lock is taken once, by the one who decides."""

    _decider = 0

    def __enter__(self) -> Broker:
        if self._decider == threading.get_ident():
            self.core.tick(self.clock.now_ms())
            return self.core
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        if self._decider != threading.get_ident():
            super().__exit__(*error)

    def verb(self, function: Callable[[], T]) -> Verb:
        """What does something by this runtime, as a verb to be decided on."""

        def run(core: Broker) -> Any:
            self._decider = threading.get_ident()
            try:
                return function()
            finally:
                self._decider = 0

        return run
