"""`leveret doctor`: explain a data directory. It changes nothing, and needs no server, unless that is a node's."""

import os
from argparse import Namespace
from pathlib import Path

from leveret.cli.doctor import cluster
from leveret.cli.doctor.examination import bytes_to_read, examine, sizes
from leveret.cli.doctor.report import advice, advice_on_lists, report
from leveret.cli.output import ProgressLine, as_json, in_bytes
from leveret.cli.parser import JSON, Command, argument
from leveret.clock import SystemClock
from leveret.runtime.options import options_of
from leveret.runtime.storage import journal_options
from leveret.server.control_client import is_remote
from leveret.server.settings import broker_options, server_options, variable


def run(given: Namespace) -> int:
    """Examine and explain; fails when something is damaged, or not all of a cluster is at work."""
    settings = server_options({} if given.data is None else {"data": given.data}, os.environ, given.config)
    path, check = Path(settings.data), not given.quick
    if is_remote(settings.data):
        told = cluster.examine(path, advice_on_lists(settings, SystemClock().now_ms()))
        print(as_json(told) if given.json else cluster.report(told))
        return 0 if cluster.is_well(told) else 1
    options = journal_options(options_of(broker_options(settings)))
    total = bytes_to_read(sizes(path), check)
    with ProgressLine("reading", total, in_bytes) as progress:
        found = examine(path, options, check, progress.add)
    found.advice = advice(found, advice_on_lists(settings, found.examined_ms))
    print(as_json(found.as_dict()) if given.json else report(found))
    return 0 if found.sound or found.holder is not None else 1


ARGUMENTS = (
    argument("data", metavar="DIR", nargs="?", help=f"the data directory; default: ${variable('data')}, or data"),
    argument("--config", metavar="FILE", help="configuration file of the server; says where the keys are"),
    argument("--quick", action="store_true", help="read only what a server reads when it starts"),
    JSON,
)
COMMAND = Command(
    ARGUMENTS,
    run,
    ("leveret doctor", "leveret doctor --quick --json"),
)
