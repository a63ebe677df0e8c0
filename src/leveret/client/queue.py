"""A queue on a server: the verbs of the embedded one."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack
from urllib.parse import urlencode

from leveret.client import calls
from leveret.client.calls import (
    ANY_ID,
    ClientCall,
    Row,
    conditions_json,
    field_of,
    given,
    message_json,
    nothing,
    path_of,
    row_of,
)
from leveret.client.message import AsyncRemoteMessage, MessageVerbs, RemoteMessage, RemotePeeked, time_of
from leveret.client.session import HasSession, Remote
from leveret.clock import Clock
from leveret.core.errors import BrokerClosed, InvalidReceipt, MessageNotFound, Unreachable
from leveret.core.jsonable import decode
from leveret.core.names import PROCESSED_SUFFIX
from leveret.embedded.worker import Handler, Worker
from leveret.runtime.keywords import Conditions, SendOptions, WorkerOptions
from leveret.runtime.outgoing import Outgoing
from leveret.runtime.processed import WINDOW_S
from leveret.runtime.redrive import RedriveResult
from leveret.runtime.stats import QueueStats
from leveret.runtime.verbs import Asynchronous, Threaded, attribute, drain, finish, verb
from leveret.runtime.waiters import ThreadWaiter

if TYPE_CHECKING:
    from leveret.client.broker import AsyncRemoteBroker, RemoteBroker

SEND_MAX = 1_000  # messages of one request, as the server has it
RECEIVE_MAX = 100
ACK_MAX = 1_000
WAIT_S_MAX = 60
WORKER_WAIT_S = 2.0  # of one request of a worker: so long it takes to stop one that has nothing to do
WORKER_REST_MS = 1_000  # after a server was not there

M = TypeVar("M", bound=MessageVerbs)
_log = logging.getLogger("leveret.client")
_rows = field_of("messages")


class QueueVerbs(Remote, Generic[M]):
    """What both clients do with a queue."""

    _kind = "queues"
    _message: Callable[..., M]

    def __init__(self, broker: HasSession, name: str, row: Row | None = None) -> None:
        super().__init__(broker, name)
        self._row = row

    async def _known(self) -> Row:
        """What the server says about it; asked for once."""
        if self._row is None:
            self._row = await self._ask(ClientCall("GET", self._path(), row_of))
        return self._row

    @attribute
    async def durable(self) -> bool:
        """Whether it survives a restart."""
        return bool((await self._known())["durable"])

    @attribute
    async def arguments(self) -> dict[str, Any]:
        """What it was declared with, as AMQP clients know it."""
        found: dict[str, Any] = decode((await self._known())["arguments"])
        return found

    @attribute
    async def display_name(self) -> str | None:
        """What people call it, if that is not its name."""
        found: str | None = (await self._known())["display_name"]
        return found

    @attribute
    async def created_at(self) -> datetime | None:
        """When it was declared first; None if a version of Leveret did that which did not note it."""
        return time_of((await self._known())["created_at"])

    @attribute
    async def lease_ms(self) -> int:
        """How long a message is taken for; 0: for ever."""
        return round(1000 * ((await self._known())["visibility_timeout"] or 0))

    # Sending

    @verb
    async def send(self, /, body: Any, **options: Unpack[SendOptions]) -> str:
        """Put a message into the queue; give its id once it is durable. Options: those of leveret.Queue.send."""
        message, key = Outgoing(body, **options), self.broker.session.new_key()
        sent: str = await self._ask(calls.send(self._path("messages"), message, key))
        return sent

    @verb
    async def send_many(self, /, bodies: Iterable[Any], **options: Unpack[SendOptions]) -> list[str | None]:
        """Send many messages, each thousand in one commit; an `Outgoing` among them has options of its own."""
        messages = [body if isinstance(body, Outgoing) else Outgoing(body, **options) for body in bodies]
        sent: list[str | None] = []
        for batch in batches(messages, SEND_MAX):
            body, key = {"messages": [message_json(each) for each in batch]}, self.broker.session.new_key()
            call = ClientCall("POST", self._path("messages", "batch"), _rows, body, key, again=key is not None)
            sent += [row.get("message_id") for row in await self._ask(call)]
        return sent

    # Receiving

    @verb
    async def receive(self, count: int = 1, wait: float = 0, *, visibility_timeout: float | None = None) -> list[M]:
        """Take up to `count` messages; when there is none, wait up to `wait` seconds, by default not at all."""
        found: list[M] = []
        for wait_s in waits(wait):
            found = await self._receive(count, wait_s, visibility_timeout)
            if found:
                break
        while len(found) < count and len(found) % RECEIVE_MAX == 0 and found:
            more = await self._receive(count - len(found), 0, visibility_timeout)
            if not more:
                break
            found += more
        return found

    async def _receive(self, count: int, wait_s: float, lease_s: float | None) -> list[M]:
        """Take messages; a lost answer leaves them leased until their time is over."""
        body = given(
            max_messages=min(count, RECEIVE_MAX),
            encoding="base64",
            wait_seconds=wait_s or None,
            visibility_timeout=lease_s,
        )
        rows = await self._ask(ClientCall("POST", self._path("dequeue"), _rows, body, wait_s=wait_s))
        return [self._message(self, row) for row in rows]

    async def _messages(self) -> AsyncGenerator[M, None]:
        """Message after message, for as long as the client is open."""
        try:
            while True:
                for message in await self._receive(1, WAIT_S_MAX, None):
                    yield message
        except BrokerClosed:
            return

    # Settling

    @verb
    async def ack(self, receipt: str) -> None:
        """Done with the message of a receipt."""
        await self._ask(calls.settle("ack", self.name, ANY_ID, receipt))

    @verb
    async def nack(self, receipt: str, delay: float | None = None) -> None:
        """Give the message of a receipt back, for after `delay` seconds or the backoff of the queue."""
        await self._ask(calls.settle("nack", self.name, ANY_ID, receipt, delay_seconds=delay))

    @verb
    async def extend(self, receipt: str, seconds: float) -> None:
        """Keep the message of a receipt for so many seconds from now on."""
        await self._ask(calls.extend(self.name, ANY_ID, receipt, seconds))

    @verb
    async def reject(self, receipt: str) -> None:
        """Make the message of a receipt a dead letter."""
        await self._ask(calls.settle("reject", self.name, ANY_ID, receipt))

    @verb
    async def ack_many(self, messages: Iterable[M]) -> None:
        """Done with all these messages; those whose lease had ended are named by InvalidReceipt after the others."""
        batch = list(messages)
        for each in batch:
            if each.source.name != self.name:
                raise InvalidReceipt(f"message {each.id} is not of queue '{self.name}': acknowledge it there")
        late = 0
        for some in batches(batch, ACK_MAX):
            body = {"receipt_handles": [each.receipt for each in some]}
            late += len(await self._ask(ClientCall("POST", self._path("acknowledge"), field_of("failed"), body)))
        if late:
            raise InvalidReceipt(
                f"{late} of {len(batch)} messages of queue '{self.name}' were not leased any more, the others are "
                "acknowledged: they will be delivered again; ask for a longer visibility timeout"
            )

    # Looking and managing

    @verb
    async def stats(self) -> QueueStats:
        """Its figures."""
        found = {**await self._ask(ClientCall("GET", self._path("stats"), row_of)), "name": self.name}
        for name in ("depth_by_priority", "published_by_priority"):  # a server before 0.2 has only the first
            found[name] = {int(priority): count for priority, count in found.get(name, {}).items()}
        return QueueStats(**{each.name: found[each.name] for each in fields(QueueStats)})

    @verb
    async def browse(
        self, /, limit: int = 100, *, state: str = "ready", **conditions: Unpack[Conditions]
    ) -> list[RemotePeeked]:
        """Up to `limit` messages in the order of delivery, without taking them."""
        return await self._browse(limit, state, conditions)

    @verb
    async def scheduled(self, limit: int = 100) -> list[RemotePeeked]:
        """The messages whose delay has not ended, the next one first."""
        return await self._browse(limit, "scheduled", {})

    async def _browse(self, limit: int, state: str, conditions: Conditions) -> list[RemotePeeked]:
        query = {"limit": limit, "state": state, "encoding": "base64", **conditions_json(conditions)}
        if "headers" in query:
            query["headers"] = json.dumps(query["headers"])
        rows = await self._ask(ClientCall("GET", f"{self._path('messages')}?{urlencode(query)}", _rows))
        return [RemotePeeked(row) for row in rows]

    @verb
    async def cancel(self, message_id: str) -> bool:
        """Remove a message that is scheduled for later; False when it is not."""
        try:
            await self._ask(ClientCall("DELETE", self._path("scheduled", message_id), nothing))
        except MessageNotFound:
            return False
        return True

    @verb
    async def purge(self) -> int:
        """Remove everything that is ready; give the number of messages."""
        return int(await self._ask(ClientCall("POST", self._path("purge"), field_of("purged"))))

    @verb
    async def pause(self) -> None:
        """Hand nothing out until resume(); sending goes on."""
        await self._ask(ClientCall("POST", self._path("pause"), nothing))

    @verb
    async def resume(self) -> None:
        """Hand messages out again."""
        await self._ask(ClientCall("POST", self._path("resume"), nothing))

    @verb
    async def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete the queue with everything in it; give the number of messages that were ready."""
        query = urlencode({"if_unused": str(if_unused).lower(), "if_empty": str(if_empty).lower()})
        return int(await self._ask(ClientCall("DELETE", f"{self._path()}?{query}", field_of("deleted"))))

    @verb
    async def redrive(
        self,
        /,
        to: str | QueueVerbs[Any] | None = None,
        *,
        limit: int | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        **conditions: Unpack[Conditions],
    ) -> RedriveResult:
        """Move messages to another queue, by default each to the one where it died first."""
        body = given(
            to=to.name if isinstance(to, QueueVerbs) else to,
            limit=limit,
            rate_per_second=rate,
            dry_run=dry_run or None,
            filter=conditions_json(conditions) or None,
        )
        wait_s = 0 if rate is None or limit is None else limit / rate
        # Never repeated, because it would count less the second time.
        call = ClientCall("POST", self._path("redrive"), row_of, body, wait_s=wait_s, again=False)
        return RedriveResult(**await self._ask(call))

    @verb
    async def discard(
        self, /, *, limit: int | None = None, dry_run: bool = False, **conditions: Unpack[Conditions]
    ) -> int:
        """Remove the ready messages that meet conditions; give their number. A dry run only counts."""
        body = given(limit=limit, dry_run=dry_run or None, filter=conditions_json(conditions))
        # As redrive.
        return int(await self._ask(ClientCall("POST", self._path("discard"), field_of("matched"), body, again=False)))


class RemoteQueue(QueueVerbs[RemoteMessage], Threaded):
    """One queue, from broker.queue(): send and receive messages, or let a worker do it. See leveret.Queue."""

    broker: RemoteBroker
    _message: Callable[..., RemoteMessage] = RemoteMessage

    def __iter__(self) -> Iterator[RemoteMessage]:
        return drain(self._messages())

    def __len__(self) -> int:
        return self.stats().ready

    def __bool__(self) -> bool:
        return True

    # Working: what a Worker needs of its source

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        return self.broker.clock

    def take_waiting(self, waiter: ThreadWaiter) -> list[RemoteMessage]:
        """Take one message, however long it takes to come, over restarts of the server; nothing when stopped."""
        while not waiter.stopped:
            try:
                found = finish(self._receive(1, WORKER_WAIT_S, None))
            except Unreachable as error:
                _log.warning("queue %r cannot be reached: %s", self.name, error)
                self.clock.wait(waiter.gate, self.clock.now_ms() + WORKER_REST_MS)
            else:
                if found:
                    return found
        return []

    def flush(self) -> None:
        """Everything that was answered is durable already."""

    def processed(self, name: str) -> RemoteProcessed:
        """What workers of that name have done."""
        return RemoteProcessed(self, name)

    def worker(self, **options: Unpack[WorkerOptions]) -> Callable[[Handler], Worker]:
        """Decorate a function to be called with each message; options: concurrency, idempotent, name."""
        return lambda handler: Worker(self, handler, **options).start(self.broker.running)

    def run(self, handler: Handler, **options: Unpack[WorkerOptions]) -> None:
        """Work with a function until a signal comes or the client is closed; raises what ended it otherwise."""
        Worker(self, handler, **options).run(self.broker.running)


class AsyncRemoteQueue(QueueVerbs[AsyncRemoteMessage], Asynchronous):
    """The same for asyncio; what are attributes there are verbs here. Work with `async for`."""

    broker: AsyncRemoteBroker
    _message: Callable[..., AsyncRemoteMessage] = AsyncRemoteMessage

    def __aiter__(self) -> AsyncIterator[AsyncRemoteMessage]:
        return self._messages()


class RemoteProcessed:
    """What the workers of one name have done, remembered by the server. See leveret.runtime.processed."""

    def __init__(self, source: RemoteQueue, name: str) -> None:
        self._source = source
        self._name = name
        source.broker.queue(source.name + PROCESSED_SUFFIX, dedup_window=WINDOW_S, durable=source.durable)

    def has(self, message: RemoteMessage) -> bool:
        """Whether a message was handled before."""
        path = f"{path_of('queues', self._source.name, 'processed', message.id)}?{urlencode({'worker': self._name})}"
        return bool(self._source.broker.run(ClientCall("GET", path, field_of("processed"))))

    def finish(self, message: RemoteMessage) -> None:
        """Remember a handled message and acknowledge it, by one frame of the journal."""
        names, ends = (self._source.name, message.id, message.receipt), message.visible_until
        self._source.broker.run(calls.settle("finish", *names, ends, worker=self._name))


def batches(whole: list[Any], size: int) -> Iterator[list[Any]]:
    """A list in parts."""
    return (whole[at : at + size] for at in range(0, len(whole), size))


def waits(wait_s: float) -> Iterator[float]:
    """A long wait as waits of one request each; at least one."""
    yield min(wait_s, WAIT_S_MAX)
    while wait_s > WAIT_S_MAX:
        wait_s -= WAIT_S_MAX
        yield min(wait_s, WAIT_S_MAX)
