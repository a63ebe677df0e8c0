"""Which version this is."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    """The version that is installed; a source tree that is not has none."""
    try:
        return installed("leveret")
    except PackageNotFoundError:
        return "0"
