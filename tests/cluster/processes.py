"""Nodes as processes of their own, on one PostgreSQL and one etcd."""

import re
import secrets
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pika

from leveret.server.control import connect
from tests.cluster.peer import CLUSTER_SECRET
from tests.machine import Machine
from tests.server_process import ServerProcess
from tests.waiting import wait_until

SHARDS = 4
LEASE_S = 1


class Nodes:
    """The nodes of one cluster, by name."""

    def __init__(
        self, folder: Path, etcd: str, store: str, shards: int = SHARDS, lease_s: int = LEASE_S, *flags: str
    ) -> None:
        """None runs yet; `machines` may be filled before one is started, all others run here."""
        self.machines: dict[str, Machine] = {}
        self.environ = {"LEVERET_CLUSTER_SECRET": CLUSTER_SECRET, "LEVERET_CLUSTER_PLAIN": "true"}
        """What the environment of nodes has that are started from now on."""
        self._folder = folder
        self._flags = ["--cluster", f"test-{secrets.token_hex(4)}", "--etcd", etcd, "--store", store]
        self._flags += ["--cluster-port", "0", "--cluster-shards", str(shards), "--cluster-lease-s", str(lease_s)]
        self._flags += flags
        self._servers: dict[str, ServerProcess] = {}

    def start(self, *names: str, linked: bool = True) -> None:
        """Start nodes, one after the other; wait until they are linked to all others, unless they cannot be."""
        for name in names:
            folder = self._folder / name
            folder.mkdir(exist_ok=True)
            machine = self.machines.setdefault(name, Machine(name))
            flags = ["--node", name, "--host", machine.address, *self._flags]
            environ = {**self.environ, **machine.environ}
            server = ServerProcess(folder, *flags, environ=environ, prefix=machine.prefix, program=machine.program)
            self._servers[name] = server.start()
        for name in names if linked else ():
            self._wait_for_links(name)

    def use(self, *flags: str) -> None:
        """Start nodes with these flags as well from now on; of two that disagree the later one counts."""
        self._flags += flags

    def _wait_for_links(self, name: str) -> None:
        """Wait until a node knows all the others: until then it does not wait for what they know."""
        others = [each for each in self._servers if each != name]
        wait_until(
            lambda: all(re.search(rf"link up\b.*\b{each}\b", self.log(name)) for each in others),
            lambda: self.log(name),
        )

    def balance(self) -> None:
        """Let every node have its share of the shards now: else they move some time later, in the middle of a test."""
        self.operate(self.names[0], "cluster.rebalance")
        wait_until(self._is_balanced, lambda: self.operate(self.names[0], "cluster.status"))

    def _is_balanced(self) -> bool:
        told = self.operate(self.names[0], "cluster.status")
        shares = [member["shards"] for member in told["members"]]
        is_fair = len(shares) == len(self.names) and max(shares) - min(shares) <= 1
        return is_fair and all(row["state"] == "active" for row in told["shards"])

    def connect(self, name: str, user: str = "guest", password: str = "guest") -> pika.BlockingConnection:
        """A client of a node."""
        credentials = pika.PlainCredentials(user, password)
        port = self.port(name)
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, credentials=credentials))

    def port(self, name: str) -> int:
        """Where a node is reached; raises OSError while it does not run."""
        server = self._servers.get(name)
        if server is None:
            raise ConnectionRefusedError(name)
        return server.port

    def ports(self, name: str) -> dict[str, int]:
        """Where it is reached, by protocol; raises OSError while it does not run."""
        self.port(name)
        return self._servers[name].ports

    def http_port(self, name: str) -> int:
        """Where a node is reached by HTTP."""
        return self.ports(name)["http"]

    def operate(self, node: str, verb: str, /, **arguments: Any) -> Any:
        """Do what an operator of a node asks for."""
        with connect(self.data(node)) as operator:
            return operator.call(verb, **arguments)

    @property
    def names(self) -> list[str]:
        """Those that run."""
        return list(self._servers)

    def pid(self, name: str) -> int:
        """The number of its process."""
        return self._servers[name].pid

    def data(self, name: str) -> str:
        """The data directory of a node."""
        return str(self._servers[name].data)

    def wait(self, name: str) -> int:
        """Wait until a node has ended by itself; give its exit code."""
        return self._servers.pop(name).wait()

    def kill(self, name: str) -> None:
        """End a node as a power cut would."""
        self._servers.pop(name).kill()

    def stop(self, name: str) -> int:
        """Let a node end as an operator would."""
        return self._servers.pop(name).stop()

    def signal(self, name: str, number: int) -> None:
        """Send a node a signal."""
        self._servers[name].signal(number)

    def runs(self, name: str) -> bool:
        """Whether a node has not ended by itself."""
        return self._servers[name].runs

    def log(self, name: str) -> str:
        """What a node has logged."""
        return self._servers[name].text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._servers):
            self.kill(name)
