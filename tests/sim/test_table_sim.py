"""Processes that take a store from each other, on a database with every fault: nothing confirmed is lost."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.storage.journal.postgres.store import Takeover
from tests.sim.contest import Contest
from tests.sim.mistake import is_found
from tests.sim.simtable import SimTable
from tests.storage.journal.table_world import TableWorld

STEPS = 30
SEEDS = 300


class Simulation(Contest[TableWorld]):
    """What clients were told."""

    def __init__(self, random: Random, trusting: bool = False) -> None:
        super().__init__(random, trusting)
        self.sent: set[bytes] = set()
        self.confirmed: set[bytes] = set()
        self.acked: set[bytes] = set()

    def open(self, owner: str) -> TableWorld:
        table, claim = SimTable(self.database, self.trusting), Takeover(owner)
        return TableWorld(table, claim=claim, pause=self.pause, segment_bytes=1 << 10, cache_bytes=1)

    def act(self, process: TableWorld) -> None:
        chance = self.random.random()
        if chance < 0.1:
            process.store.checkpoint()
        elif chance < 0.2:
            process.store.compact()
        elif chance < 0.4:
            self.ack(process)
        else:
            self.send(process)

    def send(self, world: TableWorld) -> None:
        bodies = [b"%d" % (len(self.sent) + i) for i in range(self.random.randint(1, 3))]
        self.sent.update(bodies)
        for body in bodies:
            world.publish(body)
        world.commit.flush()
        self.confirmed.update(bodies)

    def ack(self, world: TableWorld) -> None:
        held = sorted(world.state.queues.get(1, {}))
        if held:
            seq = self.random.choice(held)
            body = world.state.read(1, seq).body
            world.state.settle(1, seq)
            # Told to nobody yet: from here on the message may be there or not.
            self.confirmed.discard(body)
            world.commit.flush()
            self.acked.add(body)

    def check(self, last: TableWorld) -> None:
        bodies = list(last.bodies().get(1, {}).values())
        assert len(bodies) == len(set(bodies)), "a message is there twice"
        assert self.confirmed <= set(bodies), "a confirmed message is lost"
        assert not self.acked & set(bodies), "an acknowledged message came back"
        assert set(bodies) <= self.sent
        epochs = [epoch for epoch, row in self.database.content.rows if row.start]
        assert epochs == sorted(epochs), "an owner appended after a newer one"


@given(st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_nothing_confirmed_is_lost_whatever_the_database_does(random: Random) -> None:
    Simulation(random).run(STEPS)


def test_a_cancelled_wait_that_is_taken_for_success_would_lose_messages() -> None:
    assert is_found(lambda random: Simulation(random, trusting=True).run(STEPS), SEEDS)
