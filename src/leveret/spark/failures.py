"""What a failure of Spark is about: mostly one of ours, somewhere in pages of Java and Python."""

import re

from leveret.core import errors
from leveret.core.errors import LeveretError

_OURS = re.compile(r"^\s*leveret\.core\.errors\.(\w+): (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^\s*[\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)


def refusal(text: str) -> LeveretError:
    """The error that caused a failure: ours, as it was raised in a task, or one with the line that tells most."""
    if ours := _OURS.findall(text):
        name, says = ours[-1]
        kind = getattr(errors, name, None)
        return kind(says) if isinstance(kind, type) and issubclass(kind, LeveretError) else LeveretError(says)
    told = _PYTHON.findall(text) or text.strip().splitlines() or ["nothing was told"]
    return LeveretError(f"Spark failed: {told[-1] if _PYTHON.search(text) else told[0]}; --log FILE keeps all of it")
