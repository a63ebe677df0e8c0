"""What clients were told and what the database did, and whether the two agree.

lost          a publish, or a rejection, was confirmed, and the message is not there
resurrected   an acknowledgement was confirmed, and the owner delivers the message again
unsafe        something was confirmed that a failover could still take away
double        two frames of one number
stale         a frame was appended by somebody who was not the owner any more
backwards     a shard was taken over at an epoch that is not higher
repeated      a letter arrived twice in another shard, though that knows the ids of those that it has
disordered    a letter arrived after one that was put into the outbox later, for the same destination
damaged       the owner of a shard cannot read what its journal should have
stuck         the faults are over, and a shard is not served
"""

from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from leveret.storage.journal.postgres.table import ShardRow


class Finding(NamedTuple):
    """One thing that is wrong."""

    kind: str
    what: str


@dataclass
class History:
    """Everything that happened, as far as it is judged."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    published: set[str] = field(default_factory=set)
    """Confirmed."""
    taken_messages: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)
    dead: Counter[str] = field(default_factory=Counter)
    """Dead letters that arrived."""
    moved: set[str] = field(default_factory=set)
    """To another shard."""
    moved_messages: set[str] = field(default_factory=set)
    """Those of them that somebody took there."""
    _letters: dict[str, list[tuple[int, bool, int]]] = field(default_factory=dict)
    """Of each sender: the frame in which a letter was taken, whether it was known already, its number."""
    _appends: dict[tuple[int, int], int] = field(default_factory=dict)

    def find(self, kind: str, what: str) -> None:
        """Something is wrong."""
        self.findings.append(Finding(kind, what))

    # From the database

    def taken(self, shard: int, before: int, epoch: int) -> None:
        """A shard was taken over."""
        self.counts["takeovers"] += 1
        if epoch < before:
            self.find("backwards", f"shard {shard} was at epoch {before}, and is taken over at {epoch}")

    def appended(self, shard: int, seq: int, epoch: int, row: ShardRow) -> None:
        """A frame was appended."""
        self.counts["appends"] += 1
        if row.epoch != epoch:
            self.find("stale", f"frame {seq} of shard {shard} is of epoch {epoch}, the owner has {row.epoch}")
        if row.last_seq != seq - 1 or self._appends.get((shard, seq), epoch) != epoch:
            self.find("double", f"frame {seq} of shard {shard} comes after frame {row.last_seq}")
        self._appends[shard, seq] = epoch

    def forget_appends(self) -> None:
        """A failover: what was not acknowledged may be gone, and its numbers are given again."""
        self._appends.clear()

    # From clients

    def took(self, message: str, current: bool) -> None:
        """A consumer was given a message, by the owner or by somebody who does not know yet that he is not."""
        self.counts["deliveries" if current else "stale_deliveries"] += 1
        self.taken_messages.add(message)
        if current and message in self.acknowledged:
            self.find("resurrected", f"{message} was acknowledged, and is delivered again")

    def confirmed(self, told: set[str], message: str) -> None:
        """A client was told that something is durable."""
        self.counts["confirms"] += 1
        told.add(message)

    def brought(self, sender: str, number: int, is_new: bool, frame: int) -> None:
        """A shard has a letter of another one in a frame, of which a process that was stopped may tell much later."""
        self.counts["letters"] += 1
        self._letters.setdefault(sender, []).append((frame, not is_new, number))

    def _judge_letters(self) -> None:
        """Letters of one sender are numbered in their order, and each of them is new once."""
        for sender, letters in self._letters.items():
            new: set[int] = set()
            highest = 0
            for _, is_known, number in sorted(letters, key=itemgetter(0, 1)):
                if not is_known and number in new:
                    self.find("repeated", f"letter {number} of {sender} was taken twice")
                elif not is_known and number < highest:
                    self.find("disordered", f"letter {number} of {sender} was taken after {highest}")
                if not is_known:
                    new.add(number)
                highest = max(highest, number)

    def judge(self) -> None:
        """All queues were emptied: look for what is missing, and for letters that came twice or out of order."""
        self._judge_letters()
        for message in sorted(self.published - self.taken_messages):
            self.find("lost", f"{message} was published and never seen")
        for message in sorted(self.rejected - self.dead.keys()):
            self.find("lost", f"{message} was rejected and did not arrive where dead letters go")
        for message in sorted(self.moved - self.moved_messages):
            self.find("lost", f"{message} was moved to another shard and did not arrive")
        for message, count in self.dead.items():
            if count > 1:
                self.find("repeated", f"{message} arrived {count} times where dead letters go")
