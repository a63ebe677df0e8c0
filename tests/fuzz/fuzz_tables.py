"""Feeds the compiled table and header codec with atheris: `python tests/fuzz/fuzz_tables.py -runs=100000`.

atheris sees the coverage of Python code only, so that it cannot learn here what gets deeper into the codec: each input
is therefore a good header after a few of its mutations.
"""

import sys
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import atheris  # type: ignore

from leveret.core.properties import Properties, content, decode_header, encode_header, scan_header
from leveret.core.tables import MalformedTable, decode_table, encode_table

HEADERS = {"a": [1, {"b": "c"}, []], "d": b"e", "f": Decimal("1.5"), "g": datetime(2026, 1, 1, tzinfo=UTC), "h": 2**40}
SEED = encode_header(Properties("a/b", "c", HEADERS, 2, 5, "d", "e", "60000", "f", 1, "g", "h", "i", "j"), 0)
TABLE_AT = SEED.index(encode_table(HEADERS))


def mutated(_data: bytes, size_max: int, seed: int) -> bytes:
    """The good header, a little or thoroughly changed."""
    data = SEED
    for _ in range(1 + seed % 6):
        data = atheris.Mutate(data, size_max)
    return data


def fuzz(data: bytes) -> None:
    """One input as a header and as a table: what passes the scan decodes, what decodes encodes."""
    with suppress(MalformedTable):
        table, _ = decode_table(data, TABLE_AT)
        encode_table(table)
    try:
        scan_header(data, len(data))
    except MalformedTable:
        return
    content(decode_header(data), b"")


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], "-len_control=0", *sys.argv[1:]], fuzz, custom_mutator=mutated)
    atheris.Fuzz()
