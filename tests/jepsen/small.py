"""A footing that is there in seconds: a PostgreSQL with its standby, and one etcd."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.jepsen.footing import Faults
from tests.jepsen.pair import Pair
from tests.jepsen.world import SCHEMA, World
from tests.machine import Machine

CANCELLING_S = 1.0
WAITING_S = 1.0
POLL_S = 0.02
CANCEL = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"


class Small:
    """See Footing."""

    def __init__(self, folder: Path, nodes: str) -> None:
        """Nothing runs yet."""
        self.nodes = {name: Machine(name) for name in nodes}
        self.postgres = Pair()
        self._etcd = EtcdProcess(folder)
        self._stack = ExitStack()
        self.left_out: dict[str, str] = {}
        self.flags: list[str] = []
        self.groups: list[str] = []
        self.faults: Faults = {
            "crash PostgreSQL": self._crash,
            "fail PostgreSQL over": lambda _: self.postgres.fail_over(),
            "cancel waits, fail PostgreSQL over": self._cancel_waits,
            "kill a node that waits": self._kill_waiting,
            "kill etcd": self._kill_etcd,
            "pause etcd": self._pause_etcd,
        }

    def store(self, schema: str) -> str:
        """See Footing."""
        return self.postgres.new_url(schema)

    @property
    def etcd(self) -> str:
        """See Footing."""
        return self._etcd.url

    def _crash(self, world: World) -> None:
        """PostgreSQL ends without a checkpoint, and comes back."""
        self.postgres.primary.crash()
        world.away()
        self.postgres.primary.start()

    def _cancel_waits(self, world: World) -> None:
        """The standby hears nothing, and waits for it are cancelled: PostgreSQL calls that done. Then it is primary."""
        with self.postgres.deaf() as primary:
            deadline = time.monotonic() + CANCELLING_S
            cancelled = 0
            while time.monotonic() < deadline:
                cancelled += len(primary.sql(CANCEL))
                time.sleep(POLL_S)
            assert cancelled, "nobody waited for the standby"
        self.postgres.fail_over()

    def _kill_waiting(self, world: World) -> None:
        """A node ends while PostgreSQL lets it wait: it had taken much that is nowhere else."""
        name = world.owner()
        with psycopg.connect(self.postgres.primary.url()) as connection:
            connection.execute(f"lock table {SCHEMA}.leveret_shard in exclusive mode".encode())
            time.sleep(WAITING_S)
            world.wait_for_hasty()
            world.nodes.kill(name)
        world.away()
        world.nodes.start(name)

    def _kill_etcd(self, world: World) -> None:
        """etcd ends as by a power cut, and comes back."""
        self._etcd.kill()
        world.away()
        self._etcd.start()

    def _pause_etcd(self, world: World) -> None:
        """etcd stands still."""
        self._etcd.signal(signal.SIGSTOP)
        world.away()
        self._etcd.signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.postgres)
            stack.enter_context(self._etcd)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
