"""Small random workloads: what a broker may ask of its journal, a few steps of it.

Most bugs of crash recovery need no more than three operations, so many short runs find more than a few long ones.
Segments are tiny, so that rolling and compaction happen within a few steps.
"""

from collections.abc import Callable
from random import Random

from tests.sim.checker import Held
from tests.sim.world import JournalWorld

QUEUES = range(1, 13)
FAN_OUTS = (1, 1, 1, 2, 3, 9, 12)
"""More than eight queues need a second fan-out entry."""
BODY_BYTES = (0, 30, 30, 700, 1_100, 1_500)
"""Within a sector, over a few; the largest fill a segment."""
DEFINITIONS = (b"queue a", b"queue b", b"exchange c")
DIGESTS = tuple(bytes([n]) * 16 for n in range(4))


def publish(world: JournalWorld, rng: Random) -> None:
    """A message enters some queues, unless the disk is full."""
    if world.node.full:
        return
    queues = sorted(rng.sample(QUEUES, rng.choice(FAN_OUTS)))
    held = Held(
        content=rng.randbytes(rng.choice(BODY_BYTES)),
        priority=rng.choice((0, 0, 9)),
        expiry_ms=rng.choice((0, 0, 5_000)),
        deliveries=0,
        due_ms=rng.choice((0, 0, 7_000)),
    )
    seq = world.history.last_seq = world.node.publish(queues, held)
    for queue in queues:
        world.history.messages[queue, seq] = held


def deliver(world: JournalWorld, rng: Random) -> None:
    """A consumer takes a message."""
    for queue, seq in chosen(world, rng, 1):
        held = world.history.messages[queue, seq]
        world.node.deliver(queue, seq)
        world.history.messages[queue, seq] = held._replace(deliveries=held.deliveries + 1)


def give_back(world: JournalWorld, rng: Random) -> None:
    """A message goes back to its queue, now or later."""
    for queue, seq in chosen(world, rng, 1):
        due_ms = rng.choice((0, 9_000))
        world.node.give_back(queue, seq, due_ms)
        world.history.messages[queue, seq] = world.history.messages[queue, seq]._replace(due_ms=due_ms)


def settle(world: JournalWorld, rng: Random) -> None:
    """Messages leave their queues; neighbours share an entry."""
    for queue, seq in chosen(world, rng, rng.choice((1, 1, 2, 30))):
        world.node.settle(queue, seq)
        del world.history.messages[queue, seq]


def purge(world: JournalWorld, rng: Random) -> None:
    """A queue is emptied, but for a few messages that are out with consumers."""
    for queue, _ in chosen(world, rng, 1):
        held = sorted(seq for place, seq in world.history.messages if place == queue)
        keep = rng.sample(held, rng.randrange(len(held)))
        world.node.purge(queue, keep)
        for seq in set(held).difference(keep):
            del world.history.messages[queue, seq]


def define(world: JournalWorld, rng: Random) -> None:
    """A queue or an exchange is declared."""
    payload = rng.choice(DEFINITIONS)
    world.node.define(payload)
    world.history.definitions.add(payload)


def deduplicate(world: JournalWorld, rng: Random) -> None:
    """A publish key is taken."""
    queue, digest, seq = rng.choice(QUEUES[:2]), rng.choice(DIGESTS), rng.randrange(1, 1_000)
    world.node.deduplicate(queue, digest, seq)
    world.history.dedup[queue, digest] = seq


def commit(world: JournalWorld, rng: Random) -> None:
    """Everything so far becomes durable."""
    world.durably(world.node.commit)


def checkpoint(world: JournalWorld, rng: Random) -> None:
    """The state is written beside the log."""
    world.durably(world.node.checkpoint)


def compact(world: JournalWorld, rng: Random) -> None:
    """The oldest segment goes, when little of it is alive."""
    world.durably(world.node.compact)


def reopen(world: JournalWorld, rng: Random) -> None:
    """The broker is closed and opened again."""
    world.reopen()


def chosen(world: JournalWorld, rng: Random, count: int) -> list[tuple[int, int]]:
    """Some live messages: a run from a random one on."""
    held = sorted(world.history.messages)
    if not held:
        return []
    start = rng.randrange(len(held))
    return held[start : start + count]


VERBS: dict[Callable[[JournalWorld, Random], None], int] = {
    publish: 10,
    deliver: 3,
    give_back: 2,
    settle: 6,
    purge: 1,
    define: 1,
    deduplicate: 1,
    commit: 12,
    checkpoint: 1,
    compact: 4,
    reopen: 1,
}


def run(world: JournalWorld, rng: Random, steps: int) -> None:
    """Do some random steps, and make them durable."""
    for verb in rng.choices(list(VERBS), list(VERBS.values()), k=steps):
        verb(world, rng)
    commit(world, rng)
