"""Feeds a connection with atheris: `python tests/fuzz/fuzz_connection.py -runs=100000`.

The first byte says how far the connection has come, the second how the rest is cut into reads. atheris sees the
coverage of Python code only: each input is an entry of the corpus after a few mutations, or a good conversation.
"""

import sys

import atheris  # type: ignore

with atheris.instrument_imports(include=["leveret.protocols.amqp"]):
    from tests.fuzz.arena import LOGIN, Arena, fight

from tests.fuzz.corpus import CORPUS, PUBLISH
from tests.fuzz.fuzz_amqp import SEED
from tests.fuzz.starts import STARTS, feed

SEEDS = [SEED, b"".join(LOGIN) + SEED, PUBLISH, *CORPUS.values()]


def mutated(_data: bytes, size_max: int, seed: int) -> bytes:
    """An entry of the corpus, a little or thoroughly changed."""
    data = SEEDS[seed % len(SEEDS)]
    for _ in range(seed // len(SEEDS) % 5):
        data = atheris.Mutate(data, size_max)
    return bytes([seed % len(STARTS), seed // 7 % 256]) + data


def fuzz(data: bytes) -> None:
    """One input, in small and large reads."""

    def attack(arena: Arena) -> None:
        feed(arena, data)

    fight(attack)


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], "-len_control=0", "-max_len=20000", *sys.argv[1:]], fuzz, custom_mutator=mutated)
    atheris.Fuzz()
