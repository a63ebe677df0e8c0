"""`leveret audit`: list the audit log, and check that its files are whole."""

import os
from argparse import Namespace
from typing import Any

from leveret.cli import objects, target
from leveret.cli.output import as_json, print_table
from leveret.cli.parser import JSON, Command, Word, run_word, worded
from leveret.clock import iso_second
from leveret.core.errors import NotFound
from leveret.observability.audit import FILES, KINDS, Kind
from leveret.observability.chain import ChainHead, Finding, examine
from leveret.observability.row_file import paths
from leveret.server.control import Remote, connected
from leveret.server.settings import server_options

ROWS = ("at", "kind", "by", "act", "outcome", "peer", "count", "about")
FINDINGS = ("log", "state", "rows", "since", "unchained", "torn", "head")
HASH_SHOWN = 16  # characters of a hash in a table; JSON has all of it
NOT_RUNNING = "No server runs on this directory: rows that were cut off at the end are not noticed."


def verify(given: Namespace) -> int:
    """Check every row of every log; fails when one was changed, inserted or removed."""
    options = server_options({} if given.data is None else {"data": given.data}, os.environ, given.config)
    if not os.path.isdir(options.data):
        raise NotFound(f"there is no directory {options.data}: name the data directory of the server by --data")
    heads = heads_of(options.data)
    found = [examine(name, *paths(options.data, name), (heads or {}).get(kind)) for kind, name in FILES.items()]
    if given.json:
        print(as_json({"compared_with_server": heads is not None, "logs": [each.as_dict() for each in found]}))
    else:
        print_table([shown(each) for each in found], FINDINGS)
        for each in found:
            if each.broken is not None:
                print(f"{each.name} is broken at {each.broken}.")
        if heads is None:
            print(NOT_RUNNING)
    return 1 if any(each.broken is not None for each in found) else 0


def heads_of(directory: str) -> dict[Kind, ChainHead] | None:
    """The last rows that the running server has written; None when none runs."""
    connection = connected(directory)
    if connection is None:
        return None
    server = Remote(connection)
    try:
        told = server.call("audit.heads")
    finally:
        server.close()
    return {kind: ChainHead(**told[kind]) for kind in KINDS}


def shown(found: Finding) -> dict[str, Any]:
    """A log as a row of the table."""
    state = "broken" if found.broken is not None else "whole" if found.rows else "empty"
    return {
        "log": found.name,
        "state": state,
        "rows": found.rows,
        "since": None if found.since_ms is None else iso_second(found.since_ms // 1_000) + "Z",
        "unchained": found.unchained,
        "torn": found.torn,
        "head": f"{found.head.seq}:{found.head.hash[:HASH_SHOWN]}" if found.head.seq else None,
    }


WORDS = (
    objects.word("audit.list", objects.rows(ROWS)),
    Word("verify", "check that no row was changed, inserted or removed", (*target.DIRECTORY, JSON), verify),
)
COMMAND = Command(
    worded(WORDS),
    run_word,
    ("leveret audit list --kind refusals", "leveret audit verify"),
)
