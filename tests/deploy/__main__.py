"""`make deploy-check`: one line for each check of deploy/, and what this machine cannot check."""

import sys

from tests.deploy.checks import NotHere
from tests.deploy.table import CHECKS, NEVER_HERE

WIDTH = max(map(len, (*CHECKS, *NEVER_HERE)))


def main() -> int:
    wrong = 0
    for name, check in CHECKS.items():
        try:
            problems = list(check())
        except NotHere as missing:
            print(f"{name:<{WIDTH}}  not checked: {missing}")
            continue
        print(f"{name:<{WIDTH}}  {'wrong' if problems else 'ok'}")
        wrong += len(problems)
        for problem in problems:
            print(f"    {problem}")
    for name, reason in NEVER_HERE.items():
        print(f"{name:<{WIDTH}}  never run by this: {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
