"""Processes that take a store from each other, on a database with every fault: nothing confirmed is lost."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.core.errors import Fenced, JournalFailed, StoreUnreachable
from leveret.journal.table_store import Claim
from tests.journal.table_world import TableWorld
from tests.sim.simtable import Fate, SimDatabase, SimTable

PROCESSES = 3
STEPS = 30
DEPTH_MAX = 3
HEALTHY = 0.6
SEEDS = 300


class Simulation:
    """What clients were told, and the processes that told them."""

    def __init__(self, random: Random, trusting: bool = False) -> None:
        self.random = random
        self.trusting = trusting
        self.database = SimDatabase(self.fate)
        self.worlds: dict[int, TableWorld] = {}
        self.busy: list[int] = []
        self.sent: set[bytes] = set()
        self.confirmed: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.openings = 0

    def fate(self) -> Fate:
        if self.random.random() < HEALTHY:
            return Fate.DONE
        return self.random.choice(list(Fate))

    def pause(self, seconds: float) -> None:
        """Somebody waits for an answer: meanwhile others do something, or something happens to the database."""
        self.disturb()
        if len(self.busy) < DEPTH_MAX:
            self.step()

    def disturb(self) -> None:
        chance = self.random.random()
        if chance < 0.3:
            self.database.haunt(self.random)
        elif chance < 0.4:
            self.database.fail_over(self.random)

    def step(self) -> None:
        """Let a process that is not in the middle of something do something."""
        free = [number for number in range(PROCESSES) if number not in self.busy]
        if not free:
            return
        number = self.random.choice(free)
        self.busy.append(number)
        try:
            self.act(number)
        except (Fenced, StoreUnreachable):
            world = self.worlds.pop(number, None)
            if world is not None:
                world.kill()
        finally:
            self.busy.remove(number)
        self.disturb()

    def act(self, number: int) -> None:
        world = self.worlds.get(number)
        if world is None:
            if not self.worlds or self.random.random() < 0.2:
                self.worlds[number] = self.opened()
            return
        chance = self.random.random()
        if chance < 0.1:
            del self.worlds[number]
            world.kill()
        elif chance < 0.2:
            world.store.checkpoint()
        elif chance < 0.3:
            world.store.compact()
        elif chance < 0.5:
            self.ack(world)
        else:
            self.send(world)

    def opened(self) -> TableWorld:
        self.openings += 1
        table, claim = SimTable(self.database, self.trusting), Claim(f"process {self.openings}")
        return TableWorld(table, claim=claim, pause=self.pause, segment_bytes=1 << 10, cache_bytes=1)

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

    def check(self) -> None:
        """Look at everything as the last owner finds it."""
        self.database.fate = lambda: Fate.DONE
        self.database.fail_over(self.random)
        world = self.opened()
        bodies = list(world.bodies().get(1, {}).values())
        assert len(bodies) == len(set(bodies)), "a message is there twice"
        assert self.confirmed <= set(bodies), "a confirmed message is lost"
        assert not self.acked & set(bodies), "an acknowledged message came back"
        assert set(bodies) <= self.sent
        epochs = [epoch for epoch, row in self.database.content.rows if row.start]
        assert epochs == sorted(epochs), "an owner appended after a newer one"
        world.close()


def run(random: Random, trusting: bool = False) -> None:
    simulation = Simulation(random, trusting)
    for _ in range(STEPS):
        simulation.step()
    for world in simulation.worlds.values():
        world.kill()
    simulation.check()


@given(st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_nothing_confirmed_is_lost_whatever_the_database_does(random: Random) -> None:
    run(random)


def test_a_cancelled_wait_that_is_taken_for_success_would_lose_messages() -> None:
    def fails(seed: int) -> bool:
        try:
            run(Random(seed), trusting=True)
        except (AssertionError, JournalFailed):
            return True
        return False

    assert any(fails(seed) for seed in range(SEEDS)), "the simulation does not find what it is for"
