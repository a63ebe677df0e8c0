"""Small random workloads of broker verbs: definitions, messages in and out, time, and what the journal does.

Queues are of the kinds that behave differently; their limits and times are so small that a few steps reach them.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from leveret.core import browse
from leveret.core.dedup import digest
from leveret.core.definition_log import Kind
from leveret.core.errors import DiskFull, InvalidReceipt, NotFound, PreconditionFailed, QueueFull
from leveret.core.policy import Policy
from leveret.core.properties import Properties, content
from leveret.core.publish import group_key
from leveret.core.queue import Queue
from tests.sim.broker_checker import FANNED_OUT, TOKEN_BYTES
from tests.sim.broker_node import Lease
from tests.sim.world import BrokerWorld

VHOSTS = ("/", "/", "/", "other")
DEAD_LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
QUEUES: dict[str, dict[str, Any]] = {
    "dead": {},
    "plain": {},
    "priority": {"x-max-priority": 5},
    "ttl": {"x-message-ttl": 60, **DEAD_LETTERS},
    "short": {"x-max-length": 3, **DEAD_LETTERS},
    "rejecting": {"x-max-length": 2, "x-overflow": "reject-publish"},
    "limited": {"x-delivery-limit": 1, **DEAD_LETTERS},
    "retrying": {"x-retry-backoff": [20, 60], "x-max-receive-count": 3, "x-visibility-timeout": 50, **DEAD_LETTERS},
    "delayed": {"x-delay": 40},
    "ordered": {"x-message-groups": "fifo", "x-visibility-timeout": 30},
    "fair": {"x-message-groups": "fair", "x-max-priority": 2, "x-priority-mode": "ageing"},
    "keyed": {"x-deduplication-window": 100},
    "idle": {"x-expires": 120},
    "retained": {"x-retention": 90},
    "dying": {"x-message-ttl": 30, "x-dead-letter-exchange": "all"},
}
TRANSIENT = "transient"
EXCHANGES: dict[str, dict[str, Any]] = {
    "all": {"type": "fanout"},
    "some": {"type": "topic"},
    "brief": {"type": "fanout", "auto_delete": True},
    "later": {"type": "x-delayed-message", "arguments": {"x-delayed-type": "fanout"}},
}
POLICIES = (
    Policy("life", "^p", definition={"message-ttl": 80}),
    Policy("life", ".*", priority=1, definition={"message-ttl": 150, "dead-letter-exchange": "all"}),
    Policy("length", "^(plain|fair|dead)$", definition={"max-length": 4}),
    Policy("length", "ed$", definition={"max-length": 6}, operator=True),
)
GROUPS = ("", "a", "a", "b")
KEYS = ("one", "two", "three")
CONSUMERS = (None, None, "first", "second")
BODY_BYTES = (0, 20, 20, 200, 700, 1_100)
REFUSALS = (QueueFull, DiskFull, InvalidReceipt, PreconditionFailed, NotFound)
"""What a verb may answer instead of doing something."""


class Body(NamedTuple):
    """A message to send."""

    wire: bytes
    header_len: int


def declare(world: BrokerWorld, rng: Random) -> None:
    """A queue is declared, perhaps once more."""
    name = rng.choice([*QUEUES, TRANSIENT])
    durable = name != TRANSIENT
    world.node.broker.declare_queue(vhost(world, rng), name, QUEUES.get(name), durable=durable)


def delete(world: BrokerWorld, rng: Random) -> None:
    """A queue goes with all that is in it."""
    for queue in some_queue(world, rng):
        world.node.broker.delete_queue(queue)


def pause(world: BrokerWorld, rng: Random) -> None:
    """A queue stops handing out, or goes on."""
    for queue in some_queue(world, rng):
        world.node.broker.pause_queue(queue, not queue.paused)


def declare_vhost(world: BrokerWorld, rng: Random) -> None:
    """A second virtual host comes."""
    world.node.broker.declare_vhost("other")


def delete_vhost(world: BrokerWorld, rng: Random) -> None:
    """It goes with everything in it."""
    if "other" in world.node.broker.topology.vhosts:
        world.node.broker.delete_vhost("other")


def define_access(world: BrokerWorld, rng: Random) -> None:
    """A user comes or changes, and may do something in the second virtual host if there is one."""
    broker = world.node.broker
    broker.define(Kind.USER, {"name": "ada", "tags": [str(rng.random())]})
    if "other" in broker.topology.vhosts:
        broker.define(Kind.PERMISSION, {"user": "ada", "vhost": "other", "read": str(rng.random())})


def undefine_access(world: BrokerWorld, rng: Random) -> None:
    """The user goes; his permissions are somebody else's concern."""
    world.node.broker.undefine(Kind.USER, {"name": "ada"})


def declare_exchange(world: BrokerWorld, rng: Random) -> None:
    """An exchange is declared, and bound to a queue."""
    name = rng.choice(list(EXCHANGES))
    world.node.broker.declare_exchange(vhost(world, rng), name, **EXCHANGES[name])
    bind(world, rng)


def delete_exchange(world: BrokerWorld, rng: Random) -> None:
    """An exchange goes with its bindings."""
    world.node.broker.delete_exchange(vhost(world, rng), rng.choice(list(EXCHANGES)))


def bind(world: BrokerWorld, rng: Random) -> None:
    """A queue is bound to an exchange."""
    for queue in some_queue(world, rng):
        world.node.broker.bind(queue.vhost, rng.choice(list(EXCHANGES)), queue.name, rng.choice(("a", "a.#", "*.b")))


def unbind(world: BrokerWorld, rng: Random) -> None:
    """A binding goes."""
    home = world.node.broker.topology.vhost(vhost(world, rng))
    for binding in rng.sample(list(home.bindings()), k=min(1, len(list(home.bindings())))):
        world.node.broker.unbind(home.name, binding.source, binding.destination.name, binding.key)


def set_policy(world: BrokerWorld, rng: Random) -> None:
    """A policy comes or changes."""
    world.node.broker.set_policy(vhost(world, rng), rng.choice(POLICIES))


def delete_policy(world: BrokerWorld, rng: Random) -> None:
    """A policy goes."""
    policy = rng.choice(POLICIES)
    world.node.broker.delete_policy(vhost(world, rng), policy.name, policy.operator)


def send(world: BrokerWorld, rng: Random) -> None:
    """A message goes straight to a queue."""
    node = world.node
    for queue in some_queue(world, rng):
        body = some_body(rng)
        persistent = rng.random() < 0.95
        key = digest(rng.choice(KEYS)) if queue.name == "keyed" or rng.random() < 0.05 else None
        seq = node.broker.send(
            queue,
            *body,
            priority=rng.choice((0, 0, 3, 9)),
            persistent=persistent,
            expiry_ms=node.now_ms + rng.choice((20, 70)) if rng.random() < 0.2 else 0,
            due_ms=node.now_ms + rng.choice((10, 90)) if rng.random() < 0.2 else 0,
            group=some_group(rng),
            key=key,
        )
        if persistent and queue.durable:
            node.last_seq = max(node.last_seq, seq)


def send_many(world: BrokerWorld, rng: Random) -> None:
    """Some small messages go to a queue at once."""
    for queue in some_queue(world, rng):
        header_len = len(content(Properties(), b"")[0])
        bodies = [rng.randbytes(TOKEN_BYTES) for _ in range(rng.randrange(2, 6))]
        header = content(Properties(), bodies[0])[0][:header_len]
        world.node.broker.send_many(queue, header, bodies, group=some_group(rng))


def fan_out(world: BrokerWorld, rng: Random) -> None:
    """A message goes through an exchange to the queues that are bound to it."""
    node = world.node
    delay = {"x-delay": rng.choice((0, 30))} if rng.random() < 0.3 else {}
    node.broker.publish_through(
        vhost(world, rng),
        rng.choice(list(EXCHANGES)),
        rng.choice(("a", "a.b")),
        Properties(headers={"kind": "fan", **delay}),
        rng.randbytes(rng.choice(BODY_BYTES)) + FANNED_OUT,
        priority=rng.choice((0, 1, 7)),
        expiry_ms=node.now_ms + 50 if rng.random() < 0.2 else 0,
        due_ms=node.now_ms + 40 if rng.random() < 0.1 else 0,
        group=some_group(rng),
    )


def take(world: BrokerWorld, rng: Random) -> None:
    """A consumer takes messages, for a time or for as long as the queue says."""
    for queue in some_queue(world, rng):
        world.node.take(queue, rng.choice((1, 1, 3)), rng.choice((None, None, 40)), rng.choice(CONSUMERS))


def ack(world: BrokerWorld, rng: Random) -> None:
    """Consumers are done with messages."""
    for lease in some_leases(world, rng, rng.choice((1, 1, 4))):
        lease.queue.ack(lease.held, lease.number)


def nack(world: BrokerWorld, rng: Random) -> None:
    """A consumer gives a message back, with a delay, without one, or after the backoff of its queue."""
    for lease in some_leases(world, rng, 1):
        world.node.broker.nack(lease.queue, lease.held, lease.number, rng.choice((None, None, 0, 50)))


def reject(world: BrokerWorld, rng: Random) -> None:
    """A consumer does not want a message."""
    for lease in some_leases(world, rng, 1):
        lease.queue.reject(lease.held, lease.number)


def extend(world: BrokerWorld, rng: Random) -> None:
    """A consumer asks for more time."""
    for lease in some_leases(world, rng, 1):
        lease.queue.extend(lease.held, lease.number, 100)
        world.node.leases.append(lease)


def purge(world: BrokerWorld, rng: Random) -> None:
    """A queue is emptied of what waits."""
    for queue in some_queue(world, rng):
        browse.purge(queue)


def cancel(world: BrokerWorld, rng: Random) -> None:
    """A scheduled message is called off."""
    for queue in some_queue(world, rng):
        for held in browse.holdings(queue, "scheduled")[:1]:
            browse.cancel(queue, held.seq)


def move(world: BrokerWorld, rng: Random) -> None:
    """Messages go to another queue, mostly back from the dead."""
    queues = durable_queues(world)
    if len(queues) > 1:
        source, target = rng.sample(queues, 2)
        world.node.move(source, target, rng.choice((1, 3)))


def pass_time(world: BrokerWorld, rng: Random) -> None:
    """Time passes: delays end, leases and messages expire."""
    world.node.pass_time(rng.choice((1, 10, 10, 35, 110)))


def commit(world: BrokerWorld, rng: Random) -> None:
    """Everything so far becomes durable."""
    world.durably(world.node.commit)


def checkpoint(world: BrokerWorld, rng: Random) -> None:
    """The state is written beside the log."""
    world.durably(world.node.checkpoint)


def compact(world: BrokerWorld, rng: Random) -> None:
    """The oldest segment goes, when little of it is alive."""
    world.durably(world.node.compact)


def reopen(world: BrokerWorld, rng: Random) -> None:
    """The broker is closed and opened again."""
    world.reopen()


def vhost(world: BrokerWorld, rng: Random) -> str:
    """A virtual host that exists."""
    name = rng.choice(VHOSTS)
    return name if name in world.node.broker.topology.vhosts else "/"


def some_queue(world: BrokerWorld, rng: Random) -> list[Queue]:
    """A queue, if there is one."""
    queues = list(world.node.broker.queues.values())
    return rng.sample(queues, min(1, len(queues)))


def durable_queues(world: BrokerWorld) -> list[Queue]:
    """The queues that survive."""
    return [queue for queue in world.node.broker.queues.values() if queue.durable]


def some_leases(world: BrokerWorld, rng: Random, count: int) -> list[Lease]:
    """Some leases, which end with this; they may have ended before."""
    leases = world.node.leases
    return [leases.pop(rng.randrange(len(leases))) for _ in range(min(count, len(leases)))]


def some_body(rng: Random) -> Body:
    """A message that is like no other."""
    return Body(*content(Properties(headers={"kind": "sent"}), rng.randbytes(rng.choice(BODY_BYTES) + TOKEN_BYTES)))


def some_group(rng: Random) -> int:
    """The number of a group, or 0."""
    name = rng.choice(GROUPS)
    return group_key(name) if name else 0


VERBS: dict[Callable[[BrokerWorld, Random], None], int] = {
    declare: 6,
    delete: 1,
    pause: 1,
    declare_vhost: 1,
    delete_vhost: 1,
    define_access: 1,
    undefine_access: 1,
    declare_exchange: 3,
    delete_exchange: 1,
    bind: 2,
    unbind: 1,
    set_policy: 1,
    delete_policy: 1,
    send: 16,
    send_many: 2,
    fan_out: 4,
    take: 9,
    ack: 4,
    nack: 4,
    reject: 2,
    extend: 1,
    purge: 1,
    cancel: 1,
    move: 2,
    pass_time: 6,
    commit: 16,
    checkpoint: 2,
    compact: 8,
    reopen: 1,
}
STEPS_PER_STEP = 2
"""Half of the verbs find nothing to do."""
QUEUES_AT_FIRST = 3


def run(world: BrokerWorld, rng: Random, steps: int) -> None:
    """Do some random steps, and make them durable."""
    verbs = rng.choices(list(VERBS), list(VERBS.values()), k=steps * STEPS_PER_STEP)
    for verb in [*[declare] * QUEUES_AT_FIRST, *verbs]:
        world.node.tick()
        with suppress(*REFUSALS):
            verb(world, rng)
    commit(world, rng)
