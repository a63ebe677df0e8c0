"""The hub with its listeners and sockets, in an event loop.

readable -> hub.receive                 see sockets.py
outbox   -> one write for each socket   once per turn of the loop
journal  -> hub.durable                 when a frame is on the disk
every second: heartbeats, time limits
"""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from leveret.core.errors import JournalFailed
from leveret.observability.logs import LimitedEvent, Log
from leveret.protocols.amqp.connection import AmqpConnection, AmqpPeer
from leveret.protocols.amqp.hub import BrokerRuntime, Hub
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.sockets import AmqpSocket
from leveret.protocols.amqp.watch import SWEEP_MS
from leveret.protocols.net.admission import ConnectionBudget
from leveret.protocols.net.listener import SocketListener
from leveret.protocols.net.proxy_protocol import Proxies
from leveret.runtime.threads import LoopThread
from leveret.security.access import Access
from leveret.security.authentication import Authentication
from leveret.security.logins import LoginAttempt
from leveret.security.tls import ServerTls

READ_BYTES = 262_144
SWEEP_S = SWEEP_MS / 1_000
DRAIN_IDLE_S = 2.0  # for connection.close-ok of a client that has read everything: one that hangs delays no stop
THREADS_MAX = 4  # for large bodies

T = TypeVar("T")
LOG = Log("amqp")


class AmqpServer:
    """The hub, its listeners and the sockets that they accepted."""

    def __init__(
        self,
        runtime: BrokerRuntime,
        access: Access,
        limits: AmqpLimits,
        admission: ConnectionBudget,
        connect: Callable[[Hub, AmqpPeer], AmqpConnection] = AmqpConnection,
        authentication: Authentication | None = None,
    ) -> None:
        """Serve the broker of a runtime in the running loop; nothing is listened on yet."""
        self.connect = connect
        self._loop = asyncio.get_running_loop()
        self._thread = LoopThread()
        self.hub = Hub(
            runtime,
            self._wake,
            access,
            self._in_thread,
            limits,
            authentication=authentication,
            decide=self._decide,
            soon=self._thread.call,
        )
        self.limits = limits
        self.admission = admission
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.sockets: dict[AmqpSocket, asyncio.Task[None]] = {}
        self._listeners: list[SocketListener] = []
        self._jobs: set[Future[Any]] = set()
        self._threads = ThreadPoolExecutor(THREADS_MAX, "leveret-amqp")
        self._idle = asyncio.Event()
        self._idle.set()
        self._sweep = self._loop.call_later(SWEEP_S, self._tick)
        self._beat = self._loop.call_later(1.5 * SWEEP_S, self._send_heartbeats)

    # Coming and going

    def listen(self, bound: socket.socket, tls: ServerTls | None = None, proxies: Proxies | None = None) -> None:
        """Accept connections; by TLS if it is given, from load balancers if these are given."""
        self._listeners.append(SocketListener(bound, partial(self._accepted, tls), self.admission.make_room, proxies))

    def _accepted(self, tls: ServerTls | None, client: socket.socket, host: str, port: int) -> None:
        """Let a client in, or send it away."""
        slot = self.admission.enter(host, port)
        if slot is None:
            client.close()
            return
        self._idle.clear()
        accepted = AmqpSocket(self, AmqpPeer(host, port), slot, tls)
        slot.evict = partial(self._close, accepted)
        opening = self._loop.create_task(accepted.open(client))
        opening.add_done_callback(partial(self._opened, accepted, client))
        self.sockets[accepted] = opening

    def _opened(self, accepted: AmqpSocket, client: socket.socket, opening: asyncio.Task[None]) -> None:
        """A socket is open or never will be, perhaps because it was closed before its turn came.

        If that was while the loop opened it, the loop gives up its transport and does not report it.
        """
        if opening.cancelled() or not accepted.opened:
            accepted.abort()
            client.close()
            accepted.give_up()

    def leave(self, closed: AmqpSocket) -> None:
        """A socket is gone."""
        closed.slot.leave()
        if self.sockets.pop(closed, None) is not None and not self.sockets:
            self._idle.set()

    def _close(self, accepted: AmqpSocket) -> None:
        """Close a socket at once, also one that is not open yet."""
        self.sockets[accepted].cancel()
        accepted.abort()

    def stop_listening(self) -> None:
        """Accept no more."""
        for listener in self._listeners:
            listener.close()

    async def drain(self, code: int, text: str, timeout_s: float) -> int:
        """Ask every client to go and wait until they are gone; give how many did not in time, and close those.

        A client that has read all that was sent to it gets `DRAIN_IDLE_S`, one that still reads the whole time.
        """
        self.hub.ask_close(code, text)
        idle_s = min(DRAIN_IDLE_S, timeout_s)
        await self._wait_until_idle(idle_s)
        idle = [each for each in self.sockets if not each.unsent_bytes]
        for each in idle:
            self._close(each)
        await self._wait_until_idle(timeout_s - idle_s)
        left = list(self.sockets)
        for each in left:
            self._close(each)
        await self._idle.wait()
        await self.end()
        return len({*idle, *left})

    async def _wait_until_idle(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)

    async def end(self) -> None:
        """Do nothing more; no client is connected."""
        await asyncio.gather(*map(asyncio.wrap_future, list(self._jobs)), return_exceptions=True)
        self._threads.shutdown()
        self._sweep.cancel()
        self._beat.cancel()

    def set_alarm(self, reason: str | None) -> None:
        """Block publishers for a reason, or let them go on."""
        self.hub.set_alarm(reason)

    # Turns of the loop

    def _wake(self) -> None:
        """Write what is to be written when the loop has its next turn: by then it is more. From whatever thread."""
        self._thread.call(self.hub.flush)

    def _tick(self) -> None:
        """Look at every connection, once a second."""
        self._sweep = self._loop.call_later(SWEEP_S, self._tick)
        LimitedEvent.flush_all()
        with suppress(JournalFailed):  # a shard that has another owner is about to be given up
            self.hub.sweep()

    def _send_heartbeats(self) -> None:
        """Half-way between two looks, so that clients with an interval of one second get two heartbeats in it."""
        self._beat = self._loop.call_later(SWEEP_S, self._send_heartbeats)
        with suppress(JournalFailed):
            self.hub.beat()

    def durable(self, frame: int) -> None:
        """A frame of the journal is on the disk; called by the thread that wrote it."""
        self._thread.call(self.hub.durable, frame)

    def _in_thread(self, job: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run a job in a thread, then `done` in the loop; called by the thread that pushes a message, whichever
        that is.
        """
        future = self._threads.submit(job)
        self._jobs.add(future)
        future.add_done_callback(lambda _: self._thread.call(self._finish, future, done))

    def _decide(
        self, host: str, name: str, now_ms: int, decide: Callable[[], T], done: Callable[[T | Exception], None]
    ) -> LoginAttempt:
        """Decide a login in line with those of the other protocols, then `done` in the loop."""
        return self.hub.access.logins.submit(host, name, now_ms, decide, partial(self._thread.call, done))

    def _finish(self, future: Future[T], done: Callable[[T], None]) -> None:
        self._jobs.discard(future)
        error = future.exception()
        if error is None:
            done(future.result())
        else:
            LOG.error("job failed", error)
