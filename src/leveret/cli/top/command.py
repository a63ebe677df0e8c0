"""`leveret top`: the loop around facts, view and terminal; or one look, for those who have no terminal."""

import codecs
import os
import select
import shutil
import sys
import termios
import time
import tty
from argparse import Namespace
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Self

from leveret.cli import connection
from leveret.cli.output import as_json
from leveret.cli.parser import Command, argument
from leveret.cli.top.screen import ROWS_MIN, queue_rows, rate_of, screen
from leveret.cli.top.view import COLUMNS, INTERVALS_S, TopFacts, TopView, look, pressed
from leveret.client.broker import RemoteBroker
from leveret.core.errors import InvalidArgument, LeveretError

ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"  # a screen of its own, no cursor
LEAVE = "\x1b[?25h\x1b[?1049l"
LINE = "\x1b[{row};1H{text}\x1b[K"
SEQUENCES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1b[1~": "home",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
}
READ_BYTES = 1024


class Terminal:
    """The terminal that the process was started in."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._shown: list[str] = []
        self._size = os.terminal_size((0, 0))
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._fd)
        tty.setraw(self._fd, termios.TCSADRAIN)
        self._write(ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(LEAVE)
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    @property
    def size(self) -> os.terminal_size:
        return shutil.get_terminal_size()

    def show(self, lines: list[str]) -> None:
        """Show lines; all of them are written when the window has another size."""
        if self.size != self._size:
            self._size, self._shown = self.size, []
            self._write("\x1b[2J")
        changed = [
            LINE.format(row=index + 1, text=line)
            for index, line in enumerate(lines)
            if index >= len(self._shown) or self._shown[index] != line
        ]
        self._shown = lines
        if changed:
            self._write("".join(changed))

    def keys(self, wait_s: float) -> list[str]:
        """The keys that are pressed until a while has passed, or the first of them came."""
        if not select.select([self._fd], [], [], wait_s)[0]:
            return []
        data = os.read(self._fd, READ_BYTES)
        return split(self._decode(data)) if data else ["q"]

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def split(text: str) -> list[str]:
    """What was read as keys; sequences that mean nothing here are left out."""
    keys = []
    while text:
        known = next((sequence for sequence in SEQUENCES if text.startswith(sequence)), None)
        if known is not None:
            keys.append(SEQUENCES[known])
            text = text[len(known) :]
        elif text.startswith("\x1b["):
            end = next((index for index, char in enumerate(text[2:], 3) if "@" <= char <= "~"), len(text))
            text = text[end:]
        else:
            keys.append(text[0])
            text = text[1:]
    return keys


HISTORY = 1_000  # rates that the graph remembers
TURN_S = 0.1  # so soon after it came an answer is shown, and a new size of the window heeded
ONCE_ROWS = 40
REST_SHARE, REST_S_MAX = 3, 10.0  # a look that takes long costs a server a quarter of its time, not all of it
TITLES = {column.title.lower(): index for index, column in enumerate(COLUMNS)}


def run(given: Namespace) -> int:
    """Show the server until the user presses q."""
    sort = TITLES[given.sort]
    view = TopView(sort=sort, reverse=sort > 0, filter=given.filter)
    with connection.connected(given, vhost=False) as broker:
        if given.json or given.once or not sys.stdin.isatty() or not sys.stdout.isatty():
            return once(broker, given, view)
        return Live(broker, given, view).run()


def once(broker: RemoteBroker, given: Namespace, view: TopView) -> int:
    """One look."""
    size = shutil.get_terminal_size((100, ONCE_ROWS))
    if size.lines < ROWS_MIN:
        raise InvalidArgument(f"the terminal has less than {ROWS_MIN} rows: make it larger, or use --json")
    facts = look(broker, given, view, queue_rows(size.lines))
    if given.json:
        print(as_json(facts.as_dict()))
        return 0
    lines = screen(facts, view, [rate_of(facts.overview, "publish")], "", clock(), size.columns, size.lines)
    print("\n".join(line.rstrip() for line in lines[:-1]).rstrip())
    return 0


def clock() -> str:
    """The time of day."""
    return time.strftime("%H:%M:%S")


def next_s(asked_s: float, answered_s: float, interval_s: float) -> float:
    """When to ask again: after the interval, or later if the server had much to do for the last answer."""
    rest_s = min(REST_SHARE * (answered_s - asked_s), REST_S_MAX)
    return max(asked_s + interval_s, answered_s + rest_s)


class Live:
    """The live view. A thread asks, so that keys work while an answer is on its way."""

    def __init__(self, broker: RemoteBroker, given: Namespace, view: TopView) -> None:
        self._look = partial(look, broker, given)
        self._view = view
        self._facts: TopFacts | None = None
        self._history: list[float] = []
        self._trouble = ""
        self._asked_s = self._next_s = 0.0
        self._asked_for = view.question
        self._asked: Future[TopFacts] | None = None

    def run(self) -> int:
        with ThreadPoolExecutor(1) as thread, Terminal() as terminal:
            while not self._view.ended:
                columns, rows = terminal.size
                self._ask(thread, queue_rows(rows))
                terminal.show(screen(self._facts, self._view, self._history, self._trouble, clock(), columns, rows))
                for key in terminal.keys(TURN_S):
                    self._press(key, queue_rows(rows))
            if self._asked is not None:
                self._asked.cancel()
        return 0

    def _ask(self, thread: ThreadPoolExecutor, page: int) -> None:
        """Take the answer if there is one, and ask again when it is time."""
        if self._asked is not None and self._asked.done():
            self._take(self._asked)
            self._asked = None
            if self._asked_for == self._view.question:
                self._next_s = next_s(self._asked_s, time.monotonic(), INTERVALS_S[self._view.interval])
        if self._asked is None and not self._view.paused and time.monotonic() >= self._next_s:
            self._asked_s, self._asked_for = time.monotonic(), self._view.question
            self._asked = thread.submit(self._look, self._view, page)

    def _take(self, asked: "Future[TopFacts]") -> None:
        """See what came: facts, or why not; the old ones stay on the screen then."""
        try:
            self._facts = asked.result()
        except (LeveretError, OSError) as error:
            self._trouble = " ".join(str(error).split())
            return
        self._trouble = ""
        self._history = [*self._history[-HISTORY:], rate_of(self._facts.overview, "publish")]

    def _press(self, key: str, page: int) -> None:
        """Heed a key; what it changes about the question is asked at once."""
        before = self._view
        self._view = pressed(before, key, page, self._facts.queue_count if self._facts is not None else 0)
        if before.question != self._view.question:
            self._next_s = 0.0


ARGUMENTS = (
    argument("--once", action="store_true", help="print one screen and end; so it is without a terminal"),
    argument("--sort", choices=tuple(TITLES), default="ready", help="by which column; default: ready"),
    argument("--filter", metavar="TEXT", default="", help="only queues with this in their name"),
    connection.add_flags,
    argument("--json", action="store_true", help="print one look as JSON"),
)
COMMAND = Command(
    ARGUMENTS,
    run,
    ("leveret top --once --sort total", "leveret top --filter orders --once", "leveret top --json"),
)
