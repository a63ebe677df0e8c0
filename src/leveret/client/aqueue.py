"""A queue on a server, for asyncio: the verbs of client/queue.py, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from leveret.client import calls
from leveret.client.calls import ANY_ID
from leveret.client.message import AsyncRemoteMessage, RemotePeeked
from leveret.client.queue import (
    ACK_MAX,
    RECEIVE_MAX,
    SEND_MAX,
    WAIT_S_MAX,
    batches,
    check_none_late,
    check_own,
    outgoing_of,
)
from leveret.core.errors import BrokerClosed, MessageNotFound
from leveret.embedded.outgoing import Outgoing
from leveret.runtime.redrive import RedriveResult
from leveret.runtime.stats import QueueStats

if TYPE_CHECKING:
    from leveret.client.abroker import AsyncRemoteBroker


class AsyncRemoteQueue:
    """One queue, from await broker.queue(). See leveret.Queue."""

    def __init__(self, broker: AsyncRemoteBroker, name: str) -> None:
        self.broker = broker
        self.name = name

    def __repr__(self) -> str:
        return f"<AsyncRemoteQueue {self.name!r}>"

    async def send(self, body: Any, **options: Any) -> str:
        """Put a message into the queue; give its id once it is durable."""
        return await self.broker.run(calls.send(self.name, Outgoing(body, **options), self.broker.new_key()))

    async def send_many(self, bodies: Iterable[Any], **options: Any) -> list[str | None]:
        """Send many messages, each thousand in one commit; an `Outgoing` among them has options of its own."""
        sent: list[str | None] = []
        for batch in batches(outgoing_of(bodies, options), SEND_MAX):
            sent += await self.broker.run(calls.send_many(self.name, batch, self.broker.new_key()))
        return sent

    async def receive(
        self, count: int = 1, wait: float = 0, *, visibility_timeout: float | None = None
    ) -> list[AsyncRemoteMessage]:
        """Take up to `count` messages; when there is none, wait up to `wait` seconds for the first."""
        found = await self._receive(count, min(wait, WAIT_S_MAX), visibility_timeout)
        while not found and wait > WAIT_S_MAX:
            wait -= WAIT_S_MAX
            found = await self._receive(count, min(wait, WAIT_S_MAX), visibility_timeout)
        while len(found) < count and len(found) % RECEIVE_MAX == 0 and found:
            more = await self._receive(count - len(found), 0, visibility_timeout)
            if not more:
                break
            found += more
        return found

    async def _receive(self, count: int, wait_s: float, lease_s: float | None) -> list[AsyncRemoteMessage]:
        rows = await self.broker.run(calls.receive(self.name, min(count, RECEIVE_MAX), wait_s, lease_s))
        return [AsyncRemoteMessage(self, row) for row in rows]

    async def __aiter__(self) -> AsyncIterator[AsyncRemoteMessage]:
        """Take message after message, for as long as the client is open."""
        try:
            while True:
                for message in await self.receive(1, WAIT_S_MAX):
                    yield message
        except BrokerClosed:
            return

    async def ack(self, receipt: str) -> None:
        """Done with the message of a receipt."""
        await self.broker.run(calls.ack(self.name, ANY_ID, receipt))

    async def nack(self, receipt: str, delay: float | None = None) -> None:
        """Give the message of a receipt back, for after `delay` seconds or the backoff of the queue."""
        await self.broker.run(calls.nack(self.name, ANY_ID, receipt, delay))

    async def extend(self, receipt: str, seconds: float) -> None:
        """Keep the message of a receipt for so many seconds from now on."""
        await self.broker.run(calls.extend(self.name, ANY_ID, receipt, seconds))

    async def reject(self, receipt: str) -> None:
        """Make the message of a receipt a dead letter."""
        await self.broker.run(calls.reject(self.name, ANY_ID, receipt))

    async def ack_many(self, messages: Iterable[AsyncRemoteMessage]) -> None:
        """Done with all these messages; those whose lease had ended are named by InvalidReceipt after the others."""
        batch = list(messages)
        check_own(self.name, [(each.source.name, each.id) for each in batch])
        late = 0
        for some in batches(batch, ACK_MAX):
            late += len(await self.broker.run(calls.ack_many(self.name, [each.receipt for each in some])))
        check_none_late(self.name, late, len(batch))

    async def stats(self) -> QueueStats:
        """Its figures."""
        return await self.broker.run(calls.stats(self.name))

    async def browse(self, limit: int = 100, *, state: str = "ready", **conditions: Any) -> list[RemotePeeked]:
        """Up to `limit` messages in the order of delivery, without taking them."""
        rows = await self.broker.run(calls.browse(self.name, limit, state, conditions))
        return [RemotePeeked(row) for row in rows]

    async def scheduled(self, limit: int = 100) -> list[RemotePeeked]:
        """The messages whose delay has not ended, the next one first."""
        return await self.browse(limit, state="scheduled")

    async def cancel(self, message_id: str) -> bool:
        """Remove a message that is scheduled for later; False when it is not."""
        try:
            await self.broker.run(calls.cancel(self.name, message_id))
        except MessageNotFound:
            return False
        return True

    async def purge(self) -> int:
        """Remove everything that is ready; give the number of messages."""
        return await self.broker.run(calls.purge(self.name))

    async def pause(self) -> None:
        """Hand nothing out until resume(); sending goes on."""
        await self.broker.run(calls.pause(self.name, True))

    async def resume(self) -> None:
        """Hand messages out again."""
        await self.broker.run(calls.pause(self.name, False))

    async def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete the queue with everything in it; give the number of messages that were ready."""
        return await self.broker.run(calls.delete(self.name, if_unused, if_empty))

    async def redrive(
        self,
        to: str | AsyncRemoteQueue | None = None,
        *,
        limit: int | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        **conditions: Any,
    ) -> RedriveResult:
        """Move messages to another queue, by default each to the one where it died first."""
        target = to.name if isinstance(to, AsyncRemoteQueue) else to
        return await self.broker.run(calls.redrive(self.name, target, limit, rate, dry_run, conditions))

    async def discard(self, *, limit: int | None = None, dry_run: bool = False, **conditions: Any) -> int:
        """Remove the ready messages that meet conditions; give their number. A dry run only counts."""
        return await self.broker.run(calls.discard(self.name, limit, dry_run, conditions))
