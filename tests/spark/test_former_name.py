"""The former name of the package: what imports it goes on, with a warning."""

import subprocess
import sys

PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import leveret.pipeline.options as former
import leveret.spark.options as present
print(former is present, [str(each.message) for each in seen if each.category is DeprecationWarning])
"""


def test_modules_are_found_under_their_former_name() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "True ['leveret.pipeline is called leveret.spark now: import that']\n"


def test_a_module_that_never_was_is_not_found() -> None:
    program = "import leveret.pipeline.nothing"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError: No module named 'leveret.pipeline.nothing'" in done.stderr
