"""Clients who have to wait because the definitions of their node may be old: see leveret.cluster.catalog.read_lease.

A node that stood still, or cannot ask the database, does not know what others have changed. Until it does it lets
no client in, refuses nothing as unknown or forbidden, and delivers nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable

from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.proxy.connection import ProxyConnection
from leveret.observability.logs import Log
from leveret.protocols.amqp.hub import Hub

LOG = Log("node")


class StaleClients:
    """Those of one node."""

    def __init__(self, catalog: ClusterCatalog, hub: Hub) -> None:
        """Hold the clients of a hub while the copy of the catalog may not be answered by."""
        self._catalog = catalog
        self._hub = hub
        self._waiting: set[ProxyConnection] = set()
        self._told = False
        catalog.on_renewal = self._end

    @property
    def none(self) -> bool:
        """Whether clients may be answered by the definitions that this node has."""
        return self._catalog.read_lease.is_valid

    def wait(self) -> Awaitable[None] | None:
        """What returns when requests may be answered; None: they may now."""
        return None if self.none else self._catalog.lease_renewed()

    def hold(self, connection: ProxyConnection) -> None:
        """Hear a client again when there are no stale definitions any more."""
        self._waiting.add(connection)
        self._catalog.look()

    def look(self) -> None:
        """Hold those as well who say nothing, and may be given something."""
        if self.none:
            return
        if not self._told:
            self._told = True
            LOG.warning("definitions may be old", advice="clients wait for the database that has them")
        present = [each for each in self._hub.connections if isinstance(each, ProxyConnection)]
        self._waiting.intersection_update(present)  # others have gone meanwhile
        for connection in present:
            if not connection.is_stale:
                self._hub.finish(connection, connection.pause_stale)

    def _end(self) -> None:
        """This node has the newest definitions."""
        waiting, self._waiting = self._waiting, set()
        for connection in waiting:
            self._hub.finish(connection, connection.resume_fresh)
        if self._told:
            self._told = False
            LOG.info("definitions are the newest")
