"""Moving messages from a queue to another, which RabbitMQ leaves to shovels."""

from __future__ import annotations

from collections.abc import Awaitable

from leveret.core.filters import Filter
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.refusals import BadRequest, answer
from leveret.runtime.redrive import Redrive, RedriveResult
from leveret.security.authorisation import Role


def move(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Move what waits to another queue, or each message to where it died first."""
    to = call.field("destination", str) if "destination" in call.body else None
    limit = call.field("limit", int) if "limit" in call.body else None
    if limit is not None and limit < 1:
        raise BadRequest("limit is a number of messages, at least 1")
    async_broker = call.context.async_broker
    with async_broker.runtime as core:
        queue = call.queue(core)
        names: dict[Role, str] = {"queue": queue.name, **({} if to is None else {"destination_queue": to})}
        call.authorize("queue.redrive", names)
        core.check_owner(queue, None)
        if to is not None and (to in call.virtual_host(core).queues or core.away is None):
            core.check_owner(call.virtual_host(core).queue(to), None)

    def moves_to(name: str) -> bool:
        return call.allows("queue.redrive", {"queue": queue.name, "destination_queue": name})

    redrive = Redrive(async_broker.runtime, queue, to, Filter(), limit, None, False, moves_to)
    return _moved(async_broker.in_thread(lambda: redrive.run(None)))


async def _moved(running: Awaitable[RedriveResult]) -> Answer:
    result = await running
    return answer({"matched": result.matched, "moved": result.moved, "skipped": result.skipped})
