"""`python -m tests.commit_message FILE`: refuses a commit message that breaks the rules of CONTRIBUTING.md.

pre-commit calls it with git's file; tests/test_tidy.py applies the same rule to the last commits.
"""

import sys
from pathlib import Path

SUBJECT_CHARS_MAX = 72
"""What git and the pages of a repository show of a subject without cutting it."""
BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")
"""How the subjects begin that git writes itself."""


def complaints(message: str) -> list[str]:
    """What is wrong with a message; lines that begin with # are git's remarks."""
    lines = [line.rstrip() for line in message.splitlines() if not line.startswith("#")]
    subject, *rest = lines or [""]
    if subject.startswith(BY_GIT):
        return []
    if not subject:
        return ["the first line is the subject: say there what the commit does"]
    wrong = []
    if len(subject) > SUBJECT_CHARS_MAX:
        wrong.append(f"the subject has {len(subject)} characters, of at most {SUBJECT_CHARS_MAX}: {subject!r}")
    if subject.endswith("."):
        wrong.append(f"the subject is a title, without a full stop: {subject!r}")
    if rest and rest[0]:
        wrong.append("leave a blank line between the subject and the body")
    return wrong


if __name__ == "__main__":
    sys.exit("\n".join(complaints(Path(sys.argv[1]).read_text())) or None)
