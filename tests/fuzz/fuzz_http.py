"""Feeds the reader of HTTP requests with atheris: `python tests/fuzz/fuzz_http.py -runs=100000`.

atheris sees the coverage of Python code only: each input is some entries of the corpus after a few mutations. What must
hold, in whatever pieces the bytes come, is in http_reading.py.
"""

import sys

import atheris  # type: ignore

from tests.fuzz.http_corpus import CORPUS
from tests.fuzz.http_reading import check

SEEDS = list(CORPUS.values())


def mutated(_data: bytes, size_max: int, seed: int) -> bytes:
    """Entries of the corpus one after the other, a little or thoroughly changed."""
    data = SEEDS[seed % len(SEEDS)]
    if seed // len(SEEDS) % 3 == 0:
        data += SEEDS[seed // 7 % len(SEEDS)]
    for _ in range(seed // 11 % 5):
        data = atheris.Mutate(data, size_max)
    return data


def fuzz(data: bytes) -> None:
    """One input, in many ways."""
    check(data)


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], "-len_control=0", "-max_len=20000", *sys.argv[1:]], fuzz, custom_mutator=mutated)
    atheris.Fuzz()
