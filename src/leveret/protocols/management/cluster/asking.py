"""Questions to shards and nodes in the name of the user that asks, and what they answer, as values."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

from leveret.core.errors import LeveretError, TooMany, Unreachable
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response, Streamed
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Nodes

UNANSWERED = "X-Leveret-Unanswered"
"""The nodes and shards that an answer lacks: they did not answer in time."""
ASKED_S = 2.0
TOLD_BYTES_MAX = 64 << 20  # of one answer: all of it is in memory
REFUSED, FAILED = 400, 500

T = TypeVar("T")


class Told(NamedTuple):
    """What some have answered, by their names; who has not; and the answer of one who refuses, as all would."""

    by: dict[str, Any]
    unanswered: list[str]
    refusal: Answer | None


def nodes_of(call: ManagementCall) -> Nodes:
    """The cluster of the node that is asked."""
    assert call.context.nodes is not None, "only nodes have these endpoints"
    return call.context.nodes


def request_like(call: ManagementCall, target: bytes, method: str = "GET", body: bytes = b"") -> Request:
    """Another request of the same user."""
    asked = call.request
    made = Request(method, target, {b"content-type": b"application/json"}, asked.peer)
    made.identity, made.body = asked.identity, body
    return made


async def value_of(answer: Answer) -> Any:
    """What an answer says."""
    body = answer.body if isinstance(answer, Response) else await _joined(answer)
    return json.loads(body) if body else None


async def _joined(answer: Streamed) -> bytes:
    parts: list[bytes] = []
    size_bytes = 0
    async with aclosing(answer.parts) as stream:
        async for part in stream:
            size_bytes += len(part)
            if size_bytes > TOLD_BYTES_MAX:
                raise TooMany(f"another node has over {TOLD_BYTES_MAX} bytes to tell: ask for some by name")
            parts.append(part)
    return b"".join(parts)


async def ask_nodes(call: ManagementCall, request: Request | None = None) -> Told:
    """What every node answers; the one that is asked decides what is refused."""
    nodes = nodes_of(call)
    answers = await nodes.everywhere(request or call.request)
    own = answers.get(nodes.name)
    if own is not None and own.status >= REFUSED:
        return Told({}, [], own)
    told = await values_of(answers)
    return Told(told, sorted(name for name in nodes.names if name not in told), None)


async def ask_shards(call: ManagementCall, requests: dict[str, Request], timeout_s: float | None = ASKED_S) -> Told:
    """What shards answer, each to its own request; without a time, whether they do is for the forwarder to say."""
    answers = await _in_time({shard_id: _asked(call, shard_id, each) for shard_id, each in requests.items()}, timeout_s)
    refusal = next((each for each in answers.values() if REFUSED <= each.status < FAILED), None)
    told = await values_of(answers)
    return Told(told, sorted(f"shard {shard_id}" for shard_id in requests if shard_id not in told), refusal)


async def values_of(answers: Mapping[str, Answer]) -> dict[str, Any]:
    """What those say who have not refused; one that is lost in the middle of its answer is left out, too."""
    good = {name: _whole(each) for name, each in answers.items() if each.status < REFUSED}
    told = await _in_time(good, ASKED_S)
    return {name: said[0] for name, said in told.items() if said}


async def _whole(answer: Answer) -> tuple[Any] | tuple[()]:
    try:
        return (await value_of(answer),)
    except Unreachable:
        return ()


async def _in_time(asked: Mapping[str, Coroutine[Any, Any, T]], timeout_s: float | None) -> dict[str, T]:
    """What comes of some, of those that are done in time."""
    waiting = {name: asyncio.ensure_future(each) for name, each in asked.items()}
    if waiting:
        await asyncio.wait(waiting.values(), timeout=timeout_s)
    late = [task for task in waiting.values() if not task.done()]
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return {name: task.result() for name, task in waiting.items() if not task.cancelled()}


async def _asked(call: ManagementCall, shard_id: str, request: Request) -> Answer:
    try:
        return await awaited(nodes_of(call).ask(shard_id, request))
    except LeveretError as error:
        return _unavailable(error)


def _unavailable(error: LeveretError) -> Response:
    """What stands for the answer of a shard that cannot give one; what it refuses is an answer."""
    return Response(FAILED, str(error).encode())


async def awaited(answer: Answer | Awaitable[Answer]) -> Answer:
    """An answer, at once or later."""
    return await answer if isinstance(answer, Awaitable) else answer


async def marked(answer: Answer | Awaitable[Answer], unanswered: Iterable[str]) -> Answer:
    """An answer that says whose part it lacks."""
    made, lacking = await awaited(answer), list(unanswered)
    if lacking:
        made.headers = (*made.headers, (UNANSWERED, ", ".join(lacking)))
    return made


def unreachable(shard_id: str) -> Unreachable:
    """Why something cannot be told of a shard."""
    return Unreachable(f"shard {shard_id} has no owner that can be reached: try again in a moment")
