"""Stubs of compiled modules say what Python sees of them."""

from pathlib import Path

import pytest

from stubs import Untyped, write_stubs

SOURCE = '''
import struct
from libc.stdint cimport uint64_t
from parcel.other cimport Base, Place as Spot

LIMIT = 3
NAMES: tuple[str, ...] = ("a", "b")

cpdef enum Kind:
    FIRST = 1

cdef class Row(Base):
    """One row."""
    cdef readonly uint64_t seq      # of the table
    cdef public list spots  # type: list[Spot]  # as they came
    cdef object hidden

    def __init__(self, bytes key not None, table: "Table", *, bint kept=False, uint64_t at=LIMIT) -> None:
        self.hidden = table

    @property
    def size(self) -> int | None:
        return None

    cpdef touch(self):
        self.hidden = None

    cdef int inner(self) except -1:
        return 0

def total(list rows, str name=None, const unsigned char[::1] data=None) -> int:
    return len(rows)
'''
STUB = """# Generated from rows.pyx.
from enum import IntEnum
from parcel.other import Base as Base
from parcel.other import Place as Spot
from parcel.table import Table
from typing import Any
import typing_extensions
LIMIT: int
NAMES: tuple[str, ...]
def total(rows: list[Any], name: str | None = None, data: typing_extensions.Buffer | None = None) -> int: ...
class Kind(IntEnum):
    FIRST = ...
class Row(Base):
    @property
    def seq(self) -> int: ...
    spots: list[Spot]
    def __init__(self, key: bytes, table: Table, *, kept: bool = False, at: int = ...) -> None: ...
    @property
    def size(self) -> int | None: ...
    def touch(self) -> None: ...
"""


def write(folder: Path, text: str) -> str:
    (folder / "parcel").mkdir(exist_ok=True)
    (folder / "parcel" / "rows.pyx").write_text(text)
    (folder / "parcel" / "table.py").write_text("class Table:\n    pass\n")
    write_stubs(folder)
    return (folder / "parcel" / "rows.pyi").read_text()


def test_a_stub_has_what_python_sees(tmp_path: Path) -> None:
    assert write(tmp_path, SOURCE) == STUB


def test_a_function_says_what_it_returns(tmp_path: Path) -> None:
    with pytest.raises(Untyped, match="line 1: say what size returns"):
        write(tmp_path, "def size(bytes data):\n    return len(data)\n")


def test_a_name_is_of_one_module(tmp_path: Path) -> None:
    with pytest.raises(Untyped, match="import Chair, which 0 modules define"):
        write(tmp_path, "def sit(on: Chair) -> None:\n    pass\n")
