"""Failures of Spark in one sentence."""

import pytest

from leveret.core.errors import LeveretError, NotFound
from leveret.spark.commands.context import refusal

IN_A_TASK = """[PYTHON_DATA_SOURCE_ERROR] Failed to generate partitions: Traceback (most recent call last):
  File "segments.py", line 113, in segment_files
    raise NotFound(f"there is no directory {directory}")
leveret.core.errors.NotFound: there is no directory nope: give another
 SQLSTATE: 38000"""


def test_an_error_of_ours_is_raised_again() -> None:
    found = refusal(IN_A_TASK)
    assert type(found) is NotFound
    assert str(found) == "there is no directory nope: give another"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Traceback:\n  File x\nConnectionRefusedError: nobody listens\n\tat java.lang.Thread", "nobody listens"),
        ("[TABLE] no such table\n\tat java.lang.Thread", "[TABLE] no such table"),
        ("leveret.core.errors.LIMIT: 3", "3"),
        ("", "nothing was told"),
    ],
)
def test_any_other_failure_is_told_by_its_best_line(text: str, told: str) -> None:
    assert type(refusal(text)) is LeveretError
    assert told in str(refusal(text))
