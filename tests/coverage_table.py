"""`python -m tests.coverage_table FILE`: coverage by package, of the JSON report that `make coverage` has written.

A branch is a jump that a line of Python can make. Compiled modules are not in it: coverage.py does not see into them.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tests.text_table import text_table

TITLES = ("package", "modules", "lines", "missed", "branches", "missed", "covered")
COUNTED = ("num_statements", "missing_lines", "num_branches", "missing_branches")
PACKAGES = "src/leveret"


def package(path: str) -> str:
    """The package that a source file is in; a module beside the packages has its own name."""
    return PurePosixPath(path).relative_to(PACKAGES).parts[0]


def row(name: str, sums: Mapping[str, int]) -> list[str]:
    """A line of the table; the share is that of lines and branches together, as in coverage.py's own report."""
    there = sums["num_statements"] + sums["num_branches"]
    missed = sums["missing_lines"] + sums["missing_branches"]
    share = 100.0 * (there - missed) / there if there else 100.0
    return [name, *(f"{sums[key]:,}" for key in ("modules", *COUNTED)), f"{share:.1f} %"]


def rows(report: Mapping[str, Mapping[str, Mapping[str, Mapping[str, int]]]]) -> list[list[str]]:
    """A row for each package, and one for all of them."""
    packages: dict[str, Counter[str]] = {}
    for path, file in report["files"].items():
        figures = Counter(modules=1, **{key: file["summary"][key] for key in COUNTED})
        packages.setdefault(package(path), Counter()).update(figures)
    total: Counter[str] = Counter()
    for sums in packages.values():
        total.update(sums)
    return [*(row(name, packages[name]) for name in sorted(packages)), row("all", total)]


if __name__ == "__main__":
    print(text_table(TITLES, rows(json.loads(Path(sys.argv[1]).read_text()))))
