"""The two kinds of simulation: the journal with a plain state whose every detail a model knows, and the real broker."""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from tests.sim import broker_workload, workload
from tests.sim.broker_checker import Records
from tests.sim.broker_node import BrokerNode
from tests.sim.checker import History, Model
from tests.sim.digest import Digest
from tests.sim.node import NOW_MS, Life, Node
from tests.sim.world import BrokerWorld, JournalWorld, World

AnyWorld = World[Any, Any]
ENCRYPTED_CHANCE = 0.25


class Kind(NamedTuple):
    """What runs on the disk, and what is done with it."""

    world_class: Callable[..., AnyWorld]
    node_class: type[Life]
    begin: Callable[[Random], History[Any]]
    """What an empty disk is to hold."""
    run: Callable[[Any, Random, int], None]


def no_messages(rng: Random) -> Model:
    """Nothing at all."""
    return Model()


def no_definitions(rng: Random) -> Records:
    """A new broker, some of them encrypted; the default virtual host is there from the start."""
    start = Digest(definitions={("vhost", "/"): ""}, now_ms=NOW_MS)
    return Records(start, encrypted=rng.random() < ENCRYPTED_CHANCE)


JOURNAL = Kind(JournalWorld, Node, no_messages, workload.run)
BROKER = Kind(BrokerWorld, BrokerNode, no_definitions, broker_workload.run)
