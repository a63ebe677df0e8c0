"""Reports that `leveret pipeline report` has left in the directory of reports."""

from __future__ import annotations

import asyncio

from leveret.protocols.http.response import Response, page_headers
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.listing import listed
from leveret.protocols.management.refusals import NO_CACHE, answer

# Of an origin of its own and without scripts: it is a file, and may say anything.
POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
HEADERS = (*page_headers(POLICY, framed=True), *NO_CACHE)


async def list_all(call: ManagementCall) -> Answer:
    """All of them, the newest first."""
    found = listed(call, await asyncio.to_thread(call.context.reports.rows))
    return found if isinstance(found, Answer) else await found


async def look(call: ManagementCall) -> Answer:
    """What one says in words."""
    name = call.named("report")
    return answer({"name": name, "summary": await asyncio.to_thread(call.context.reports.summary, name)})


async def page(call: ManagementCall) -> Answer:
    """Its page, for a browser."""
    body = await asyncio.to_thread(call.context.reports.page, call.named("report"))
    return Response(200, body, "text/html; charset=utf-8", HEADERS)
