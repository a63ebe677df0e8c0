"""Machines that can be cut off from each other: network namespaces of this one, on one bridge.

    tests, clients ---- bridge ---- a, b, c (nodes)
    10.x.y.1              +-------- d, e, f (PostgreSQL, Patroni, etcd)

What is cut is dropped by nft within a namespace, so the rules of this machine stay as they are. Where namespaces are
not allowed all machines have the address of this one, and `why_uncut` says why nothing can be cut.
"""

import os
import re
import secrets
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tests.machine import Machine
from tests.parts import DEBIAN_PACKAGES, program

NEEDED = ("ip", "nft")
PACKETS = re.compile(r"packets (\d+)")
HEAL = """
flush set ip cuts from
flush set ip cuts to
reset counter ip cuts dropped
"""
RULES = """
table ip cuts {
    counter dropped { }
    set from { type ipv4_addr; }
    set to { type ipv4_addr; }
    chain in { type filter hook input priority 0; ip saddr @from counter name dropped drop; }
    chain out { type filter hook output priority 0; ip daddr @to counter name dropped drop; }
}
"""


def run(*command: str, text: str = "") -> str:
    """Run a command to its end; give what it said."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Network:
    """Machines by name."""

    def __init__(self, names: Sequence[str]) -> None:
        """Nothing is made yet."""
        self.why_uncut = _why_not()
        self._mark = f"lv{secrets.token_hex(3)}"
        octets = (secrets.randbelow(200) + 20, secrets.randbelow(250) + 2)
        self._net = f"10.{octets[0]}.{octets[1]}"
        self._stack = ExitStack()
        self._cut: set[str] = set()
        self.machines = {name: Machine(name) for name in names}

    def __enter__(self) -> Self:
        if self.why_uncut is None:
            with ExitStack() as stack:
                self._make(stack)
                self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _make(self, stack: ExitStack) -> None:
        bridge = self._mark
        run("ip", "link", "add", bridge, "type", "bridge")
        stack.callback(run, "ip", "link", "del", bridge)
        run("ip", "addr", "add", f"{self._net}.1/24", "dev", bridge)
        run("ip", "link", "set", bridge, "up")
        for number, name in enumerate(self.machines, 11):
            space, outside = f"{self._mark}-{name}", f"{self._mark}{name}"
            inside = ("ip", "netns", "exec", space)
            run("ip", "netns", "add", space)
            stack.callback(run, "ip", "netns", "del", space)
            run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
            run("ip", "link", "set", outside, "master", bridge, "up")
            run(*inside, "ip", "addr", "add", f"{self._net}.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run(*inside, "ip", "link", "set", device, "up")
            run(*inside, "nft", "--file", "-", text=RULES)
            self.machines[name] = Machine(name, f"{self._net}.{number}", inside)

    # Cuts

    def cut(self, source: str, targets: Sequence[str], *, both: bool = True) -> None:
        """Let nothing pass from a machine to others, nor from them if `both`; "" is where the tests run."""
        addresses = ", ".join(self.machines[name].address if name else f"{self._net}.1" for name in targets)
        self._cut.add(source)
        for side in ("to", "from") if both else ("to",):
            run(*self.machines[source].prefix, "nft", "add", "element", "ip", "cuts", side, f"{{ {addresses} }}")

    def heal(self) -> int:
        """Let everything pass again; give how many packets were dropped."""
        dropped = 0
        while self._cut:
            # One command for each: on a busy machine every one more makes the cut longer.
            told = PACKETS.search(run(*self.machines[self._cut.pop()].prefix, "nft", "--file", "-", text=HEAL))
            dropped += int(told[1]) if told else 0
        return dropped


def _why_not() -> str | None:
    """What is missing here for namespaces."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for name in NEEDED:
        if not program(name):
            return f"the program {name} is missing: run `make parts`, or install {DEBIAN_PACKAGES[name]}"
    probe = f"lv{secrets.token_hex(3)}"
    try:
        run("ip", "netns", "add", probe)
        try:
            run("ip", "netns", "exec", probe, "nft", "--file", "-", text=RULES)
        finally:
            run("ip", "netns", "del", probe)
    except OSError as error:
        return f"network namespaces are not allowed here ({error})"
    return None
