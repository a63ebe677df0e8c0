"""Receives that may be repeated: a client that lost the answer gets the same messages again, for five minutes."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from leveret.embedded.message import Message

KEPT_MS = 300_000
KEPT_MAX = 10_000


class ReceiveAttempt(NamedTuple):
    """What a receive got."""

    until_ms: int
    messages: list[Message]


class ReceiveAttempts:
    """Attempts by the queue and the id that its receiver chose."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], ReceiveAttempt] = OrderedDict()

    def remember(self, queue_id: int, attempt_id: str, messages: list[Message], now_ms: int) -> None:
        """Keep what a receive got."""
        self._kept[queue_id, attempt_id] = ReceiveAttempt(now_ms + KEPT_MS, messages)
        while len(self._kept) > KEPT_MAX or next(iter(self._kept.values())).until_ms <= now_ms:
            self._kept.popitem(last=False)

    def repeat(self, queue_id: int, attempt_id: str, now_ms: int) -> list[Message]:
        """What the same attempt got before, if nothing of it has changed since; otherwise nothing."""
        kept = self._kept.pop((queue_id, attempt_id), None)
        if kept is None or kept.until_ms <= now_ms or not all(message.leased for message in kept.messages):
            return []
        return kept.messages
