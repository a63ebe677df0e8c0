# cython: language_level=3
# distutils: include_dirs = src/leveret/storage
"""A readable state: dictionaries instead of queues, to look into a data directory without a broker.

It is a whole owner of a journal as well: its verbs append through the port as the core does, so that a journal can be
driven by it. Messages are numbered from 1; time is an argument, as everywhere.
"""

import json
from dataclasses import dataclass

from libc.stdint cimport uint32_t, uint64_t

from leveret.core.message cimport PERSISTENT, Message, new_message
from leveret.core.ports cimport Content, Entry, Journal, Place, JournaledState, parts_of

# The definition that says which message number was the last: all entries that mention it may be compacted away.
NUMBER = 0


@dataclass
class ReplayedMessage:
    """One message in one queue."""

    seq: int
    enqueued_ms: int
    expiry_ms: int
    due_ms: int
    group: int
    segment: int
    offset: int
    size: int
    deliveries: int
    priority: int
    flags: int


cdef void fill(Entry* entry, object held):
    """Write a message in the form of the port."""
    entry.seq = held.seq
    entry.enqueued_ms = held.enqueued_ms
    entry.expiry_ms = held.expiry_ms
    entry.place.segment = held.segment
    entry.place.offset = held.offset
    entry.place.size = held.size
    entry.deliveries = held.deliveries
    entry.overhead = 0
    entry.priority = held.priority
    entry.flags = held.flags


cdef object held_of(Entry* entry, uint64_t due_ms, uint64_t group):
    """A message from the form of the port."""
    return ReplayedMessage(
        entry.seq, entry.enqueued_ms, entry.expiry_ms, due_ms, group, entry.place.segment, entry.place.offset,
        entry.place.size, entry.deliveries, entry.priority, entry.flags,
    )


cdef class PlainState(JournaledState):
    """Queues as dictionaries: {queue: {seq: Held}}; definitions and keys likewise."""

    cdef readonly Journal journal
    cdef readonly dict queues
    cdef readonly dict definitions      # (what, payload) -> segment
    cdef readonly dict dedup            # (queue, digest) -> (seq, at_ms, segment)
    cdef public uint64_t seq            # of the last message

    def __init__(self, Journal journal):
        self.journal = journal
        self.queues = {}
        self.definitions = {}
        self.dedup = {}

    # What an owner does.

    def publish(
        self, list queues, bytes route, bytes content, uint32_t header_len=0, int priority=0, int flags=PERSISTENT,
        uint64_t expiry_ms=0, uint64_t due_ms=0, uint64_t group=0, uint64_t now_ms=0,
    ) -> int:
        """Put a message into queues; give its number."""
        cdef Message message = new_message(route, content, header_len, priority, flags, expiry_ms, due_ms, group)
        cdef Entry entry
        cdef Content parts
        self.seq += 1
        message.seq = self.seq
        message.enqueued_ms = now_ms
        parts_of(message, &parts)
        self.journal.published(&parts, message, queues, &entry.place)
        entry.seq = message.seq
        entry.enqueued_ms = now_ms
        entry.expiry_ms = expiry_ms
        entry.deliveries = entry.overhead = 0
        entry.priority = message.priority
        entry.flags = message.flags
        for queue in queues:
            self.queues.setdefault(queue, {})[message.seq] = held_of(&entry, due_ms, group)
        return message.seq

    def deliver(self, uint32_t queue, uint64_t seq, uint64_t at_ms=0, uint32_t consumer=0) -> None:
        """Count a delivery."""
        cdef Entry entry
        held = self.queues[queue][seq]
        held.deliveries += 1
        fill(&entry, held)
        self.journal.delivered(queue, &entry, at_ms, consumer)

    def give_back(self, uint32_t queue, uint64_t seq, int how=0, uint64_t due_ms=0, uint32_t held_ms=0) -> None:
        """End a delivery without settling."""
        cdef Entry entry
        held = self.queues[queue][seq]
        held.due_ms = due_ms
        fill(&entry, held)
        self.journal.returned(queue, &entry, how, 0, due_ms, held_ms, 0)

    def settle(self, uint32_t queue, uint64_t seq, int how=0, uint64_t at_ms=0, uint32_t held_ms=0) -> None:
        """Take a message out of a queue for good."""
        cdef Entry entry
        fill(&entry, self.queues[queue].pop(seq))
        self.journal.settled(queue, &entry, how, at_ms, held_ms, 0)

    def purge(self, uint32_t queue, list keep) -> None:
        """Empty a queue but for some messages."""
        gone = [held for seq, held in self.queues.get(queue, {}).items() if seq not in keep]
        places = {}
        for held in gone:
            places[held.segment] = places.get(held.segment, 0) + 1
            del self.queues[queue][held.seq]
        self.journal.purged(queue, keep, places, [held.seq for held in gone], 0)

    def define(self, int what, bytes payload) -> None:
        """Make a definition."""
        self.definitions[what, payload] = self.journal.defined(what, payload)

    def deduplicate(self, uint32_t queue, bytes digest, uint64_t seq, uint64_t at_ms) -> None:
        """Take a de-duplication key."""
        self.dedup[queue, digest] = (seq, at_ms, self.journal.deduplicated(queue, digest, seq, at_ms))

    def read(self, uint32_t queue, uint64_t seq) -> Message:
        """The message itself."""
        cdef Entry entry
        fill(&entry, self.queues[queue][seq])
        return self.journal.read(&entry)

    def contents(self) -> dict[int, dict[int, tuple]]:
        """All that a client could tell: everything but the places of the records."""
        return {
            queue: {
                seq: (h.enqueued_ms, h.expiry_ms, h.due_ms, h.group, h.deliveries, h.priority, h.flags)
                for seq, h in sorted(messages.items())
            }
            for queue, messages in sorted(self.queues.items()) if messages
        }

    # What a journal asks.

    cdef int replay_publish(
        self, uint32_t queue, Entry* entry, uint64_t due_ms, uint64_t group, bint moved
    ) except -1:
        messages = self.queues.setdefault(queue, {})
        known = messages.get(entry.seq) if moved else None
        if known is None:
            messages[entry.seq] = held_of(entry, due_ms, group)
        else:
            known.segment, known.offset, known.size = entry.place.segment, entry.place.offset, entry.place.size
        self.seq = max(self.seq, entry.seq)
        return 0

    cdef int replay_settle(self, uint32_t queue, uint64_t seq, uint32_t count) except -1:
        messages = self.queues.get(queue, {})
        for number in range(seq, seq + count):
            messages.pop(number, None)
        self.seq = max(self.seq, seq + count - 1)
        return 0

    cdef int replay_deliver(self, uint32_t queue, uint64_t seq, uint32_t count, uint32_t deliveries) except -1:
        messages = self.queues.get(queue, {})
        for number in range(seq, seq + count):
            if number in messages:
                messages[number].deliveries = deliveries
        return 0

    cdef int replay_return(self, uint32_t queue, uint64_t seq, uint32_t deliveries, uint64_t due_ms) except -1:
        held = self.queues.get(queue, {}).get(seq)
        if held is not None:
            held.deliveries, held.due_ms = deliveries, due_ms
        return 0

    def replay_purge(self, queue: int, before: int, keep: list[int]) -> None:
        """Empty a queue again."""
        messages = self.queues.get(queue, {})
        for seq in [seq for seq in messages if seq < before and seq not in keep]:
            del messages[seq]

    def replay_definition(self, what: int, payload: bytes, segment: int) -> None:
        """Make a definition again."""
        if what == NUMBER:
            self.seq = max(self.seq, int.from_bytes(payload[:8], "little"))
            return
        self.definitions[what, payload] = segment

    def replay_dedup(self, queue: int, digest: bytes, seq: int, at_ms: int, segment: int) -> None:
        """Take a key again."""
        self.dedup[queue, digest] = (seq, at_ms, segment)

    def recovered(self, now_ms: int) -> dict[int, int]:
        """Count live records by segment."""
        live = {}
        for messages in self.queues.values():
            for held in messages.values():
                live[held.segment] = live.get(held.segment, 0) + 1
        return live

    def snapshot(self) -> bytes:
        """Everything that is durable, as JSON."""
        return json.dumps({
            "seq": self.seq,
            "queues": [
                [queue, [list(vars(held).values()) for held in messages.values() if held.segment]]
                for queue, messages in self.queues.items()
            ],
            "definitions": [[what, payload.hex(), segment] for (what, payload), segment in self.definitions.items()],
            "dedup": [[queue, digest.hex(), *rest] for (queue, digest), rest in self.dedup.items()],
        }).encode()

    def restore(self, snapshot: memoryview) -> None:
        """Read a snapshot."""
        facts = json.loads(bytes(snapshot))
        self.seq = facts["seq"]
        for queue, messages in facts["queues"]:
            self.queues[queue] = {values[0]: ReplayedMessage(*values) for values in messages}
        for what, payload, segment in facts["definitions"]:
            self.definitions[what, bytes.fromhex(payload)] = segment
        for queue, digest, seq, at_ms, segment in facts["dedup"]:
            self.dedup[queue, bytes.fromhex(digest)] = (seq, at_ms, segment)

    def relocate(self, segment: int, budget_bytes: int) -> bool:
        """Append again what lives in a segment."""
        for (what, payload), place in list(self.definitions.items()):
            if place <= segment:
                self.define(what, payload)
        for (queue, digest), (seq, at_ms, place) in list(self.dedup.items()):
            if place <= segment:
                self.deduplicate(queue, digest, seq, at_ms)
        for queue, messages in self.queues.items():
            for held in messages.values():
                if 0 < held.segment <= segment:
                    if budget_bytes <= 0:
                        return False
                    budget_bytes -= held.size
                    self.move(queue, held)
        self.journal.defined(NUMBER, int(self.seq).to_bytes(8, "little"))
        return True

    cdef int move(self, uint32_t queue, object held) except -1:
        """Append one message again; its count and time go with it."""
        cdef Entry entry
        cdef Message message
        cdef Place place
        fill(&entry, held)
        message = self.journal.read(&entry)
        message = new_message(
            message.route, message.content, message.header_len, held.priority, held.flags, held.expiry_ms, held.due_ms,
            held.group,
        )
        message.seq = held.seq
        message.enqueued_ms = held.enqueued_ms
        self.journal.relocated(message, [queue], &place)
        held.segment, held.offset, held.size = place.segment, place.offset, place.size
        if held.deliveries:
            fill(&entry, held)
            self.journal.delivered(queue, &entry, 0, 0)
        return 0
