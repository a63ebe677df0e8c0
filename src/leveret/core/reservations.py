"""Reservations: messages of a queue that a group of readers has for itself, and may read as often as it likes.

    reserve(start=0)  -> end 1     messages are leased under number 1
    reserve(start=0)  -> end 1     the same ones: the answer was lost, or the reader began anew
    messages(1, ...)               tasks that are repeated, or run twice, read the same
    reserve(start=1)  -> end 2     what was reserved under 1 is acknowledged, the next messages are leased

So `start` says up to where the reader is done, and a queue can be read like a log by one whose only memory is the last
number that it is done with. A group has one reservation at a time. It is a definition of the core and durable before
it is answered: after a restart the same messages are held for it again.

A reservation lasts until the reader moves on or an operator releases it: no clock ends it. A reader may ask for a lease
all the same. When that is over without news, other clients may have the messages; the group still knows which they
were, acknowledges those that wait when the reader returns and is done with them, and holds them again when it is not.

Many messages are leased and acknowledged in turns, so that other clients get the lock in between (`Turns`).

The numbers of a group begin with the time in ms (1 in the drawing): a group that is made anew under the name of one
that was deleted has other numbers, and a reader with an old number is refused.

A group that has never reserved a message is not kept: it is the same as one that does not exist. One that has is kept
until it is deleted, however long it is idle: its numbers are the offsets in the checkpoint of a query, and that query
could neither go on nor know what it has read if they began anew.
"""

import base64
import struct
import zlib
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core.claims import hold_again, let_go, take_reserved
from leveret.core.definition_log import Kind
from leveret.core.errors import InvalidArgument, NotFound, NotSupported, PreconditionFailed, TooMany
from leveret.core.held import Held
from leveret.core.names import check_new_name
from leveret.core.queue import Queue
from leveret.core.timers import Alarm

if TYPE_CHECKING:
    from leveret.core.broker import Broker

GROUPS_MAX = 1_000
"""Each may hold as many messages as a reservation may have, in memory and in every checkpoint."""
GROUPS_USER_MAX = 250
GROUPS_QUEUE_MAX = 100
GROUPS_USER_QUEUE_MAX = 50
"""Without these one user takes all groups, and the readers of all other queues are refused."""
SHARES_MAX = 1_000  # readers of one reservation that divide its message groups: each looks at all messages
MESSAGES_MAX = 1_000_000
RESERVED_MAX = 10_000_000
"""Of all groups together: each takes some 250 bytes of memory."""
BYTES_MAX = 1 << 32
TURN = 2_000
"""Messages that one hold of the lock leases or acknowledges."""
LEASE_MS_MIN = 1_000
"""A shorter one ends by a pause of the garbage collector."""
LEASE_MS_MAX = 86_400_000
NUMBER_MAX = (1 << 63) - 1

LAPSED = -1  # in place of the number of a lease
_MESSAGE = struct.Struct("<qQB")

Key = tuple[int, str]


class Reserved(NamedTuple):
    """What a reader has: the messages between two numbers; as many as `start` and `end` are apart, if there are any."""

    start: int
    end: int
    messages: int
    bytes: int


Turns = Generator[None, None, Reserved]
"""Work in turns: the caller may let the lock go whenever it yields."""


class Reservation:
    """The messages of one group under one number; a message that is not there any more leaves a gap."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.held: list[Held | None] = []
        self.leases: list[int] = []
        self.bytes = 0
        self.packed: list[str] = []
        """The numbers of the messages as the journal has them, a text for each turn."""
        self.lapsed = 0
        """How many of the messages have been looked at since the lease ended."""

    def add(self, held: Sequence[Held | None]) -> None:
        self.held += held
        self.leases += [0 if each is None else each.lease for each in held]
        self.bytes += sum(each.size for each in held if each is not None)

    def hold(self, queue: Queue, index: int) -> Held | None:
        """A message, leased again if the lease has ended; None when another client has it, or had it."""
        held = self.held[index]
        if held is not None and held.lease != self.leases[index]:
            held = self.held[index] = hold_again(queue, held.seq, held.priority, held.group)
            self.leases[index] = 0 if held is None else held.lease
        return held

    def let_go(self, queue: Queue) -> bool:
        """Let some more messages wait in the queue again; False after the last one."""
        for index in range(self.lapsed, min(self.lapsed + TURN, len(self.held))):
            held = self.held[index]
            if held is not None and held.lease == self.leases[index]:
                let_go(queue, held, held.lease)
                self.leases[index] = LAPSED
        self.lapsed += TURN
        return self.lapsed < len(self.held)


class ReaderGroup:
    """Readers of one queue under one name: how far they are, and what they have now."""

    def __init__(self, core: "Broker", queue: Queue, name: str, user: str) -> None:
        """Nothing is reserved. The group counts for the user that makes it; one of an older version for none ("")."""
        self._core = core
        self.queue = queue
        self.name = name
        self.user = user
        self.used_ms = core.now_ms
        self.position = 0
        self.last = 0
        self.lease_ms = 0
        self.current: Reservation | None = None
        self._done: Reservation | None = None
        """What the reader is done with, as long as some of it is to be acknowledged."""
        self._unkept = False
        self._busy = False
        self._alarm = Alarm(core.engine.timers, self._expire)

    @property
    def reserved(self) -> Reserved:
        current = self.current
        if current is None:
            return Reserved(self.position, self.position, 0, 0)
        return Reserved(self.position, current.number, len(current.held), current.bytes)

    @property
    def expires_ms(self) -> int | None:
        """When the lease ends unless it is renewed; None without one."""
        return self._alarm.when_ms if self.lease_ms and self.current is not None else None

    def reserve(self, start: int | None, count_max: int, bytes_max: int, lease_ms: int) -> Turns:
        """What comes after `start`, the same each time until a reader says that it is done (None: go on as it is)."""
        self._use()
        if start not in (None, self.position, self.last):
            raise PreconditionFailed(
                f"group '{self.name}' of queue '{self.queue.name}' is at {self.position}, not at {start}: another "
                "client reads under this name, the checkpoint is an older one, or an operator released the "
                "reservation; choose another group, or begin anew"
            )
        if self._busy:
            raise TooMany(f"another request reserves messages for group '{self.name}': ask again when that has ended")
        self._busy = True
        try:
            if start not in (None, self.position):
                self._done, self.current, self.position = self.current, None, self.last
                self._unkept = True
            if self.current is None:
                yield from self._finish()
                yield from self._fill(count_max, bytes_max)
            if self._unkept:
                self._keep(lease_ms)
            self.renew(lease_ms)
        finally:
            self._busy = False
        return self.reserved

    def renew(self, lease_ms: int) -> None:
        """Keep what is reserved for so long from now on; 0: until the reader moves on."""
        self._use()
        self.lease_ms = lease_ms
        self._alarm.stop()
        if self.current is not None and lease_ms:
            self.current.lapsed = 0
            self._alarm.set(self._core.now_ms + lease_ms)

    def messages(self, number: int, at: int, count: int) -> list[Held | None]:
        """Up to `count` of the messages under a number, from an index on; None for one that is gone."""
        current = self.current
        if current is None or current.number != number:
            raise NotFound(
                f"group '{self.name}' of queue '{self.queue.name}' has no reservation {number}: the reader has moved "
                "on, or an operator released it; reserve again"
            )
        indices = range(at, min(at + count, len(current.held)))
        if current.lapsed:
            self.renew(self.lease_ms)
        return [current.hold(self.queue, index) for index in indices]

    def forget(self) -> None:
        """Give back what is reserved, and journal that the group is gone."""
        self._expire(self._core.now_ms)
        self._core.undefine(Kind.RESERVATION, self._key())

    def restore(self, stored: dict[str, Any]) -> None:
        """Hold again what was held when the broker stopped."""
        self.position, self.last, self.lease_ms = stored["position"], stored["last"], stored["lease_ms"]
        packed = stored["messages"]
        if packed is not None:
            self.current = Reservation(self.last)
            self.current.packed = [packed] if isinstance(packed, str) else packed
            self.current.add([hold_again(self.queue, *row) for row in _unpacked(packed)])
            self.renew(self.lease_ms)

    def _use(self) -> None:
        self.used_ms = self._core.now_ms
        self.queue.use()

    def _check(self) -> None:
        """Refuse to go on in another turn with what went meanwhile."""
        if self.queue.deleted or self._core.reservations.find(self.queue, self.name) is not self:
            raise NotFound(f"group '{self.name}' of queue '{self.queue.name}' was deleted meanwhile: reserve again")

    def _finish(self) -> Iterator[None]:
        """Acknowledge what the reader is done with: what it holds, and what went back when its lease ended."""
        self._alarm.stop()
        done = self._done
        if done is None:
            return
        for index in range(len(done.held)):
            if index % TURN == TURN - 1:
                yield
                self._check()
            held = done.hold(self.queue, index)
            if held is not None:
                self.queue.ack(held, held.lease)
                done.held[index] = None
        self._done = None

    def _fill(self, count_max: int, bytes_max: int) -> Iterator[None]:
        while True:
            current = self.current
            count, size = (0, 0) if current is None else (len(current.held), current.bytes)
            most = min(TURN, count_max - count)
            taken = take_reserved(self.queue, most, bytes_max - size, self.name) if size < bytes_max else []
            if not taken:
                return
            if current is None:
                self.last = self.last + 1 if self.last else max(1, self._core.now_ms)
                current = self.current = Reservation(self.last)
            current.add(taken)
            current.packed.append(_packed(taken))
            self._unkept = True
            if len(taken) < TURN:
                return
            yield
            self._check()

    def _expire(self, now_ms: int) -> None:
        """The lease has ended: let the messages wait in the queue again, some in each turn."""
        current = self.current or self._done
        if current is not None and not self.queue.deleted and current.let_go(self.queue):
            self._alarm.set(now_ms + 1)

    def _keep(self, lease_ms: int) -> None:
        """Journal the group; that of a queue that does not last is forgotten with it."""
        self._unkept = False
        if self.queue.durable:
            packed = None if self.current is None else self.current.packed
            facts = {"position": self.position, "last": self.last, "lease_ms": lease_ms, "messages": packed}
            self._core.define(Kind.RESERVATION, {**self._key(), **facts, "owner": self.user})

    def _key(self) -> dict[str, str]:
        return {"vhost": self.queue.vhost, "queue": self.queue.name, "name": self.name}


class Reservations:
    """Every group that reads a queue by reservations."""

    def __init__(self, core: "Broker") -> None:
        self._core = core
        self._groups: dict[Key, ReaderGroup] = {}

    def restore(self) -> None:
        """Bring back the groups that the catalog has, before anybody else can take their messages."""
        for stored in self._core.catalog.of(Kind.RESERVATION):
            queue = self._core.topology.vhost(stored["vhost"]).queues.get(stored["queue"])
            if isinstance(queue, Queue):  # a salvaged log may have lost it
                group = ReaderGroup(self._core, queue, stored["name"], stored.get("owner", ""))
                self._groups[queue.id, stored["name"]] = group
                group.restore(stored)

    def __iter__(self) -> Iterator[ReaderGroup]:
        return iter(self._groups.values())

    def of(self, queue: Queue) -> list[ReaderGroup]:
        return [group for (number, _), group in self._groups.items() if number == queue.id]

    def find(self, queue: Queue, name: str) -> ReaderGroup | None:
        """A group, if it ever reserved something, or is about to."""
        return self._groups.get((queue.id, name))

    def get(self, queue: Queue, name: str) -> ReaderGroup:
        """A group that has reserved something."""
        group = self.find(queue, name)
        if group is None:
            raise NotFound(f"no group '{name}' reads queue '{queue.name}': reserve first")
        return group

    def reserve(
        self,
        queue: Queue,
        name: str,
        start: int | None,
        count_max: int,
        bytes_max: int,
        lease_ms: int = 0,
        user: str = "",
    ) -> Turns:
        """Reserve messages for a group, which is made for a user when it reserves the first ones; in turns."""
        _check("lease_ms", lease_ms or LEASE_MS_MIN, LEASE_MS_MIN, LEASE_MS_MAX)
        _check("the number of messages", count_max, 0, MESSAGES_MAX)
        _check("the number of bytes", bytes_max, 1, BYTES_MAX)
        _check("start", start or 0, 0, NUMBER_MAX)
        group = self.find(queue, name)
        if group is None:
            group = self._groups[queue.id, name] = self._new(queue, name, user)
        try:
            left = RESERVED_MAX - sum(each.reserved.messages for each in self._groups.values() if each is not group)
            if count_max and left <= 0 and group.current is None:
                raise TooMany(
                    f"{RESERVED_MAX} messages are reserved, which is the limit: release groups that no query uses"
                )
            return (yield from group.reserve(start, min(count_max, max(0, left)), bytes_max, lease_ms))
        finally:
            if not group.last:
                self._groups.pop((queue.id, name), None)

    def delete(self, queue: Queue, name: str) -> ReaderGroup:
        """Forget a group; what it had reserved goes back to the queue."""
        group = self.get(queue, name)
        del self._groups[queue.id, name]
        group.forget()
        return group

    def delete_queue(self, queue: Queue) -> None:
        """Forget every group of a queue that is about to go."""
        for group in self.of(queue):
            self.delete(queue, group.name)

    def _new(self, queue: Queue, name: str, user: str) -> ReaderGroup:
        """A group that has not read anything."""
        if queue.policy.queue_type == "stream":
            raise NotSupported(f"'{queue.name}' is a stream: read it by its offsets, which needs no reservation")
        check_new_name("group", name)
        of_user = [group for group in self._groups.values() if user and group.user == user]
        here = sum(group.queue is queue for group in of_user)
        for count, most, whose in (
            (here, GROUPS_USER_QUEUE_MAX, f"of user '{user}' on queue '{queue.name}'"),
            (len(self.of(queue)), GROUPS_QUEUE_MAX, f"of queue '{queue.name}'"),
            (len(of_user), GROUPS_USER_MAX, f"of user '{user}'"),
            (len(self._groups), GROUPS_MAX, "of all queues"),
        ):
            if count >= most:
                raise TooMany(
                    f"there are {count} reservation groups {whose}, and the limit is {most}: delete those that no "
                    "query uses any more (GET and DELETE /queues/{queue}/reservations)"
                )
        return ReaderGroup(self._core, queue, name, user)


def _check(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidArgument(f"{what} is {least} to {most}, not {value}")


def _packed(taken: Sequence[Held]) -> str:
    """Messages as the journal has them: mostly each number is the next one, so that little is left of a thousand."""
    seqs = [0, *(held.seq for held in taken)]
    rows = [
        _MESSAGE.pack(seq - before, held.group, held.priority)
        for held, (before, seq) in zip(taken, pairwise(seqs), strict=True)
    ]
    return base64.b64encode(zlib.compress(b"".join(rows), 1)).decode()


def _unpacked(packed: str | list[str]) -> Iterator[tuple[int, int, int]]:
    """Number, priority and group of each message; older versions wrote one text, with whole numbers."""
    for text in [packed] if isinstance(packed, str) else packed:
        seq = 0
        for number, group, priority in _MESSAGE.iter_unpack(zlib.decompress(base64.b64decode(text))):
            seq = number if isinstance(packed, str) else seq + number
            yield seq, priority, group
