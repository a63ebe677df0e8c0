"""A cluster of nodes on a footing, its clients, and the faults that they meet."""

import os
import random
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from leveret.core.errors import LeveretError
from tests.cluster.processes import LEASE_S, SHARDS, Nodes
from tests.jepsen.crowd import AMQP_QUEUES, LOGIN, PLACES, TAKEN, Crowd
from tests.jepsen.footing import Faults, Footing
from tests.jepsen.history import CHANGE, DELIVER, FAULT, INVOKE, OK, PUBLISH, READ, History
from tests.machine import PROGRAM
from tests.server_process import PACKAGES, TRACEBACK
from tests.sources import ROOT

AWAY_S = (0.2, 3.0 * LEASE_S)  # some faults are over before a lease ends, others are not
SCHEMA = "jepsen"
HEAL_S = 60.0
SILENT_S = 150.0  # until something is lost: what a lost answer has leased stays so for as long as a clock was ahead
BROKEN_SILENT_S = 5.0  # the same where clocks are right, and a mistake makes something be missing
CONFIRMED_MIN = 10  # of each queue, before the next fault
HASTY_MIN = len(AMQP_QUEUES) // 2  # not all: some may wait for a database that is held up
POLL_S = 0.05
PATHS = os.pathsep.join([PACKAGES, str(ROOT)])  # nodes with a mistake are started by the tests


class World:
    """Everything that runs; a fault is one call of `meet`."""

    def __init__(
        self,
        folder: Path,
        footing: Footing,
        faults: Faults,
        seed: int,
        history: History,
        pause_s: float,
        mistake: str | None = None,
    ) -> None:
        """`pause_s` is how long clients rest between two bursts, `mistake` what is wrong with the nodes."""
        self.folder = folder
        self.footing = footing
        self.faults = faults
        self.history = history
        self.chance = random.Random(seed)
        self.names = list(footing.nodes)
        self.complaints: list[str] = []
        self._pause_s = pause_s
        self._is_hasty = mistake == "early-confirm"
        self._silent_s = SILENT_S if mistake is None else BROKEN_SILENT_S
        self._program = PROGRAM if mistake is None else ("-m", "tests.jepsen.mistakes", mistake)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        footing = self.footing
        with ExitStack() as stack:
            flags = ["--default-user", LOGIN[0], *footing.flags]
            nodes = Nodes(self.folder, footing.etcd, footing.store(SCHEMA), SHARDS, LEASE_S, *flags)
            for name, machine in footing.nodes.items():
                environ = {**machine.environ, "LEVERET_DEFAULT_PASSWORD": LOGIN[1], "PYTHONPATH": PATHS}
                nodes.machines[name] = replace(machine, environ=environ, program=self._program)
            self.crowd = Crowd(nodes, footing.nodes, self.history, self._pause_s)
            stack.callback(self.crowd.join)
            self.nodes = stack.enter_context(nodes)
            self.nodes.start(*self.names)
            for group in footing.groups:
                self.nodes.operate(self.names[0], "cluster.add-shard-group", url=group)
            stack.callback(self.crowd.stop)
            self.crowd.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # Faults

    def meet(self, kind: str) -> None:
        """Let a fault happen and be over, and wait until every queue takes messages again."""
        self.history.note(kind, FAULT, INVOKE)
        try:
            self.faults[kind](self)
        except (AssertionError, OSError, psycopg.Error) as error:
            self.complaints.append(f"{kind}: {error}")  # the others are to happen all the same
        self.history.note(kind, FAULT, OK)
        self.look()
        self.wait_for_confirms(kind)

    def wait_for_confirms(self, after: str) -> None:
        """Wait until every queue has confirmed some messages from now on."""
        position = self.history.length
        deadline = time.monotonic() + HEAL_S
        while (missing := self._silent(position)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if missing:
            self.complaints.append(f"{sorted(missing)} confirmed too little for {HEAL_S:.0f} s after {after}")

    def wait_for_hasty(self) -> None:
        """While nothing can be committed: wait until nodes that do not wait for that have confirmed something."""
        position = self.history.length
        deadline = time.monotonic() + HEAL_S
        while self._is_hasty and self._confirming(position) < HASTY_MIN and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _confirming(self, position: int) -> int:
        """How many queues of AMQP have confirmed something from a position on."""
        return len(set(AMQP_QUEUES) - self._silent(position, 1))

    def wait_for_consumers(self) -> None:
        """Wait until everybody who takes messages has got one."""
        deadline = time.monotonic() + HEAL_S
        while (missing := set(TAKEN) - self._heard()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if missing:
            self.complaints.append(f"nobody got anything of {sorted(missing)} for {HEAL_S:.0f} s after the start")

    def _heard(self) -> set[str]:
        return {each.queue for each in self.history.since() if each.what in (DELIVER, READ)}

    def _silent(self, position: int, least: int = CONFIRMED_MIN) -> set[str]:
        operations = self.history.since(position)
        counts = Counter(each.queue for each in operations if each.what in (PUBLISH, CHANGE) and each.outcome == OK)
        return {queue for queue in PLACES if counts[queue] < least}

    def look(self) -> None:
        """Complain about nodes that ended by themselves or met what they did not expect; start what has ended."""
        for name in self.names:
            running = name in self.nodes.names
            lines = self.nodes.log(name).splitlines() if running else []
            self.complaints += [line for line in lines if TRACEBACK in line and line not in self.complaints]
            if not running or not self.nodes.runs(name):
                self.complaints.append(f"node {name} ended by itself")
                if running:
                    self.nodes.kill(name)
                self.nodes.start(name)

    def owner(self) -> str:
        """A node that owns a shard: a fault of one that has none would say little."""
        return str(self.chance.choice(sorted({row["owner"] for row in self.shards()})))

    def shards(self) -> list[dict[str, Any]]:
        """The shards that somebody serves and says where they are, when there are some after what was before."""
        asked, deadline = self.chance.choice(self.names), time.monotonic() + HEAL_S
        while True:
            with suppress(LeveretError, OSError):
                told = self.nodes.operate(asked, "cluster.status")["shards"]
                if rows := [row for row in told if row["state"] == "active" and row["group"] is not None]:
                    return rows
            assert time.monotonic() < deadline, f"node {asked} knows of no shard that is served"
            time.sleep(POLL_S)

    def away(self, shortest_s: float = AWAY_S[0], longest_s: float = AWAY_S[1]) -> None:
        """The time that a fault lasts."""
        time.sleep(self.chance.uniform(shortest_s, longest_s))

    def finish(self) -> None:
        """Publish no more, and wait until all that was confirmed has come."""
        try:
            self.crowd.finish(self._silent_s)
        except AssertionError as error:
            self.complaints.append(str(error))
