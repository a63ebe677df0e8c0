"""The clock of a machine that can be set: its programs are started with a few C functions in front of the library's."""

import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
SECOND_NS = 1_000_000_000


class FakeClock:
    """One clock, which is right at first."""

    def __init__(self, path: Path, library: Path) -> None:
        """`path` is where its programs read how wrong it is."""
        self._path = path
        self._library = library
        path.write_bytes(bytes(8))

    def set(self, ahead_s: int) -> None:
        """Let it be wrong by some seconds."""
        with self._path.open("r+b") as file:
            file.write((ahead_s * SECOND_NS).to_bytes(8, "little", signed=True))

    def is_used_by(self, pid: int) -> bool:
        """Whether a process has it."""
        return str(self._path) in Path(f"/proc/{pid}/maps").read_text()

    @property
    def environ(self) -> dict[str, str]:
        """What its programs are started with."""
        return {"LD_PRELOAD": str(self._library), "FAKE_CLOCK": str(self._path)}


def compiled(folder: Path) -> Path:
    """The C functions, as programs load them."""
    library = folder / "fake_clock.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O2", "-Wall", "-shared", "-fPIC", str(SOURCE), "-o", str(library), "-ldl"], check=True)
    return library
