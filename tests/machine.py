"""Where a program of a test runs: on this machine, or in a part of it that can be cut off or has a clock of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PROGRAM = ("-m", "leveret")
"""How Python runs a server."""


@dataclass(frozen=True)
class Machine:
    """A place to run programs."""

    name: str
    address: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()
    """What a command begins with that is to run there."""
    environ: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = PROGRAM
    """What runs there as a server."""
