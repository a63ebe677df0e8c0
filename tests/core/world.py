"""A broker to test with, in memory or in a directory, and a clock that the test turns."""

import threading
from pathlib import Path
from typing import Any

from leveret.core import browse
from leveret.core.broker import Broker
from leveret.core.consumer import Consumer
from leveret.core.held import Held
from leveret.core.ports import Journal
from leveret.core.properties import Properties, content
from leveret.core.queue import Queue
from leveret.storage.disk import Disk
from leveret.storage.journal.files.store import FileStore
from leveret.storage.journal.journal import FileJournal
from leveret.storage.options import JournalOptions

START_MS = 1_700_000_000_000
TAG = 7
SMALL_SEGMENTS = JournalOptions(
    sync="never", segment_bytes=1024, cache_bytes=256, checkpoint_bytes=1 << 40, spare_bytes=0, disk_free_min_bytes=0
)


class World:
    """A broker, its clock, and the directory that it comes back from."""

    def __init__(self, directory: Path | None = None) -> None:
        self.now_ms = START_MS
        self.directory = directory
        self.store: FileStore | None = None
        self.open()

    def open(self) -> None:
        """Start the broker, from what the directory holds if there is one."""
        if self.directory is None:
            self.broker = Broker(Journal(), TAG)
        else:
            journal = FileJournal(SMALL_SEGMENTS, self.clock)
            self.broker = Broker(journal, TAG)
            self.store = FileStore(
                Disk(str(self.directory)), journal, self.broker.restorer, threading.Lock(), self.clock, SMALL_SEGMENTS,
                threaded=False,
            )  # fmt: skip
        self.broker.tick(self.now_ms)

    def clock(self) -> int:
        """The time of the test."""
        return self.now_ms

    def disk(self) -> FileStore:
        """The open directory."""
        assert self.store is not None, "this world is in memory only"
        return self.store

    def commit(self) -> None:
        """Make durable what was done."""
        self.disk().commit.flush()

    def crash(self) -> None:
        """Stop without a commit, and come back."""
        self.disk().abandon()
        self.open()

    def restart(self) -> None:
        """Commit, stop without a checkpoint, and come back by replaying everything."""
        self.commit()
        self.crash()

    def close(self) -> None:
        """Let go of the directory."""
        if self.store is not None:
            self.store.abandon()

    def compact(self) -> None:
        """Copy everything that lives out of the old segments and remove them."""
        store = self.disk()
        self.commit()
        end = store.journal.segment
        while store.meta.oldest < end:
            self.compact_oldest()

    def compact_oldest(self) -> None:
        """Copy everything that lives out of the oldest segment and remove that."""
        store = self.disk()
        self.commit()
        oldest = store.meta.oldest
        while not self.broker.restorer.relocate(oldest, 100):
            pass
        self.commit()
        store._remove(oldest)

    def queue(self, name: str = "q", *, durable: bool = True, **arguments: Any) -> Queue:
        """Declare a queue; `max_length=3` is x-max-length: 3."""
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        return self.broker.declare_queue("/", name, named, durable=durable)

    def again(self, name: str = "q") -> Queue:
        """The queue of that name as it is now."""
        queue: Queue = self.broker.topology.vhost("/").queue(name)
        return queue

    def send(self, queue: Queue, body: str = "m", headers: dict[str, Any] | None = None, **options: Any) -> int:
        """Publish straight to a queue."""
        wire, header_len = content(Properties(headers=headers), body.encode())
        return self.broker.send(queue, wire, header_len, **options)

    def send_all(self, queue: Queue, bodies: str, **options: Any) -> None:
        """Publish one message for each letter."""
        for body in bodies:
            self.send(queue, body, **options)

    def publish(self, exchange: str, routing_key: str, body: str = "m", **options: Any) -> tuple[int, bool, bool]:
        """Publish through an exchange."""
        headers = options.pop("headers", None)
        return self.broker.publish_through(
            "/", exchange, routing_key, Properties(headers=headers), body.encode(), **options
        )

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, and everything happen that is due."""
        self.now_ms += duration_ms
        while self.broker.tick(self.now_ms):
            pass


class Recorder(Consumer):
    """A consumer that keeps what it gets."""

    def __init__(self, tag: str = "c", **options: Any) -> None:
        super().__init__(tag, **options)
        self.got: list[Held] = []
        self.bodies: list[str] = []
        self.gone = False

    def deliver(self, held: Held) -> None:
        self.got.append(held)
        self.bodies.append(held.message.body.decode())

    def cancelled(self) -> None:
        self.gone = True


def ready(queue: Queue) -> str:
    """The bodies that wait, joined, in the order of their delivery."""
    return "".join(text(held) for held in browse.ready_after(queue, (), 100_000)[0])


def text(held: Held) -> str:
    """The body of a message, leased or not."""
    return browse.read(held).body.decode()


def take(queue: Queue, count: int = 1, lease_ms: int | None = None) -> list[Held]:
    """Lease messages."""
    return queue.take(count, lease_ms)


def taken(queue: Queue, count: int = 100, lease_ms: int | None = None) -> str:
    """Lease messages and give their bodies."""
    return "".join(text(held) for held in queue.take(count, lease_ms))


def ack(held: Held) -> None:
    """Settle a lease."""
    held.queue.ack(held, held.lease)


def headers_of(held: Held) -> dict[str, Any]:
    """The headers of a message."""
    headers: dict[str, Any] = browse.read(held).properties.headers or {}
    return headers
