"""Processes that take a store from each other, on a database with every fault: the turns of all of them."""

from abc import ABC, abstractmethod
from random import Random
from typing import Generic, Protocol, TypeVar

from leveret.core.errors import Fenced, StoreUnreachable
from tests.sim.simtable import Fate, SimDatabase

PROCESSES = 3
DEPTH_MAX = 3
HEALTHY = 0.6


class Mortal(Protocol):
    """A process."""

    def kill(self) -> None:
        """End it, whatever it was doing."""


P = TypeVar("P", bound=Mortal)


class Contest(ABC, Generic[P]):
    """The database and the processes; each of them does something else than others while it waits for an answer."""

    def __init__(self, random: Random, trusting: bool = False) -> None:
        self.random = random
        self.trusting = trusting
        self.database = SimDatabase(self.fate)
        self.processes: dict[int, P] = {}
        self.busy: list[int] = []
        self.openings = 0

    def fate(self) -> Fate:
        if self.random.random() < HEALTHY:
            return Fate.DONE
        return self.random.choice(list(Fate))

    def pause(self, seconds: float) -> None:
        """Somebody waits for an answer: meanwhile others do something, or something happens to the database."""
        self.disturb()
        self.watch()
        if len(self.busy) < DEPTH_MAX:
            self.step()

    def watch(self) -> None:
        """Look at processes while one of them waits."""

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
            self._turn(number)
        except (Fenced, StoreUnreachable):
            process = self.processes.pop(number, None)
            if process is not None:
                process.kill()
        finally:
            self.busy.remove(number)
        self.disturb()

    def _turn(self, number: int) -> None:
        process = self.processes.get(number)
        if process is None:
            if not self.processes or self.random.random() < 0.2:
                self.processes[number] = self.opened()
        elif self.random.random() < 0.1:
            del self.processes[number]
            process.kill()
        else:
            self.act(process)

    def opened(self) -> P:
        """Another process takes over."""
        self.openings += 1
        return self.open(f"process {self.openings}")

    def run(self, steps: int) -> None:
        """Let so much happen, and look at what is left."""
        for _ in range(steps):
            self.step()
        for process in self.processes.values():
            process.kill()
        self.database.fate = lambda: Fate.DONE
        self.database.fail_over(self.random)
        last = self.opened()
        self.check(last)
        last.kill()

    @abstractmethod
    def open(self, owner: str) -> P:
        """Take over as somebody."""

    @abstractmethod
    def act(self, process: P) -> None:
        """Let a process do something."""

    @abstractmethod
    def check(self, last: P) -> None:
        """See that all is well, as the last owner finds it."""
