"""A client in a thread of its own, which goes to the next node when its own is lost."""

import itertools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from tests.jepsen.history import History

PAUSE_S = 0.05  # before another attempt to connect
LATER_S = 0.5  # the same for those who are in no hurry: a node remembers a password that it has just verified
PATIENCE_S = 5.0  # then a client goes to another node

T = TypeVar("T")
Connect = Callable[[int], AbstractContextManager[T]]
"""Connects to the node of a number, modulo their count."""


class Gone(Exception):
    """The server closes the connection or the channel, or does not do what it is asked for, and says why."""


class Wanderer(threading.Thread, Generic[T]):
    """Writes down all that it does."""

    lost: tuple[type[Exception], ...] = (Gone, OSError)
    """What is raised when a node is not there any more."""
    pause_s = PAUSE_S

    def __init__(self, name: str, connect: Connect[T], first: int, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self._connect = connect
        self._first = first
        self.history = history
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Talk to one node after the other."""
        try:
            for life in itertools.count():
                if self.ended.is_set():
                    return
                self._live(life)
        except BaseException as error:
            self.error = error

    def _live(self, life: int) -> None:
        """Talk until the node is gone."""
        try:
            with self._connect(self._first + life) as client:
                self.talk(client, life)
        except self.lost:
            self.ended.wait(self.pause_s)

    def talk(self, client: T, life: int) -> None:
        """Do what this client is for, on a connection."""
        raise NotImplementedError

    def end(self) -> None:
        """Let it finish what it does, and wait for that."""
        self.ended.set()
        self.join(4 * PATIENCE_S)
        assert not self.is_alive(), f"{self.name} does not end"
        self.check()

    def check(self) -> None:
        """Raise what it met that it did not expect."""
        assert self.error is None, f"{self.name}: {self.error!r}"
