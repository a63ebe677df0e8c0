"""Faults of nodes, whatever they stand on."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

from leveret.core.errors import LeveretError
from tests.cluster.processes import LEASE_S
from tests.jepsen.footing import Faults
from tests.jepsen.world import HEAL_S, POLL_S, World

PAUSE_S = (0.2, 6.0 * LEASE_S)  # etcd lets a lease live for longer than it was asked to
SECOND = "second"  # the schema that is another group


def kill(world: World) -> None:
    """A node ends as by a power cut, and comes back."""
    name = world.owner()
    world.nodes.kill(name)
    world.away()
    world.nodes.start(name)


def kill_two(world: World) -> None:
    """Only one node is left for a while."""
    names = world.chance.sample(world.names, 2)
    for name in names:
        world.nodes.kill(name)
    world.away()
    world.nodes.start(*names)


def pause(world: World) -> None:
    """A node stands still, and goes on as if nothing had been."""
    name = world.owner()
    world.nodes.signal(name, signal.SIGSTOP)
    world.away(*PAUSE_S)
    world.nodes.signal(name, signal.SIGCONT)


def roll(world: World) -> None:
    """Every node is restarted, one after the other."""
    for name in world.names:
        code = world.nodes.stop(name)
        if code:
            world.complaints.append(f"node {name} ended with {code}")
        world.nodes.start(name)


def move(world: World) -> None:
    """A shard goes to another database, and half of the time its owner dies on the way."""
    dies = world.chance.random() < 0.5
    with moving(world) as owner:
        world.away(0.0, 0.5)
        if dies:
            world.nodes.kill(owner)
    if dies:
        world.nodes.start(owner)


@contextmanager
def moving(world: World) -> Iterator[str]:
    """Let a shard go to another database meanwhile, if that can be; give its owner."""
    asked = world.chance.choice(world.names)
    _make_second(world, asked)
    row = world.chance.choice(world.shards())
    mover = threading.Thread(target=_move, args=(world, asked, row["shard"], 1 - row["group"]))
    mover.start()
    try:
        yield row["owner"]
    finally:
        mover.join()


def _make_second(world: World, asked: str) -> None:
    """Let there be two groups, when all nodes know each other again after what was before."""
    deadline = time.monotonic() + HEAL_S
    while True:
        with suppress(LeveretError):
            if len(world.nodes.operate(asked, "cluster.status")["groups"]) > 1:
                return
            world.nodes.operate(asked, "cluster.add-shard-group", url=_second(world), shards=0)
        assert time.monotonic() < deadline, "no group can be added"
        time.sleep(POLL_S)


@cache
def _second(world: World) -> str:
    """Where the other group of a cluster is that began with one."""
    return world.footing.store(SECOND)


def _move(world: World, asked: str, shard: int, group: int) -> None:
    """Let a shard be moved; whether it is depends on who dies when."""
    with suppress(LeveretError, OSError):
        world.nodes.operate(asked, "cluster.move-shard", shard=shard, group=group)


NODE_FAULTS: Faults = {
    "kill a node": kill,
    "pause a node": pause,
    "rolling restart": roll,
    "move a shard": move,
}
