"""What a real broker may be after a crash: what it was when it sealed the last durable frame, or a later one.

lost         was there durably, was not removed since, is absent
resurrected  was durably removed, is there again
corrupt      is there with other content, was never made, or is half of a frame
reordered    stands at another place, or a queue does not hand out by the places that its messages have
backwards    has an older delivery count or due time than the durable one; a number can be given twice
duplicated   was sent to one queue once, and is there twice: dead letter and original, or both ends of a move
"""

from collections import Counter
from collections.abc import Sequence

from tests.sim.checker import Finding, History, differences
from tests.sim.digest import Digest, Item

TOKEN_BYTES = 8
"""The end of every body that was sent to one queue tells it from all others."""
FANNED_OUT = b"*" * TOKEN_BYTES
"""The end of every other body."""


class Records(History[Digest]):
    """What a broker sealed, the time, and with which keys it writes."""

    def __init__(self, start: Digest, encrypted: bool) -> None:
        super().__init__(start.at(start.now_ms))
        self.now_ms = start.now_ms
        self.encrypted = encrypted

    def check(self, found: Digest) -> list[Finding]:
        """What is wrong with a recovered broker."""
        return [*mistakes(found), *compare(found, [digest for _, digest in self.sealed])]


def compare(found: Digest, candidates: Sequence[Digest]) -> list[Finding]:
    """What keeps a broker from being one of the candidates; the first of them is the durable one."""
    views = [found.at(each.now_ms) for each in candidates]
    if any(same(view, each) for view, each in zip(views, candidates, strict=True)):
        return []
    found = views[0]
    findings = [
        *differences("message", found.messages, [each.messages for each in candidates], kind),
        *differences("definition", found.definitions, [each.definitions for each in candidates]),
        *differences("key", found.keys, [each.keys for each in candidates]),
    ]
    durable = candidates[0]
    for noun, was, is_now in (
        ("message", durable.last_seq, found.last_seq),
        ("queue", durable.last_queue_id, found.last_queue_id),
    ):
        if is_now < was:
            findings.append(Finding("backwards", f"{noun} {was} was the last, now it is {is_now}"))
    return findings or [Finding("corrupt", "a frame was applied in part")]


def same(found: Digest, sealed: Digest) -> bool:
    """Whether a broker is what it was; numbers may have been given to what did not have to survive."""
    return (
        found.messages == sealed.messages
        and found.definitions == sealed.definitions
        and found.keys == sealed.keys
        and found.last_seq >= sealed.last_seq
        and found.last_queue_id >= sealed.last_queue_id
    )


def mistakes(found: Digest) -> list[Finding]:
    """What is wrong with a broker whatever it was before."""
    tokens = Counter(item.content[-TOKEN_BYTES:] for item in found.messages.values())
    del tokens[FANNED_OUT]
    twice = [place for place, item in found.messages.items() if tokens[item.content[-TOKEN_BYTES:]] > 1]
    return [
        *(
            Finding("reordered", f"queue {name} does not hand its messages out in their order")
            for name in found.disorder
        ),
        *(Finding("duplicated", f"message {place} is there more than once") for place in twice),
    ]


def kind(value: object, allowed: Sequence[object]) -> str:
    """The name of what is wrong with a message."""
    if value is None:
        return "lost"
    durable = next((each for each in allowed if each is not None), None)
    if not isinstance(value, Item) or not isinstance(durable, Item):
        return "resurrected"
    if value[:2] != durable[:2]:
        return "corrupt"
    if value[2:5] != durable[2:5]:
        return "reordered"
    return "backwards" if value[5:] < durable[5:] else "corrupt"
