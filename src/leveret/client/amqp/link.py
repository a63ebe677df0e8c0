"""How verbs reach the connection, from threads (thread_link.py) or from tasks (task_link.py)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, cast

from leveret.client.amqp.channels import Call, Pending, Publish, Wakeable
from leveret.client.amqp.connection import ClientConnection
from leveret.client.amqp.receiving import Get, ReceiveChannel
from leveret.client.amqp.servers import AmqpServer
from leveret.client.servers import CONNECT_S, PROBE_S
from leveret.clock import ticks_us
from leveret.core.errors import BrokerClosed, LeveretError, Unreachable
from leveret.wire.methods import Method

ACKS_MAX = 64
_log = logging.getLogger("leveret.client")
CLOSED = "the client was closed: open it again with leveret.connect() or aconnect()"


def now_ms() -> int:
    """Milliseconds from some point on."""
    return ticks_us() // 1000


class Link(ABC):
    """What verbs of either kind do; their coroutines never suspend in the link of threads."""

    lock: AbstractContextManager[Any]
    """Around everything that touches the connection."""

    def __init__(self, connection: ClientConnection, timeout_s: float) -> None:
        self.connection = connection
        self.timeout_s = timeout_s
        self.closing = False

    # Asking

    async def call(self, method: Method, again: bool = True) -> Any:
        """Ask something; give the answer."""
        pending = self.pending()
        with self.lock:
            self.check()
            self.connection.calls.add(Call(method, pending, again))
        self.touch()
        return await self.answer(pending)

    async def get(self, channel: ReceiveChannel, count: int) -> Any:
        """Take messages that are there."""
        pending = self.pending()
        with self.lock:
            self.check()
            channel.get(Get(count, pending))
        self.touch()
        return await self.answer(pending)

    async def publish(self, publish: Publish) -> None:
        """Publish when there is room for it; `answer` waits for the confirm."""
        publish.pending = self.pending()
        publisher = self.connection.publisher
        while True:
            with self.lock:
                self.check()
                if not publisher.full:
                    publisher.add(publish)
                    break
                room = self.pending()
                publisher.wait_for_room(cast("Wakeable", room))
            self.touch()
            await self.answer(room)
        self.touch()

    async def confirm(self, publish: Publish) -> None:
        """Publish, and wait for the confirm."""
        await self.publish(publish)
        await self.answer(publish.pending)

    async def answer(self, pending: Pending) -> Any:
        """The answer that is waited for, or the error that came instead."""
        if not pending.done and not await self.wait(pending, self.timeout_s):
            with self.lock:
                pending.finish(error=self.connection.explain(self.timeout_s))
        if pending.error is not None:
            raise pending.error.with_traceback(None)
        return pending.result

    async def barrier(self) -> None:
        """Return when everything is confirmed and the broker has read all acks."""
        waiting = []
        with self.lock:
            self.check()
            waiting += self.connection.publisher.outstanding()
            for channel in list(self.connection.channels.values()):
                if isinstance(channel, ReceiveChannel):
                    waiting.append(self.pending())
                    channel.barrier(waiting[-1])
        self.touch()
        for pending in waiting:
            await self.answer(pending)

    def check(self) -> None:
        """Refuse what is asked of a closed client."""
        if self.closing:
            raise BrokerClosed(CLOSED)

    @abstractmethod
    def pending(self) -> Pending:
        """Something to wait for."""

    @abstractmethod
    async def wait(self, pending: Pending, seconds: float | None) -> bool:
        """Wait until it is woken; False when the time was over."""

    @abstractmethod
    def touch(self) -> None:
        """Something is to be sent, or a connection is wanted."""

    @abstractmethod
    def touch_soon(self) -> None:
        """Acks are to be sent, not at once."""

    @abstractmethod
    async def rest(self, seconds: float) -> None:
        """Do nothing for a while, or until it is closed."""

    @abstractmethod
    async def close(self) -> None:
        """Send what is to be sent, then end it."""

    # Being connected

    async def _drive(self) -> None:
        """Connect when that is wanted, serve, and again."""
        plan = self.connection.plan
        error: LeveretError = BrokerClosed(CLOSED)
        try:
            while not self.closing:
                if not self.connection.wanted:
                    await self._idle()
                    continue
                await self.rest(plan.delay_s)
                if self.closing:
                    break
                try:
                    await self._connect(plan.server, PROBE_S if len(plan.servers) > 1 else CONNECT_S)
                except OSError as failed:
                    why = str(failed.strerror or failed) or "it took too long"
                    lost: LeveretError = Unreachable(f"cannot connect to {plan.server!r} ({why}): see whether it runs")
                else:
                    lost = await self._serve()
                if not self.closing:
                    _log.warning("%r: %s", plan.server, lost)
                with self.lock:
                    self.connection.lost(lost)
        except Exception as broken:
            error = Unreachable(f"the client failed: {broken!r}")
            raise
        finally:
            with self.lock:
                self.closing = True
                self.connection.fail(error)

    @abstractmethod
    async def _idle(self) -> None:
        """Wait until something is wanted."""

    @abstractmethod
    async def _connect(self, server: AmqpServer, connect_s: float) -> None:
        """Connect; OSError if that is not possible."""

    @abstractmethod
    async def _serve(self) -> LeveretError:
        """Move bytes until the connection is lost; give the reason."""
