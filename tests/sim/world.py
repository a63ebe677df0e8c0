"""A journal on a simulated disk, with the history of what it promised beside it."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tests.sim.broker_checker import Records
from tests.sim.broker_node import BrokerNode
from tests.sim.checker import Finding, History, Model
from tests.sim.node import Life, Node
from tests.sim.simdisk import SimDisk

N = TypeVar("N", bound=Life)
H = TypeVar("H", bound=History[Any])


class Inconsistent(Exception):
    """The recovered state is none of those that it may be."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__(findings)
        self.findings = findings


class World(Generic[N, H]):
    """One run: `watch` is called before and after every change of the disk, recovery included."""

    def __init__(self, disk: SimDisk, history: H, watch: Callable[["World[N, H]"], None], node_class: type[N]) -> None:
        self.disk = disk
        self.history = history
        self.watch = watch
        self.node_class = node_class
        self.opened: N | None = None
        disk.hook = self.look

    @property
    def node(self) -> N:
        """The open journal."""
        assert self.opened is not None
        return self.opened

    def open(self) -> None:
        """Recover the journal; what it holds must be allowed, and is durable from now on."""
        self.opened = self.recover()

    def recover(self) -> N:
        """A node on this disk whose state was checked; the history begins anew with it."""
        raise NotImplementedError

    def state(self) -> Any:
        """What the node should hold now."""
        raise NotImplementedError

    def check(self, found: Any) -> None:
        """Compare a recovered state with the history."""
        findings = self.history.check(found)
        if findings:
            raise Inconsistent(findings)

    def durably(self, action: Callable[[], None]) -> None:
        """Do something that makes all that was done so far durable."""
        self.history.seal(self.node.pending, self.state())
        action()
        self.history.confirm(self.node.durable)

    def reopen(self) -> None:
        """Close the journal and open it again."""
        self.durably(self.node.close)
        self.opened = None
        self.open()

    def look(self, call: str = "") -> None:
        """The disk changes: note what the journal promises at this moment, and let the watcher see it."""
        if self.opened is not None:
            self.history.confirm(self.opened.durable)
        self.watch(self)


class JournalWorld(World[Node, Model]):
    """The journal with the plain state, and a model that does the same beside it."""

    def recover(self) -> Node:
        """See World."""
        node = self.node_class(self.disk)
        found = node.snapshot()
        self.check(found)
        self.history = Model(found)
        return node

    def state(self) -> Any:
        """What the model holds."""
        return self.history.snapshot()


class BrokerWorld(World[BrokerNode, Records]):
    """The real broker; what it held itself is what it must hold again."""

    def recover(self) -> BrokerNode:
        """See World."""
        node = self.node_class(self.disk, self.history)
        found = node.digest()
        self.check(found)
        self.history = Records(found, self.history.encrypted)
        return node

    def state(self) -> Any:
        """What the broker holds; its time goes on after a crash."""
        self.history.now_ms = self.node.now_ms
        found = self.node.digest()
        return found.at(found.now_ms)
