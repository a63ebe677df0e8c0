"""Coverage by package, from a report of coverage.py."""

import pytest

from tests.coverage_table import package, rows


def file(lines: int, missed: int, branches: int = 0, branches_missed: int = 0) -> dict[str, dict[str, int]]:
    figures = {"num_statements": lines, "missing_lines": missed, "covered_lines": lines - missed}
    return {"summary": figures | {"num_branches": branches, "missing_branches": branches_missed}}


def test_modules_of_a_package_are_summed() -> None:
    files = {
        "src/leveret/core/a.py": file(10, 1, 4, 0),
        "src/leveret/core/deep/b.py": file(1_000, 99, 6, 2),
        "src/leveret/clock.py": file(0, 0),
    }
    assert rows({"files": files}) == [
        ["clock.py", "1", "0", "0", "0", "0", "100.0 %"],
        ["core", "2", "1,010", "100", "10", "2", "90.0 %"],
        ["all", "3", "1,010", "100", "10", "2", "90.0 %"],
    ]


def test_a_file_of_another_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="leveret"):
        package("tests/conftest.py")
