"""The terminal of the live view: keys in, lines out; only lines that have changed are written, for slow links."""

import codecs
import os
import select
import shutil
import sys
import termios
import tty
from types import TracebackType
from typing import Self

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
