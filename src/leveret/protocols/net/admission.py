"""Budgets of connections: of a protocol, of one address, and of clients that have not authenticated.

    enter -> Slot, half open -> authenticate -> leave
                  `-> evicted: closed because a newer connection needs its place

Each protocol (AMQP, HTTP, SQS) has an Admission of its own, so that sockets of one do not close the others. A half-open
connection never keeps a new one out: the oldest of the address that has the most of them is closed instead. A client
that means well has authenticated long before it is that one. An address is an address of IPv4 or a /64 of IPv6.
"""

import sys
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Self

from leveret.config import ServerOptions
from leveret.observability.logs import Log
from leveret.protocols.net.addresses import with_port
from leveret.security.peers import origin

RESERVE_MAX = 64  # connections to the health checks beyond the budget of HTTP

LOG = Log("net")


class Slot:
    """The place of one connection in a budget. Its methods may be called again without effect."""

    __slots__ = ("_admission", "authenticated", "evict", "is_held", "origin", "peer", "reserved")

    def __init__(self, admission: "ConnectionBudget", origin: str, peer: str, reserved: bool) -> None:
        """A connection that has not authenticated; the server that accepted it sets `evict`, which closes it."""
        self._admission = admission
        self.origin = origin
        self.peer = peer
        self.reserved = reserved
        self.authenticated = False
        self.is_held = True
        self.evict: Callable[[], None] = _nothing

    def authenticate(self) -> None:
        if not self.authenticated:
            self.authenticated = True
            self._admission.authenticated(self)

    def leave(self) -> None:
        if self.is_held:
            self.is_held = False
            self.evict = _nothing  # it refers to the connection, which refers to this slot: only gc would free them
            self._admission.left(self)


def _nothing() -> None:
    """A connection that nothing was opened for yet."""


class Crowd:
    """Slots by origin, in the order in which they came; every operation takes the same time, however many there are."""

    def __init__(self) -> None:
        self._by_origin: dict[str, dict[Slot, None]] = {}
        self._by_count: dict[int, dict[str, None]] = {}
        self._count_max = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def count(self, origin: str) -> int:
        return len(self._by_origin.get(origin, ()))

    def add(self, slot: Slot) -> None:
        slots = self._by_origin.setdefault(slot.origin, {})
        slots[slot] = None
        self._count += 1
        self._rank(slot.origin, len(slots) - 1, len(slots))

    def discard(self, slot: Slot) -> None:
        slots = self._by_origin.get(slot.origin, {})
        if slot in slots:
            del slots[slot]
            self._count -= 1
            if not slots:
                del self._by_origin[slot.origin]
            self._rank(slot.origin, len(slots) + 1, len(slots))

    def oldest(self, origin: str | None = None) -> Slot | None:
        """The oldest slot of an origin; by default, of the one that has the most."""
        if origin is None:
            origin = next(iter(self._by_count.get(self._count_max, ())), None)
        return next(iter(self._by_origin.get(origin or "", ())), None)

    def _rank(self, origin: str, before: int, after: int) -> None:
        """An origin has one slot more, or one less."""
        if before:
            del self._by_count[before][origin]
            if not self._by_count[before]:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[origin] = None
        if after > self._count_max or self._count_max not in self._by_count:
            self._count_max = after


class ConnectionBudget:
    """The budget of one protocol."""

    def __init__(
        self,
        connections_max: int,
        per_ip_max: int,
        half_open_max: int,
        half_open_per_ip_max: int | None = None,
        *,
        listener: str = "",
        reserve_max: int = 0,
    ) -> None:
        """Start without connections. `reserve_max` connections beyond the budget get slots that say so."""
        self.connections_max = connections_max
        self._per_ip_max = per_ip_max
        self._half_open_max = half_open_max
        self._half_open_per_ip_max = half_open_max if half_open_per_ip_max is None else half_open_per_ip_max
        self._reserve_max = reserve_max
        self._by_origin: Counter[str] = Counter()
        self._half_open = Crowd()
        self._reserve = Crowd()
        self.connections = 0
        self.listener = listener
        self.refused = LOG.limited("connection refused", listener=listener)
        self.evicted = LOG.limited("connection evicted", listener=listener)
        self.close_idle: Callable[[], bool] = lambda: False
        """Closes a connection that has authenticated and that nothing is done for; False when there is none."""
        self.siblings: tuple[ConnectionBudget, ...] = (self,)
        """The budgets of all protocols of the process, which share its file descriptors."""
        self.sockets_max = sys.maxsize
        """Connections of all of them: the other descriptors are for the reserve, the journal and whatever else."""

    @property
    def half_open(self) -> int:
        return len(self._half_open)

    @property
    def reserved(self) -> int:
        """How many connections there are beyond the budget."""
        return len(self._reserve)

    @property
    def files_max(self) -> int:
        return self.connections_max + self._reserve_max

    def enter(self, host: str, port: int) -> Slot | None:
        """The slot of a new connection; None when it is refused."""
        key, peer = origin(host), with_port(host, port)
        reason = self._full(key)
        if reason is not None and not self._reserve_max:
            self.refused.note(peer=peer, reason=reason)
            return None
        slot = Slot(self, key, peer, reason is not None)
        if slot.reserved:
            if self.reserved >= self._reserve_max:
                self._evict(self._reserve.oldest(), f"the reserve ({self._reserve_max}) is used up")
            self._reserve.add(slot)
            return slot
        if self._half_open.count(key) >= self._half_open_per_ip_max:
            self._evict(self._half_open.oldest(key), f"half_open_per_ip_max ({self._half_open_per_ip_max}) is reached")
        if self.half_open >= self._half_open_max:
            self._evict(self._half_open.oldest(), f"half_open_max ({self._half_open_max}) is reached")
        self._half_open.add(slot)
        self._by_origin[key] += 1
        self.connections += 1
        return slot

    def _full(self, key: str) -> str | None:
        """Why there is no place for one more connection, even when a half-open one is closed for it."""
        if sum(each.connections for each in self.siblings) >= self.sockets_max and not self.make_room():
            return f"{self.sockets_max} sockets are open: raise LimitNOFILE"
        if self._by_origin[key] >= self._per_ip_max:
            reason = f"connections_per_ip_max ({self._per_ip_max}) is reached"
            if not self._evict(self._half_open.oldest(key), reason):
                return reason
        if self.connections >= self.connections_max:
            reason = f"connections_max ({self.connections_max}) is reached"
            if not self._evict(self._half_open.oldest(), reason):
                return reason
        return None

    def make_room(self) -> bool:
        """Close a connection because the process has too few file descriptors; False when none can be spared."""
        reason = "too few file descriptors are left"
        for each in sorted(self.siblings, key=lambda each: each.half_open, reverse=True):
            if each._evict(each._half_open.oldest(), reason):
                return True
        return any(each.close_idle() for each in self.siblings)

    def _evict(self, slot: Slot | None, reason: str) -> bool:
        if slot is None:
            return False
        self.evicted.note(peer=slot.peer, reason=reason)
        evict = slot.evict
        slot.leave()
        evict()
        return True

    # From slots

    def authenticated(self, slot: Slot) -> None:
        """A client has authenticated; in the reserve that changes nothing."""
        self._half_open.discard(slot)

    def left(self, slot: Slot) -> None:
        if slot.reserved:
            self._reserve.discard(slot)
            return
        self._half_open.discard(slot)
        self.connections -= 1
        self._by_origin[slot.origin] -= 1
        if not self._by_origin[slot.origin]:
            del self._by_origin[slot.origin]


class Admissions(NamedTuple):
    """The budgets of a server."""

    amqp: ConnectionBudget
    http: ConnectionBudget
    sqs: ConnectionBudget

    @classmethod
    def of(cls, options: ServerOptions) -> Self:
        """What the options allow each protocol."""
        limits = (
            options.connections_max,
            options.connections_per_ip_max,
            options.half_open_max,
            options.half_open_per_ip_max,
        )
        made = cls(
            ConnectionBudget(*limits, listener="amqp"),
            ConnectionBudget(*limits, listener="http", reserve_max=RESERVE_MAX),
            ConnectionBudget(*limits, listener="sqs"),
        )
        for each in made:
            each.siblings = tuple(made)
        return made

    @property
    def files_max(self) -> int:
        """How many sockets may be open, of all protocols."""
        return sum(each.files_max for each in self)

    def share(self, sockets_max: int) -> None:
        """Let all protocols together have so many connections, because there are few file descriptors."""
        for each in self:
            each.sockets_max = sockets_max
