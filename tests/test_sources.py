"""The reader of sources that the rules rely on sees Python and Cython as they are written."""

from pathlib import Path

import pytest

from tests.sources import ROOT, Function, absolute, functions, imports, names

CYTHON = '''"""Draws a format.

    import nothing
"""
cimport cython
from libc.stdint cimport uint8_t, uint64_t  # integers
from leveret.core.message cimport (
    Message,  # the one
    new_message,
)
import a.b, c as d

cdef class Lane:
    cdef int push(
        self, uint64_t seq
    ) except? -1:
        """Add one."""
        cdef int size = len(self.items)

        return size

    @property
    def size(self):
        return 0

cdef inline uint8_t* bytes_of(object x) noexcept nogil:
    return NULL
'''


@pytest.fixture
def lane(tmp_path: Path) -> Path:
    path = tmp_path / "lane.pyx"
    path.write_text(CYTHON)
    return path


def test_imports_are_read_from_cython(lane: Path) -> None:
    assert set(imports(lane)) == {
        "cython",
        "libc.stdint.uint8_t",
        "libc.stdint.uint64_t",
        "leveret.core.message.Message",
        "leveret.core.message.new_message",
        "a.b",
        "c",
    }


def test_functions_have_their_class_line_and_length(lane: Path) -> None:
    assert functions(lane) == [
        Function("Lane.push", 14, 7),
        Function("Lane.size", 23, 2),
        Function("bytes_of", 26, 2),
    ]


def test_names_are_classes_functions_and_methods(lane: Path) -> None:
    assert names(lane) == {"Lane", "Lane.push", "Lane.size", "bytes_of"}


@pytest.mark.parametrize(
    ("place", "written", "meant"),
    [
        ("core/queue.py", ".lease", "leveret.core.lease"),
        ("core/queue.py", "..journal", "leveret.journal"),
        ("core/__init__.py", ".", "leveret.core"),
        ("core/queue.py", "os.path", "os.path"),
    ],
)
def test_relative_imports_become_absolute(place: str, written: str, meant: str) -> None:
    assert absolute(ROOT / "src" / "leveret" / place, written) == meant
