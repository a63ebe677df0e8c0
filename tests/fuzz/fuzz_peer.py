"""Feeds links between nodes with atheris: `python tests/fuzz/fuzz_peer.py -runs=100000`.

The first byte says how far the link has come, the second how the rest is cut into reads: strangers before the handshake
is done, as caller and as acceptor, and nodes after it. Each input is an entry of the corpus after a few mutations.
"""

import logging
import sys

import atheris  # type: ignore

with atheris.instrument_imports(include=["leveret.cluster"]):
    from tests.fuzz.peer_arena import CORPUS, STARTS, PeerArena

SEEDS = list(CORPUS.values())
ARENA = PeerArena()


def mutated(_data: bytes, size_max: int, seed: int) -> bytes:
    """One or two entries of the corpus, a little or thoroughly changed."""
    data = SEEDS[seed % len(SEEDS)]
    if seed % 3 == 0:
        data += SEEDS[seed // 11 % len(SEEDS)]
    for _ in range(seed // len(SEEDS) % 5):
        data = atheris.Mutate(data, size_max)
    return bytes([seed // 5 % len(STARTS), seed // 7 % 256]) + data


if __name__ == "__main__":
    logging.lastResort = None  # refusals are many
    atheris.Setup([sys.argv[0], "-len_control=0", "-max_len=20000", *sys.argv[1:]], ARENA.fight, custom_mutator=mutated)
    atheris.Fuzz()
