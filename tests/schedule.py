"""Which tests run in the same process when there are several, and in which order.

The tests of a file stay together: what they share is made once. So do those of some folders, which share more. These
and the longest files come first, so that the processes end at about the same time.
"""

import os

FIRST = {
    "tests/spark/": "one Java for Spark",
    "tests/rabbitmq/": "a server that has played all scenarios",
    "tests/protocols/console/": "one browser, and a server at work",
    "tests/test_sim_cluster.py": "nothing: long",
    "tests/test_sim.py": "nothing: long",
    "tests/test_readme.py": "nothing: long",
    "tests/jepsen/": "nothing: long",
}
"""Folders and files whose tests stay together and come first, and what they share."""


def processes() -> int:
    """How many there should be: two more than cores, as most tests wait for a server most of the time.

    With one more, a whole run on two cores used 63 % of them, with set-up.
    """
    return (os.cpu_count() or 1) + 2


def group(test: str) -> str:
    """What a test stays together with: the folder or the file that it is in."""
    file = test.partition("::")[0]
    return next((folder for folder in FIRST if file.startswith(folder)), file)


def turn(test: str) -> int:
    """When its turn is: the folders of FIRST, then all others."""
    return [*FIRST, group(test)].index(group(test))
