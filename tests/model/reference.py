"""The broker as lists and dicts: slow, obvious, and what the real one must agree with."""

from dataclasses import dataclass, field

NEVER = 1 << 62


@dataclass
class Rules:
    """The arguments of a queue."""

    max_priority: int = 0
    ttl_ms: int = NEVER
    max_length: int = NEVER
    rejects: bool = False
    max_receives: int = NEVER
    dead_letters: str | None = None
    delay_ms: int = 0
    window_ms: int = 300_000
    grouped: bool = False
    # One receive takes all that it can of a group before it goes on to the next group.
    batched: bool = False
    # Dead letters of the same millisecond come in any order.
    ordered: bool = True


@dataclass
class Item:
    """A message in a queue."""

    body: str
    number: int
    priority: int
    ready_ms: int
    expiry_ms: int
    persistent: bool
    deliveries: int = 0
    leased: bool = False
    hidden_until_ms: int = 0
    lease_until_ms: int = NEVER
    scheduled: bool = False
    group: int = 0
    died_in: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        return not self.leased and not self.hidden_until_ms

    @property
    def place(self) -> tuple[int, int, int]:
        return -self.priority, self.ready_ms, self.number


@dataclass
class Line:
    """A queue."""

    rules: Rules
    items: list[Item] = field(default_factory=list)
    keys: dict[bytes, int] = field(default_factory=dict)
    paused: bool = False

    def ready(self) -> list[Item]:
        return sorted((item for item in self.items if item.ready), key=lambda item: item.place)

    def next(self, batch: list[Item]) -> list[Item]:
        """The messages of which each may be the next; the first in order, where there is an order.

        A group in flight gives no message that was never received; one that was received and came back is given
        again when no message before it is in flight. `batch`: what the same receive has taken already.
        """
        ready = [] if self.paused else self.ready()
        if not self.rules.grouped:
            return ready[:1] if self.rules.ordered else ready
        mine = batch if self.rules.batched else []
        firsts: dict[int, Item] = {}
        for item in ready:
            firsts.setdefault(item.group, item)
        allowed = {group: item for group, item in firsts.items() if self.may_go(item, mine)}
        same = mine[-1].group if mine else 0
        return [allowed[same]] if same in allowed and same else list(allowed.values())

    def may_go(self, item: Item, mine: list[Item]) -> bool:
        """Whether the first message of a group can be received beside what is in flight of it."""
        in_flight = [
            other for other in self.items
            if other.group == item.group and other not in mine
            and (other.leased or (other.hidden_until_ms and not other.scheduled))
        ]  # fmt: skip
        return item.group == 0 or not in_flight or (
            item.deliveries > 0 and item.place < min(other.place for other in in_flight)
        )  # fmt: skip


class Reference:
    """Queues by name, and the time."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.lines: dict[str, Line] = {}
        self.sent = 0

    def send(
        self, names: list[str], body: str, priority: int = 0, ttl_ms: int = 0, delay_ms: int = 0,
        key: bytes | None = None, persistent: bool = True, group: int = 0, died_in: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Publish to the queues that take it."""
        self.sent += 1
        for name in names:
            line = self.lines[name]
            rules = line.rules
            if rules.rejects and len(line.ready()) >= rules.max_length:
                continue
            if key is not None:
                if line.keys.get(key, -NEVER) > self.now_ms - rules.window_ms:
                    continue
                line.keys[key] = self.now_ms
            delay = delay_ms or rules.delay_ms
            life = min(rules.ttl_ms, ttl_ms or NEVER)
            item = Item(
                body, self.sent, min(priority, rules.max_priority), self.now_ms + delay,
                self.now_ms + max(life, 1), persistent, group=group if rules.grouped else 0, died_in=died_in,
            )  # fmt: skip
            line.items.append(item)
            if delay:
                item.scheduled, item.hidden_until_ms = True, item.ready_ms
            else:
                self.trim(name)

    def trim(self, name: str) -> None:
        """Drop the oldest of the lowest priority while there are too many."""
        line = self.lines[name]
        while not line.rules.rejects and len(line.ready()) > line.rules.max_length:
            self.die(name, min(line.ready(), key=lambda item: (item.priority, item.ready_ms, item.number)), "maxlen")

    def die(self, name: str, item: Item, reason: str) -> None:
        """Remove a message, and send it to where its queue sends its dead."""
        line = self.lines[name]
        line.items.remove(item)
        target = line.rules.dead_letters
        deaths = () if reason == "rejected" else (*item.died_in, name)
        if target is not None and target not in deaths:
            self.send([target], item.body, item.priority, persistent=item.persistent, died_in=deaths)

    def take(self, name: str, bodies: list[str], count: int, lease_ms: int) -> None:
        """Lease what the broker leased, if that was right."""
        line = self.lines[name]
        batch: list[Item] = []
        for body in bodies:
            item = next(item for item in line.next(batch) if item.body == body)
            item.leased, item.lease_until_ms = True, self.now_ms + lease_ms
            item.deliveries += 1
            batch.append(item)
        assert len(bodies) == count or not line.next(batch), f"{name} kept {line.next(batch)} back"

    def give_back(self, name: str, item: Item, delay_ms: int) -> None:
        """End a lease without settling."""
        item.leased, item.lease_until_ms = False, NEVER
        if item.deliveries >= self.lines[name].rules.max_receives:
            self.die(name, item, "delivery_limit")
        elif item.expiry_ms <= self.now_ms:
            self.die(name, item, "expired")
        elif delay_ms:
            item.hidden_until_ms = self.now_ms + delay_ms

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, one millisecond after the other."""
        for _ in range(duration_ms):
            self.now_ms += 1
            self.happen()

    def happen(self) -> None:
        """Do what is due now."""
        for name, line in self.lines.items():
            for item in [each for each in line.items if each.leased and each.lease_until_ms <= self.now_ms]:
                self.give_back(name, item, 0)
            for item in [each for each in line.items if 0 < each.hidden_until_ms <= self.now_ms]:
                entered, item.hidden_until_ms, item.scheduled = item.scheduled, 0, False
                if entered:
                    self.trim(name)
            for item in [each for each in line.items if each.ready and each.expiry_ms <= self.now_ms]:
                self.die(name, item, "expired")

    def crash(self) -> None:
        """Leases end, what was in memory only is gone; back-offs and schedules stay."""
        for line in self.lines.values():
            line.items = [item for item in line.items if item.persistent]
            for item in line.items:
                item.leased, item.lease_until_ms = False, NEVER
