"""`leveret status`: how the broker is."""

from argparse import ArgumentParser, Namespace

from leveret.cli import target
from leveret.cli.command import Command
from leveret.cli.output import as_json, as_list


def configure(parser: ArgumentParser) -> None:
    """Its arguments."""
    target.add_flags(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: Namespace) -> int:
    """Print what the server, or its data directory, says about itself."""
    with target.operator(given) as operator:
        facts = operator.call("status")
    print(as_json(facts) if given.json else as_list(facts))
    return 0


COMMAND = Command("status", "show how much is in the broker", configure, run, ("leveret status --json",))
