"""A stream over AMQP: records are published, and read by a consumer from any place on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from leveret.client.amqp.channels import Publish
from leveret.client.amqp.message import AmqpRecord
from leveret.client.amqp.outbox import publish_method
from leveret.client.amqp.receiving import ReceiveChannel
from leveret.client.amqp.session import AmqpSession
from leveret.client.group import AsyncRemoteGroup, RemoteGroup
from leveret.client.message import RemoteRecord
from leveret.client.stream import (
    AsyncRemoteReader,
    AsyncRemoteStream,
    ReaderVerbs,
    RemoteReader,
    RemoteStream,
    StreamVerbs,
)
from leveret.core.errors import InvalidArgument, QueueFull, QueueNotFound
from leveret.runtime.keywords import RecordOptions
from leveret.runtime.outgoing import Outgoing
from leveret.runtime.reading import READ_BYTES, READ_RECORDS, Place
from leveret.runtime.stream import Appended
from leveret.runtime.verbs import verb
from leveret.wire.methods import QueueDelete

if TYPE_CHECKING:
    from leveret.client.amqp.broker import AmqpBroker, AsyncAmqpBroker

UNKNOWN = Appended(-1, -1)
"""A confirm of AMQP says that a record is durable, not where."""
HEADERS = {
    "key": "x-partition-key",
    "filter": "x-stream-filter-value",
    "producer": "x-producer",
    "sequence": "x-sequence",
}


class AmqpReaderVerbs(ReaderVerbs):
    """What both clients do with a place in one partition of a stream over AMQP."""

    def __init__(
        self,
        stream: AmqpStreamVerbs[Any],
        partition: int,
        place: Place,
        filters: Iterable[str] | None = None,
        match_unfiltered: bool = False,
    ) -> None:
        super().__init__(stream, partition, place, filters, match_unfiltered)
        self._session = stream.session
        self._name = stream.name
        self._arguments: dict[str, Any] = {}
        if filters is not None:
            self._arguments = {"x-stream-filter": list(filters), "x-stream-match-unfiltered": match_unfiltered}
        if partition:
            self._arguments["x-stream-partition"] = partition
        self._channel: ReceiveChannel | None = None

    def _wanted(self) -> Mapping[str, Any]:
        """The arguments of the consumer: it goes on where this reader is."""
        place = self._place
        return {**self._arguments, "x-stream-offset": {"earliest": "first", "latest": "next"}.get(str(place), place)}

    async def find(self) -> None:
        """Be where the place is now: the broker remembers it with the consumer."""
        link = self._session.link
        with link.lock:
            link.check()
            self._channel = link.connection.receiver(self._name)
            self._channel.consume(self._session.prefetch, self._wanted)
            pending = link.pending()
            self._channel.started(pending)
        link.touch()
        await link.answer(pending)

    async def next_records(self, max_records: int, max_bytes: int, wait: float | None) -> list[RemoteRecord]:
        """The next records; when there is none yet, wait up to `wait` seconds for the first, None: for ever."""
        if self._channel is None:
            await self.find()
        link, channel = self._session.link, self._channel
        assert channel is not None
        while True:
            with link.lock:
                found = [AmqpRecord(each) for each in channel.take(max_records)]
                for record in found:
                    channel.ack(record._delivery.tag, channel.epoch)
                    self._place = self.offset = record.offset + 1
                if not found:
                    waiter = link.pending()
                    channel.waiters.append(waiter)
            link.touch()
            if found:
                return list(found)
            woken = False
            try:
                woken = await link.wait(waiter, wait)
            finally:
                with link.lock:
                    channel.leave(waiter)
            if not woken:
                return []

    async def _close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            with self._session.link.lock:
                channel.end()
            self._session.link.touch()


class AmqpReader(AmqpReaderVerbs, RemoteReader):
    """Reads one partition of a stream over AMQP; for one thread at a time."""


class AsyncAmqpReader(AmqpReaderVerbs, AsyncRemoteReader):
    """Reads one partition of a stream over AMQP; for one task at a time."""


R = TypeVar("R", bound=AmqpReaderVerbs)


class AmqpStreamVerbs(StreamVerbs[R, Any]):
    """What both clients do with a stream over AMQP; verbs that are not here have no equal there."""

    def __init__(self, broker: Any, name: str, row: None = None) -> None:
        super().__init__(broker, name, row)
        self.session: AmqpSession = broker.session
        self._method = publish_method("", name)

    @verb
    async def send(self, /, body: Any, **options: Unpack[RecordOptions]) -> Appended:
        """Append a record; return once the broker has confirmed it. AMQP does not tell where it is: -1."""
        return (await self._publish([body], {**options}))[0]

    @verb
    async def send_many(self, /, bodies: Iterable[Any], **options: Unpack[RecordOptions]) -> list[Appended]:
        """Append many records with the same options; a `sequence` counts on from record to record."""
        return await self._publish(bodies, {**options})

    async def _publish(self, bodies: Iterable[Any], options: dict[str, Any]) -> list[Appended]:
        outbox, link = self.session.outbox, self.session.link
        if options.get("sequence") is not None:
            first: int = options["sequence"]
            records: Iterable[Any] = (
                Outgoing(body, **_labelled({**options, "sequence": first + place})) for place, body in enumerate(bodies)
            )
            options = {}
        else:
            records, options = bodies, _labelled(options)
        sent: list[Publish] = []
        for publish in outbox.many(self._method, records, options):
            sent.append(publish)
            await link.publish(publish)
        count = 0
        for publish in sent:
            await link.answer(publish.pending)
            if publish.outcome is not None and publish.outcome.returned:
                raise QueueNotFound(f"stream '{self.name}' does not exist: declare it first")
            if publish.outcome is not None:
                raise QueueFull(f"stream '{self.name}' refused records: look at its limits")
            count += len(publish.bodies)
        return [UNKNOWN] * count

    @verb
    async def read(
        self,
        partition: int = 0,
        offset: Place = 0,
        *,
        max_records: int = READ_RECORDS,
        max_bytes: int = READ_BYTES,
        wait: float = 0,
    ) -> list[RemoteRecord]:
        """Records from a place on: what is here when the first has come, for which it waits up to `wait` seconds."""
        if wait <= 0:
            raise InvalidArgument("over AMQP records are pushed, so reading has to wait for them: give wait=1 or more")
        reader = self._reader(self, partition, offset)
        try:
            return await reader.next_records(max_records, max_bytes, wait)
        finally:
            await reader._close()

    @verb
    async def delete(self) -> int:
        """Delete the stream with everything in it; AMQP counts no records: 0."""
        await self.session.link.call(QueueDelete(self.name), again=False)
        return 0


def _labelled(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a record as those of a message: what it is filed by is in headers."""
    labels = {HEADERS[name]: value for name, value in options.items() if name in HEADERS and value is not None}
    rest = {name: value for name, value in options.items() if name not in HEADERS}
    return {**rest, "headers": {**(rest.get("headers") or {}), **labels} or None}


class AmqpStream(AmqpStreamVerbs[AmqpReader], RemoteStream):
    """One stream over AMQP, from broker.stream(). See leveret.Stream."""

    broker: AmqpBroker
    _reader = AmqpReader
    _group = RemoteGroup


class AsyncAmqpStream(AmqpStreamVerbs[AsyncAmqpReader], AsyncRemoteStream):
    """The same for asyncio."""

    broker: AsyncAmqpBroker
    _reader = AsyncAmqpReader
    _group = AsyncRemoteGroup
