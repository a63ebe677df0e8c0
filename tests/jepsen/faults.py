"""Faults of nodes, whatever they stand on."""

import signal
import threading
import time
from contextlib import suppress
from functools import cache
from typing import Any

from leveret.core.errors import LeveretError
from tests.jepsen.footing import Faults
from tests.jepsen.world import HEAL_S, POLL_S, World
from tests.node.processes import LEASE_S

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
    asked = world.chance.choice(world.names)
    row = world.chance.choice(_movable(world, asked))
    mover = threading.Thread(target=_move, args=(world, asked, row["shard"], 1 - row["group"]))
    mover.start()
    world.away(0.0, 0.5)
    dies = world.chance.random() < 0.5
    if dies:
        world.nodes.kill(row["owner"])
    mover.join()
    if dies:
        world.nodes.start(row["owner"])


def _movable(world: World, asked: str) -> list[dict[str, Any]]:
    """The shards that are in one of two groups, when all nodes know each other again after what was before."""
    deadline = time.monotonic() + HEAL_S
    while True:
        with suppress(LeveretError):
            told = world.nodes.operate(asked, "cluster.status")
            if len(told["groups"]) == 1:
                world.nodes.operate(asked, "cluster.add-shard-group", url=_second(world), shards=0)
            elif rows := [row for row in told["shards"] if row["state"] == "active" and row["group"] is not None]:
                return rows
        assert time.monotonic() < deadline, "no shard can be moved"
        time.sleep(POLL_S)


@cache
def _second(world: World) -> str:
    """Where the other group of a cluster is."""
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
