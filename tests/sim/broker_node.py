"""The real broker on the real journal on a simulated disk; it looks at the time before it does anything else."""

import dataclasses

from leveret.core import browse
from leveret.core.broker import Broker
from leveret.core.held import Held
from leveret.core.queue import Queue
from leveret.core.restore import Restorer
from leveret.storage.encryption import KEY_BYTES, MasterKeys
from leveret.storage.journal.journal import FileJournal
from tests.sim.broker_checker import Records
from tests.sim.digest import Digest, digest_of
from tests.sim.node import OPTIONS, Life, options_with
from tests.sim.simdisk import SimDisk

ENCRYPTED = options_with(MasterKeys(bytes(KEY_BYTES)))


class Lease:
    """A message that somebody holds, or believes to hold."""

    def __init__(self, queue: Queue, held: Held) -> None:
        self.queue = queue
        self.held = held
        self.number = held.lease


class BrokerNode(Life):
    """One life of a broker, from recovery to crash."""

    restorer_class: type[Restorer] = Restorer

    def __init__(self, disk: SimDisk, records: Records) -> None:
        """Recover what the disk holds."""
        self.now_ms = records.now_ms
        self.leases: list[Lease] = []
        options = ENCRYPTED if records.encrypted else OPTIONS
        journal = FileJournal(options, self.clock)
        self.broker = Broker(journal, restorer_class=self.restorer_class)
        self.open(disk, journal, self.broker.restorer, self.clock, options)
        self.last_seq = self.broker.engine.last_seq
        self.last_queue_id = self.broker.log.last_queue_id

    def clock(self) -> int:
        """Time passes when the workload says so."""
        return self.now_ms

    def pass_time(self, ms: int) -> None:
        """Let time pass; what is due then happens."""
        self.now_ms += ms
        self.tick()

    def tick(self) -> None:
        """Do what is due."""
        self.broker.tick(self.now_ms)

    def take(self, queue: Queue, count: int, lease_ms: int | None, consumer: str | None) -> None:
        """Lease some messages."""
        self.leases += [Lease(queue, held) for held in queue.take(count, lease_ms, consumer)]

    def move(self, source: Queue, target: Queue, count: int) -> None:
        """Move messages from the head of a queue to another one, as a redrive does."""
        for seen in browse.ready_after(source, (), count)[0]:
            message = browse.read(seen)
            if self.full or target.would_overflow(len(message.body)):
                break
            held = browse.withdraw(source, seen)
            if held is not None:
                self.broker.publish([target], target.route, message.content, message.header_len, priority=seen.priority)
                browse.moved(held)

    def digest(self) -> Digest:
        """All that must survive, each message read back; a number that a durable thing has is not given again."""
        found = digest_of(self.broker)
        self.last_seq = max(self.last_seq, *(seq for _, seq in found.messages), 0)
        ids = [queue.id for queue in self.broker.queues.values() if queue.durable]
        self.last_queue_id = max(self.last_queue_id, *ids, 0)
        return dataclasses.replace(found, last_seq=self.last_seq, last_queue_id=self.last_queue_id)
