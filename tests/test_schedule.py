"""The schedule names what there is, and keeps together what shares something."""

from tests.schedule import FIRST, group, turn
from tests.sources import ROOT


def test_everything_that_comes_first_exists() -> None:
    assert [name for name in FIRST if not (ROOT / name).exists()] == []


def test_a_test_stays_with_its_file_or_with_its_folder() -> None:
    assert group("tests/core/test_tables.py::test_a[x::y]") == "tests/core/test_tables.py"
    spark = {group(f"tests/spark/{file}::test_a") for file in ("test_archive.py", "test_damage.py")}
    assert spark == {"tests/spark/"}


def test_others_come_after_those_that_come_first() -> None:
    tests = ["tests/core/test_tables.py::test_a", "tests/test_sim.py::test_a", "tests/spark/test_archive.py::test_a"]
    assert sorted(tests, key=turn) == tests[::-1]
