"""A broker with connections in memory and no threads, for whoever sends nonsense; and what must hold whatever comes.

No exception leaves a connection. What it says can be read. Once it has said that it closes, it says nothing else and
changes nothing. The counts of every queue add up, and what the journal holds is what the broker has.
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from leveret.core import browse
from leveret.core.broker import Broker
from leveret.core.dispatch import pump
from leveret.core.held import Held
from leveret.protocols.amqp.connection import AmqpConnection
from leveret.protocols.amqp.hub import Hub
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.traffic import ChannelTraffic
from leveret.security.access import Access
from leveret.wire import methods as m
from leveret.wire.codec import decode
from leveret.wire.frames import FRAME_MAX_MIN, METHOD, PROTOCOL_HEADER, FrameReader
from tests.core.world import World
from tests.protocols.amqp.client import CAPABILITIES, CHEAP, LOCAL
from tests.protocols.amqp.wire import method_frame
from tests.sim.digest import Digest, digest_of, is_orderly

MESSAGE_BYTES_MAX = 20_000
FED_BYTES_MAX = 65_536
TAG_MAX = 2**64 - 1
LIMITS = AmqpLimits(frame_max=FRAME_MAX_MIN, channel_max=4, message_bytes_max=MESSAGE_BYTES_MAX)
LOGIN = (
    PROTOCOL_HEADER,
    method_frame(0, m.ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", b"\0guest\0guest", "en_US")),
    method_frame(0, m.ConnectionTuneOk(LIMITS.channel_max, LIMITS.frame_max, 0)),
    method_frame(0, m.ConnectionOpen("/")),
    method_frame(1, m.ChannelOpen()) + method_frame(2, m.ChannelOpen()),
)

LOGGER = logging.getLogger("leveret")
T = TypeVar("T")


class QuietGuard:
    """The broker of a world, without a lock or threads."""

    large = None

    def __init__(self, world: World) -> None:
        self._world = world
        self.core = world.broker
        self.behind = False

    def __enter__(self) -> Broker:
        self.core.tick(self._world.now_ms)
        return self.core

    def __exit__(self, *error: object) -> None:
        self.dispatch()

    def dispatch(self) -> None:
        while self.core.engine.dirty:
            for queue in self.core.take_dirty():
                if queue.consumers:
                    pump(queue)

    @property
    def durable_batch(self) -> int:
        return 0 if self._world.store is None else self._world.store.journal.durable

    def commit(self) -> int:
        if self._world.store is None:
            return 0
        journal = self._world.store.journal
        return journal.pending if journal.dirty else journal.pending - 1

    def kick(self) -> None:
        """It is written when the arena says so."""


class Fighter:
    """The other end of a connection: looks at everything that is said to it."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.connection = AmqpConnection(arena.hub, LOCAL)
        self._reader = FrameReader(FRAME_MAX_MIN, 0xFFFF)
        self._reader.tune(FRAME_MAX_MIN, 0xFFFF)
        self.heard: Counter[str] = Counter()
        self.closing = False
        self.closed_channels: set[int] = set()

    def send(self, data: bytes) -> None:
        """Give bytes to the connection, as long as it wants any."""
        if self.connection.wants_input:
            self._arena.hub.receive(self.connection, data)
        self._arena.settle()

    def listen(self) -> None:
        """Read what was said; raises if it is not AMQP."""
        said = self.connection.take_output()
        if said == PROTOCOL_HEADER:
            assert self.connection.finished
            return
        self._reader.feed(said)
        while (frame := self._reader.next_frame()) is not None:
            if frame[0] == METHOD:
                self._hear(frame[1], decode(frame[2]))
        assert self._reader.buffered_bytes == 0, "half a frame was said"

    def _hear(self, channel: int, method: m.Method) -> None:
        self.heard[type(method).__name__] += 1
        if isinstance(method, m.ConnectionClose):
            assert method.reply_code != 541, method.reply_text
            self.closing = True
        elif isinstance(method, m.ChannelClose):
            assert method.reply_code != 541, method.reply_text
            self.closed_channels.add(channel)
        else:
            assert not self.closing or isinstance(method, m.ConnectionCloseOk), f"after connection.close: {method}"


class Arena:
    """A hub and those who fight it."""

    def __init__(self, directory: Path | None = None) -> None:
        self.world = World(directory)
        self._complaints = Complaints(logging.ERROR)
        LOGGER.addHandler(self._complaints)
        self._jobs: deque[Callable[[], None]] = deque()
        self.runtime = QuietGuard(self.world)
        self.access = Access(self.runtime.core, cost=CHEAP)
        self.hub = Hub(cast("Any", self.runtime), lambda: None, self.access, self._later, LIMITS)
        self.fighters: list[Fighter] = []
        self._settle_journal()

    def _later(self, job: Callable[[], T], done: Callable[[T], None]) -> None:
        self._jobs.append(lambda: done(job()))

    def enter(self, steps: int = len(LOGIN)) -> Fighter:
        """A new connection that has gone so many steps towards an open channel."""
        fighter = Fighter(self)
        self.fighters.append(fighter)
        for data in LOGIN[:steps]:
            fighter.send(data)
        return fighter

    def leave(self, fighter: Fighter) -> None:
        """A socket breaks."""
        self.hub.lost(fighter.connection)
        self.fighters.remove(fighter)
        self.settle()

    def settle(self) -> None:
        """Do what was put off, write the journal, and let everybody listen."""
        while self._jobs:
            self._jobs.popleft()()
        self._settle_journal()
        while self.hub.outbox.waiting:
            self.hub.flush()
        for fighter in self.fighters:
            fighter.listen()

    def _settle_journal(self) -> None:
        if self.world.store is not None:
            self.world.commit()
            self.hub.durable(self.world.store.journal.durable)

    def pass_ms(self, ms: int) -> None:
        """Let time pass."""
        self.world.now_ms += ms
        self.hub.sweep()
        self.settle()

    # What must hold

    def check(self) -> None:
        """The counts of everything add up."""
        held: Counter[Any] = Counter()
        for fighter in self.fighters:
            connection = fighter.connection
            assert connection.reader.buffered_bytes <= FED_BYTES_MAX + FRAME_MAX_MIN
            assert not (fighter.closing and connection.channels), "channels of a closed connection"
            for channel in connection.channels.values():
                is_confirmed = channel.published <= channel.confirmed
                assert channel.deaf or is_confirmed, "all is on the disk, and a publish is not confirmed"
                held.update(each.queue for each in delivered(channel) if not each.queue.deleted)
                for subscriber in channel.subscribers.values():
                    assert subscriber in (subscriber.queue.consumers or ()), "a consumer that its queue does not know"
        for queue in self.world.broker.queues.values():
            assert is_orderly(queue), f"the messages of {queue.name} do not add up"
            assert queue.leased == held[queue], f"{queue.name}: {queue.leased} leased, {held[queue]} with clients"

    def finish(self) -> None:
        """Everybody goes: nothing is held any more, and the journal tells the same."""
        self.check()
        for fighter in list(self.fighters):
            self.leave(fighter)
        for queue in self.world.broker.queues.values():
            assert not queue.consumers
            assert not queue.leased
            assert queue.owner is None, "an exclusive queue outlived its connection"
        if self.world.store is not None:
            self.world.commit()
            before = digest_of(self.world.broker).at(self.world.now_ms)
            self.world.restart()
            after = digest_of(self.world.broker)
            assert survivors(before) == survivors(after.at(before.now_ms))
            assert not after.disorder

    def close(self) -> None:
        """Let go of the directory."""
        LOGGER.removeHandler(self._complaints)
        self.world.close()
        for broker in {self.runtime.core, self.world.broker}:
            discard(broker)


def survivors(state: Digest) -> Digest:
    """All of a state but the last numbers: what is not durable had some, and they are given again."""
    return replace(state, last_seq=0, last_queue_id=0)


def discard(broker: Broker) -> None:
    """Take the messages out of a broker that nobody needs any more: the collector does not see what holds them."""
    for queue in list(broker.queues.values()):
        broker.delete_queue(queue)


def delivered(channel: ChannelTraffic) -> list[Held]:
    """What a channel has handed out and its client has not settled."""
    found = [channel.unacked.get(tag) for tag in channel.unacked.tags(TAG_MAX)]
    return [held for held in found if held is not None and browse.state_of(held) == "leased"]


class Complaints(logging.Handler):
    """Whatever is logged as an error was not foreseen: the test fails."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage()) from (record.exc_info[1] if record.exc_info else None)


def fight(action: Callable[[Arena], None], *, journaled: bool = False) -> None:
    """Let somebody loose on a new arena, and check everything afterwards."""
    with tempfile.TemporaryDirectory() as directory:
        arena = Arena(Path(directory) if journaled else None)
        try:
            action(arena)
            arena.finish()
        finally:
            arena.close()
