"""Letters that are brought to a shard together: those that a bag posts in one turn, in their order.

    head (JSON): shard, version, queue
                 envelopes: of each all that leveret.cluster.transfer.message.Envelope has but its properties, and
                 header_bytes letters: of each its name, the number of its envelope, the size of its body
    | line feed | headers | bodies

The answer says how many of them, from the first on, the shard has on its disks: it takes none before the one in front
of it. A bag posts its next bundle, which begins where the last one was not taken, when that is answered or given up. So
one that comes late begins with letters that are known by their names, and goes on in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from leveret.cluster.rpc.wire import packed
from leveret.cluster.transfer.message import Envelope, Letter, deliver, targets
from leveret.core.broker import Broker
from leveret.core.errors import InvalidArgument, JournalFailed, LeveretError
from leveret.core.properties import decode_header

LETTERS_MAX = 4_096  # in a bundle: a shard does nothing else while it takes one
TOLD = [each.name for each in fields(Envelope) if each.name not in ("properties", "header")]


class Bundle(NamedTuple):
    """Some letters of one bag."""

    letters: list[Letter]
    queue: str = ""
    """The only queue that they are for, if they wait."""


def take(core: Broker, bundle: Bundle) -> int:
    """Give letters to the queues of a shard, up to one that has to wait; give how many. Under the lock of the shard."""
    taken = 0
    for envelope, letters in groupby(bundle.letters, attrgetter("envelope")):
        queues = targets(core, envelope, bundle.queue)
        for letter in letters:
            try:
                deliver(core, letter, queues)
            except JournalFailed:
                raise
            except LeveretError:
                return taken
            taken += 1
    return taken


def encode(bundle: Bundle, home: str, version: int) -> bytes:
    """A bundle for a shard of another node, which should know this version of the catalog."""
    numbers: dict[Envelope, int] = {}
    letters = [(name, numbers.setdefault(of, len(numbers)), len(body)) for name, of, body in bundle.letters]
    envelopes = [{name: getattr(each, name) for name in TOLD} | {"header_bytes": len(each.header)} for each in numbers]
    head = {"shard": home, "version": version, "queue": bundle.queue, "envelopes": envelopes, "letters": letters}
    bodies = (letter.body for letter in bundle.letters)
    return b"".join((packed(head), b"\n", *(each.header for each in numbers), *bodies))


def decode(head: dict[str, Any], wire: bytes) -> Bundle:
    """The reverse, of a head that was read already."""
    try:
        rows = head["letters"]
        if len(rows) > LETTERS_MAX:
            raise ValueError(f"{len(rows)} of them, at most {LETTERS_MAX}: are the nodes of different versions?")
        sizes = [told["header_bytes"] for told in head["envelopes"]] + [size for _, _, size in rows]
        pieces = _pieces(wire, sizes)
        envelopes = [_envelope(told, next(pieces)) for told in head["envelopes"]]
        letters = [Letter(name, envelopes[number], next(pieces)) for name, number, _ in rows]
        return Bundle(letters, head["queue"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidArgument(f"no letters: {error}") from None


def _pieces(wire: bytes, sizes: list[int]) -> Iterator[bytes]:
    """Bytes that were joined."""
    if min(sizes, default=0) < 0 or sum(sizes) != len(wire):
        raise ValueError(f"{len(wire)} bytes, {sum(sizes)} announced")
    start = 0
    for size in sizes:
        yield wire[start : start + size]
        start += size


def _envelope(told: dict[str, Any], header: bytes) -> Envelope:
    known = {name: told[name] for name in TOLD if name in told}
    bytes.fromhex(known.get("key", ""))
    return Envelope(properties=decode_header(header), header=header, **known)


def answered(answer: bytes | None) -> int:
    """How many letters were taken; those who refuse, or are lost meanwhile, have none."""
    return int(answer) if answer is not None and answer.isdigit() else 0
