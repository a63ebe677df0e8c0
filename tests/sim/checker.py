"""What may be found after a crash: the state at the last frame that was said to be durable, or at a later one.

A frame counts as a whole or not at all, so the recovered state must equal one of the states that the broker had when it
sealed a frame. What differs is named:

    lost         was durable, was not removed since, is absent
    resurrected  was durably removed, is there again
    corrupt      is there with other content, was never made, or is half of a frame
    backwards    has an older delivery count or due time than the durable one
"""

import zlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
S = TypeVar("S")
V = TypeVar("V")


class Held(NamedTuple):
    """A message in a queue, as far as it must survive."""

    content: bytes
    priority: int
    expiry_ms: int
    deliveries: int
    due_ms: int

    def __repr__(self) -> str:
        """All but the content, of which its length and checksum are enough to tell it from others."""
        return f"<{len(self.content)} bytes {zlib.crc32(self.content):08x} {self[1:]}>"


@dataclass(frozen=True)
class Snapshot:
    """A whole state at one moment."""

    messages: Mapping[tuple[int, int], Held] = field(default_factory=dict)
    definitions: Set[bytes] = frozenset()
    dedup: Mapping[tuple[int, bytes], int] = field(default_factory=dict)
    last_seq: int = 0
    """The number of the newest message ever: numbers are not given twice."""


class Finding(NamedTuple):
    """One thing that is wrong after a crash."""

    kind: str
    what: str


class History(Generic[S]):
    """The states that were sealed into frames, and which of them may still be found after a crash."""

    def __init__(self, start: S) -> None:
        self.sealed: list[tuple[int, S]] = [(0, start)]

    def seal(self, batch: int, state: S) -> None:
        """Everything that makes this state is in this frame or an earlier one."""
        self.sealed.append((batch, state))

    def confirm(self, batch: int) -> None:
        """The journal says that this frame is durable: nothing older may be found any more."""
        while len(self.sealed) > 1 and self.sealed[1][0] <= batch:
            del self.sealed[0]

    def check(self, found: S) -> list[Finding]:
        """What is wrong with a recovered state."""
        raise NotImplementedError


class Model(History[Snapshot]):
    """What the broker did, beside what it sealed into frames and what the journal said to be durable."""

    def __init__(self, start: Snapshot | None = None) -> None:
        start = start or Snapshot()
        super().__init__(start)
        self.messages = dict(start.messages)
        self.definitions = set(start.definitions)
        self.dedup = dict(start.dedup)
        self.last_seq = start.last_seq

    def snapshot(self) -> Snapshot:
        """The state now."""
        return Snapshot(dict(self.messages), frozenset(self.definitions), dict(self.dedup), self.last_seq)

    def check(self, found: Snapshot) -> list[Finding]:
        """What is wrong with a recovered state."""
        return compare(found, [snapshot for _, snapshot in self.sealed])


def compare(found: Snapshot, candidates: Sequence[Snapshot]) -> list[Finding]:
    """What keeps a state from being one of the candidates; the first of them is the durable one."""
    if found in candidates:
        return []
    findings = [
        *differences("message", found.messages, [each.messages for each in candidates]),
        *differences("definition", made(found), [made(each) for each in candidates]),
        *differences("dedup key", found.dedup, [each.dedup for each in candidates]),
    ]
    if found.last_seq < candidates[0].last_seq:
        findings.append(
            Finding("backwards", f"message {candidates[0].last_seq} was the last, now it is {found.last_seq}")
        )
    return findings or [Finding("corrupt", "a frame was applied in part")]


def made(snapshot: Snapshot) -> dict[bytes, bool]:
    """The definitions as a mapping, like everything else."""
    return dict.fromkeys(snapshot.definitions, True)


def kind(value: object, allowed: Sequence[object]) -> str:
    """The name of what is wrong with one value."""
    if value is None:
        return "lost"
    if all(each is None for each in allowed):
        return "resurrected"
    durable = allowed[0]
    if isinstance(value, Held) and isinstance(durable, Held) and value[:3] == durable[:3]:
        return "backwards" if value[3:] < durable[3:] else "corrupt"
    return "corrupt"


def differences(
    noun: str,
    found: Mapping[K, V],
    candidates: Sequence[Mapping[K, V]],
    kind: Callable[[object, Sequence[object]], str] = kind,
) -> list[Finding]:
    """The things whose value is in no candidate."""
    findings = []
    for key in sorted({*found, *(key for each in candidates for key in each)}, key=repr):
        allowed = [each.get(key) for each in candidates]
        value = found.get(key)
        if value not in allowed:
            findings.append(Finding(kind(value, allowed), f"{noun} {key}: found {value}, not one of {allowed}"))
    return findings
