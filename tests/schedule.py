"""Which tests run in the same process when there are several, and in which order.

The tests of a file stay together: what they share is made once. So do those of some folders, which share more. They
come first, the longest before the others, so that the processes end at about the same time.
"""

FIRST = {
    "tests/pipeline/": "one Java for Spark",
    "tests/rabbitmq/": "a server that has played all scenarios",
    "tests/console/": "one browser, and a server at work",
    "tests/jepsen/": "nothing; nobody should wait for it alone",
}
"""Folders whose tests stay together, and what they share."""


def group(test: str) -> str:
    """What a test stays together with: the folder or the file that it is in."""
    file = test.partition("::")[0]
    return next((folder for folder in FIRST if file.startswith(folder)), file)


def turn(test: str) -> int:
    """When its turn is: the folders of FIRST, then all others."""
    return [*FIRST, group(test)].index(group(test))
