"""Reports that `leveret pipeline report` has left in the directory of reports, in which each has one of its own.

reports_dir/NAME/index.html         the page; its writer decides what it says, so browsers run none of it
reports_dir/NAME/summary.txt        the same for a terminal
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

from leveret.core.errors import NotFound
from leveret.protocols.http.cluster import awaited
from leveret.protocols.http.response import Answer, Response, page_headers
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.listing import listed
from leveret.protocols.management.refusals import NO_CACHE, answer

PAGE, SUMMARY = "index.html", "summary.txt"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
REPORTS_MAX = 1_000  # that are told of, the newest ones
PAGE_BYTES_MAX = 32 << 20
SUMMARY_CHARS_MAX = 20_000
# Of an origin of its own and without scripts: it is a file, and may say anything.
POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
HEADERS = (*page_headers(POLICY, framed=True), *NO_CACHE)


class Reports:
    """The reports in a directory; without one there are none. Reads files: not for the event loop."""

    def __init__(self, folder: str | None) -> None:
        self._folder = None if folder is None else Path(folder)

    def rows(self) -> list[dict[str, Any]]:
        if self._folder is None or not self._folder.is_dir():
            return []
        with os.scandir(self._folder) as entries:
            names = [each.name for each in entries if NAME.fullmatch(each.name) and each.is_dir()]
        rows = [row for row in map(self._row, names) if row is not None]
        return sorted(rows, key=lambda row: (-row["made_at"], row["name"]))[:REPORTS_MAX]

    def _row(self, name: str) -> dict[str, Any] | None:
        try:
            found = self._file(name, PAGE).stat()
        except NotFound:
            return None
        return {"name": name, "made_at": int(found.st_mtime * 1000), "bytes": found.st_size}

    def page(self, name: str) -> bytes:
        path = self._file(name, PAGE)
        if path.stat().st_size > PAGE_BYTES_MAX:
            raise NotFound(f"the page of report '{name}' is over {PAGE_BYTES_MAX} bytes: open it as a file")
        return path.read_bytes()

    def summary(self, name: str) -> str:
        """Its summary; "" if there is none."""
        self._file(name, PAGE)
        try:
            with self._file(name, SUMMARY).open(encoding="utf-8", errors="replace") as file:
                return file.read(SUMMARY_CHARS_MAX)
        except NotFound:
            return ""

    def _file(self, name: str, which: str) -> Path:
        """A file of a report; neither names nor links lead out of the directory."""
        if self._folder is not None and NAME.fullmatch(name):
            home, path = self._folder.resolve(), (self._folder / name / which).resolve()
            if path.is_relative_to(home) and path.is_file():
                return path
        raise NotFound(f"no report '{name}': `leveret pipeline report --out` makes one in the directory of reports")


async def list_all(call: ManagementCall) -> Answer:
    """All of them, the newest first."""
    return await awaited(listed(call, await asyncio.to_thread(call.context.reports.rows)))


async def look(call: ManagementCall) -> Answer:
    """What one says in words."""
    name = call.named("report")
    return answer({"name": name, "summary": await asyncio.to_thread(call.context.reports.summary, name)})


async def page(call: ManagementCall) -> Answer:
    """Its page, for a browser."""
    body = await asyncio.to_thread(call.context.reports.page, call.named("report"))
    return Response(200, body, "text/html; charset=utf-8", HEADERS)
