"""Feeds connections with scripts of methods by atheris: `python tests/fuzz/fuzz_sequences.py -runs=100000`.

The broker has a journal on disk; in the end it is replayed, and has to give the same state.
"""

import sys

import atheris  # type: ignore

with atheris.instrument_imports(include=["leveret.protocols.amqp", "leveret.core"]):
    from tests.fuzz.arena import Arena, fight
    from tests.fuzz.scripts import play


def fuzz(data: bytes) -> None:
    """One script."""

    def attack(arena: Arena) -> None:
        play(arena, data)

    fight(attack, journaled=True)


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], "-len_control=0", "-max_len=400", *sys.argv[1:]], fuzz)
    atheris.Fuzz()
