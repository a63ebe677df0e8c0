"""Reservations: messages of a queue that a group of readers has for itself, and may read as often as it likes.

    reserve(start=0)  -> end 1     messages are leased under number 1
    reserve(start=0)  -> end 1     the same ones: the answer was lost, or the reader began anew
    messages(1, ...)               tasks that are repeated, or run twice, read the same
    reserve(start=1)  -> end 2     what was reserved under 1 is acknowledged, the next messages are leased

So `start` says up to where the reader is done, and a queue can be read like a log by one whose only memory is the last
number that it is done with. A group has one reservation at a time. It is a definition of the core and durable before
it is answered: after a restart the same messages are held for it again. A reader that does not renew it in time loses
it: its messages go back to the queue, and reading it is refused.

A group that has never reserved a message is not kept: it is the same as one that does not exist. One that has is kept
until it is deleted, however long it is idle: its numbers are the offsets in the checkpoint of a query, and that query
could neither go on nor know what it has read if they began anew.
"""

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core.catalog import Kind
from leveret.core.claims import hold_again, let_go, take_reserved
from leveret.core.errors import InvalidArgument, InvalidReceipt, NotFound, NotSupported, PreconditionFailed, TooMany
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
MESSAGES_MAX = 100_000
BYTES_MAX = 1 << 30
LEASE_MS = 60_000
LEASE_MS_MIN = 1_000
"""A shorter one ends by a pause of the garbage collector."""
LEASE_MS_MAX = 86_400_000
NUMBER_MAX = (1 << 63) - 1

_MESSAGE = struct.Struct("<QQB")

Key = tuple[int, str]


class Reserved(NamedTuple):
    """What a reader has: the messages between two numbers; as many as `start` and `end` are apart, if there are any."""

    start: int
    end: int
    messages: int
    bytes: int


class Reservation:
    """The messages of one group under one number; a message that is not there any more leaves a gap."""

    __slots__ = ("held", "leases", "number")

    def __init__(self, number: int, held: list[Held | None]) -> None:
        self.number = number
        self.held = held
        self.leases = [0 if each is None else each.lease for each in held]

    def leased(self) -> Iterator[tuple[Held, int]]:
        """The messages that are still leased by this reservation."""
        for held, lease in zip(self.held, self.leases, strict=True):
            if held is not None and held.lease == lease:
                yield held, lease

    @property
    def bytes(self) -> int:
        """Their records together."""
        return sum(held.size for held, _ in self.leased())


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
        self.lease_ms = LEASE_MS
        self.current: Reservation | None = None
        self._alarm = Alarm(core.engine.timers, self._expire)

    @property
    def reserved(self) -> Reserved:
        current = self.current
        if current is None:
            return Reserved(self.position, self.position, 0, 0)
        return Reserved(self.position, current.number, len(current.held), current.bytes)

    @property
    def expires_ms(self) -> int | None:
        """When the reservation ends unless it is renewed."""
        return None if self.current is None else self._alarm.when_ms

    def reserve(self, start: int | None, count_max: int, bytes_max: int, lease_ms: int) -> Reserved:
        """What comes after `start`, the same each time until a reader says that it is done (None: go on as it is)."""
        current = self.current
        self.used_ms = self._core.now_ms
        if start in (None, self.position) and current is not None:
            self.renew(lease_ms)
            return self.reserved
        if start not in (None, self.position, self.last):
            raise PreconditionFailed(
                f"group '{self.name}' of queue '{self.queue.name}' is at {self.position}, not at {start}: another "
                "client reads under this name, or the checkpoint is an older one; choose another group, or begin anew"
            )
        done = start not in (None, self.position)
        if done:
            self._finish()
        taken: list[Held | None] = [*take_reserved(self.queue, count_max, bytes_max, self.name)]
        if taken:
            self.last += 1
            self.current = Reservation(self.last, taken)
            self.lease_ms = lease_ms
            self._alarm.set(self._core.now_ms + lease_ms)
        if taken or done:
            self._keep()
        return self.reserved

    def renew(self, lease_ms: int) -> None:
        """Keep what is reserved for so long from now on."""
        if self.current is None:
            raise self._ended(self.last)
        self.queue.use()
        self.used_ms = self._core.now_ms
        self.lease_ms = lease_ms
        self._alarm.set(self._core.now_ms + lease_ms)

    def messages(self, number: int, at: int, count: int) -> list[Held | None]:
        """Up to `count` of the messages under a number, from an index on; None for one that is gone."""
        if self.current is None or self.current.number != number:
            raise self._ended(number)
        return self.current.held[at : at + count]

    def forget(self) -> None:
        """Give back what is reserved, and journal that the group is gone."""
        self._give_back()
        self._core.undefine(Kind.RESERVATION, self._key())

    def restore(self, stored: dict[str, Any]) -> None:
        """Hold again what was held when the broker stopped."""
        self.position, self.last, self.lease_ms = stored["position"], stored["last"], stored["lease_ms"]
        if stored["messages"] is not None:
            rows = _MESSAGE.iter_unpack(zlib.decompress(base64.b64decode(stored["messages"])))
            held = [hold_again(self.queue, seq, priority, group) for seq, group, priority in rows]
            self.current = Reservation(self.last, held)
            self._alarm.set(self._core.now_ms + self.lease_ms)

    def _finish(self) -> None:
        """The reader is done with the last reservation."""
        current, self.current = self.current, None
        self.position = self.last
        self._alarm.stop()
        if current is not None:
            for held, lease in current.leased():
                self.queue.ack(held, lease)

    def _give_back(self) -> None:
        """Let the messages of the reservation wait in the queue again."""
        current, self.current = self.current, None
        self._alarm.stop()
        if current is not None:
            for held, lease in current.leased():
                let_go(self.queue, held, lease)

    def _expire(self, now_ms: int) -> None:
        self._give_back()
        self._keep()

    def _ended(self, number: int) -> Exception:
        """What to say about a reservation that is not there."""
        if number > self.position:
            return InvalidReceipt(
                f"reservation {number} of group '{self.name}' was not renewed in time: its messages went back to queue "
                f"'{self.queue.name}'; reserve again, with a longer lease if need be"
            )
        return NotFound(f"group '{self.name}' of queue '{self.queue.name}' has no reservation {number}: reserve again")

    def _keep(self) -> None:
        """Journal the group; that of a queue that does not last is forgotten with it."""
        if not self.queue.durable:
            return
        packed = None
        if self.current is not None:
            rows = [_MESSAGE.pack(held.seq, held.group, held.priority) for held, _ in self.current.leased()]
            packed = base64.b64encode(zlib.compress(b"".join(rows), 1)).decode()
        facts = {"position": self.position, "last": self.last, "lease_ms": self.lease_ms, "messages": packed}
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

    def of(self, queue: Queue) -> list[ReaderGroup]:
        return [group for (number, _), group in self._groups.items() if number == queue.id]

    def find(self, queue: Queue, name: str) -> ReaderGroup | None:
        """A group, if it ever reserved something."""
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
        lease_ms: int = LEASE_MS,
        user: str = "",
    ) -> Reserved:
        """Reserve messages for a group, which is made for a user when it reserves the first ones."""
        _check("lease_ms", lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)
        _check("the number of messages", count_max, 0, MESSAGES_MAX)
        _check("the number of bytes", bytes_max, 1, BYTES_MAX)
        _check("start", start or 0, 0, NUMBER_MAX)
        group = self.find(queue, name)
        if group is None:
            group = self._new(queue, name, user)
        reserved = group.reserve(start, count_max, bytes_max, lease_ms)
        if group.last:
            self._groups[queue.id, name] = group
        return reserved

    def delete(self, queue: Queue, name: str) -> None:
        """Forget a group; what it had reserved goes back to the queue."""
        self.get(queue, name).forget()
        del self._groups[queue.id, name]

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
    """Refuse a number that is out of range."""
    if not least <= value <= most:
        raise InvalidArgument(f"{what} is {least} to {most}, not {value}")
