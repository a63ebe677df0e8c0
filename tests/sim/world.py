"""A broker's journal on a simulated disk, with the model of what it promised beside it."""

from collections.abc import Callable

from tests.sim.checker import Finding, Model
from tests.sim.node import Node
from tests.sim.simdisk import SimDisk


class Inconsistent(Exception):
    """The recovered state is none of those that it may be."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__(findings)
        self.findings = findings


class World:
    """One run: `watch` is called before and after every change of the disk, recovery included."""

    def __init__(
        self, disk: SimDisk, model: Model, watch: Callable[["World"], None], node_class: type[Node] = Node
    ) -> None:
        self.disk = disk
        self.model = model
        self.watch = watch
        self.node_class = node_class
        self.opened: Node | None = None
        disk.hook = self.look

    @property
    def node(self) -> Node:
        """The open journal."""
        assert self.opened is not None
        return self.opened

    def open(self) -> None:
        """Recover the journal; what it holds must be allowed, and is durable from now on."""
        node = self.node_class(self.disk)
        found = node.snapshot()
        findings = self.model.check(found)
        if findings:
            raise Inconsistent(findings)
        self.model = Model(found)
        self.opened = node

    def durably(self, action: Callable[[], None]) -> None:
        """Do something that makes all that was done so far durable."""
        self.model.seal(self.node.pending)
        action()
        self.model.confirm(self.node.durable)

    def reopen(self) -> None:
        """Close the journal and open it again."""
        self.durably(self.node.close)
        self.opened = None
        self.open()

    def look(self, call: str = "") -> None:
        """The disk changes: note what the journal promises at this moment, and let the watcher see it."""
        if self.opened is not None:
            self.model.confirm(self.opened.durable)
        self.watch(self)
