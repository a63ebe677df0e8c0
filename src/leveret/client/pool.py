"""Connections to servers that are kept open between requests; the client for asyncio has no need of the lock."""

import threading

from leveret.client.network import AnswerLost, AnswerTimeouts, Connection, Network
from leveret.client.servers import UNABLE, Address, Request, ServerList, probe
from leveret.core.errors import Unreachable
from leveret.http_client import Answer

IDLE_MAX = 64  # connections that are kept for the next request


class Pool:
    """The connections of a client."""

    def __init__(self, servers: ServerList, network: Network) -> None:
        self._servers = servers
        self._network = network
        self._idle: list[Connection] = []
        self._waiting: set[Connection] = set()
        self._lock = threading.Lock()
        self._closed = False

    async def ask(self, request: Request, timeout_s: float, waits: bool = False, repeatable: bool = False) -> Answer:
        """Send a request by any connection; one that `waits` for messages ends when the pool is closed.

        `repeatable`: it may be asked of another server, so a server that gives no sign of life is not waited for.
        """
        address = self._servers.current
        patience = AnswerTimeouts(timeout_s, self._servers.silent_s(repeatable), self._lives)
        try:
            link = self._take(address) or await self._network.connect(address, self._servers.connect_s)
            try:
                if waits:
                    self._wait(link)
                answer = await link.ask(request(address), patience)
            except BaseException:
                # Also when a task is cancelled: the answer to this request must not be taken for that to another one.
                with self._lock:
                    self._waiting.discard(link)
                link.abort()
                raise
        except AnswerLost:
            self._servers.failed(address)
            raise
        if not self._keep(link):
            await link.close()
        if answer.status in UNABLE:
            self._servers.failed(address)
        return answer

    async def _lives(self, address: Address) -> bool:
        """Whether a server answers anything."""
        patience = AnswerTimeouts(self._servers.connect_s, None, self._lives)
        try:
            link = await self._network.connect(address, patience.timeout_s)
        except AnswerLost:
            return False
        try:
            await link.ask(probe(address), patience)
        except (AnswerLost, Unreachable):
            return False
        finally:
            link.abort()
        return True

    def _wait(self, link: Connection) -> None:
        with self._lock:
            if self._closed:
                raise AnswerLost("the client was closed: connect again", False)
            self._waiting.add(link)

    def _take(self, address: Address) -> Connection | None:
        """The connection to a server that was used last, if it was kept there; those to others are closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                link = self._idle.pop()
            if link.address is address and link.fresh:
                return link
            link.abort()

    def _keep(self, link: Connection) -> bool:
        """Have a connection ready for the next request; False when it is not fit, or one too many."""
        with self._lock:
            self._waiting.discard(link)
            kept = link.reusable and not self._closed and len(self._idle) < IDLE_MAX
            if kept:
                self._idle.append(link)
        return kept

    async def close(self) -> None:
        """Close what is idle or waits for messages now, and everything else when its answer has come."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for link in self._waiting:
                link.stop()
        for link in idle:
            await link.close()
