"""Feeds the compiled replay with atheris: `python tests/fuzz/fuzz_frames.py -runs=100000`.

Each input is the index of a frame whose checksum is right: what the replay must survive is content that makes no sense.
"""

import sys
from contextlib import suppress

import atheris  # type: ignore

from leveret.core.errors import JournalError
from leveret.core.ports import Journal
from leveret.storage.journal.entries import Replay, read_head
from tests.storage.journal.frames import ALSO, DEDUP, DEFINE, PUBLISH, PURGE, RECORD, SALT, TIMED, frame, record_entry
from tests.storage.journal.plain_state import PlainState

SEED = b"".join(
    [record_entry(PUBLISH), bytes([TIMED]) + bytes(31), bytes([ALSO, 7]) + bytes(30), record_entry(DEFINE)]
    + [bytes([DEDUP]) + bytes(31), bytes([TIMED]) + bytes(31), record_entry(PURGE, 0, 8)]
    + [bytes([kind]) + bytes(31) for kind in (4, 5, 6)]
)


def mutated(_data: bytes, size_max: int, seed: int) -> bytes:
    """A good index, a little or thoroughly changed."""
    data = SEED
    for _ in range(1 + seed % 6):
        data = atheris.Mutate(data, size_max)
    return data


def fuzz(data: bytes) -> None:
    """Play one index."""
    whole = frame(RECORD, data[: len(data) // 32 * 32])
    head = read_head(whole, 0, SALT)
    assert head is not None
    with suppress(JournalError):
        Replay(PlainState(Journal()), {}).batch(whole, 48, head, 1, 112)


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], "-len_control=0", *sys.argv[1:]], fuzz, custom_mutator=mutated)
    atheris.Fuzz()
