"""Faults of nodes, whatever they stand on."""

import signal

from tests.jepsen.footing import Faults
from tests.jepsen.world import World


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
    world.away()
    world.nodes.signal(name, signal.SIGCONT)


def roll(world: World) -> None:
    """Every node is restarted, one after the other."""
    for name in world.names:
        code = world.nodes.stop(name)
        if code:
            world.complaints.append(f"node {name} ended with {code}")
        world.nodes.start(name)


NODE_FAULTS: Faults = {
    "kill a node": kill,
    "pause a node": pause,
    "rolling restart": roll,
}
