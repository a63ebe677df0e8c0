"""Calls: what one node lets another one do, which may take its time.

{"call": "move", "about": {"shard": 5, "group": 1}}
{"result": ...} or {"error": "PreconditionFailed", "message": "..."}
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from leveret.cluster.rpc.link import PeerLink
from leveret.core import errors
from leveret.core.errors import InvalidArgument, LeveretError, NotSupported, Unreachable
from leveret.observability.logs import Log

LOG = Log("node")

Work = Callable[[dict[str, Any]], Awaitable[Any]]
"""Takes what the call is about; gives what is fit for JSON."""


class CallHandlers:
    """Those that a node runs for others."""

    def __init__(self) -> None:
        self.works: dict[str, Work] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, asked: dict[str, Any], answer: Callable[[bytes], None]) -> None:
        """Do what another node asks for, then answer."""
        work, about = self.works.get(str(asked["errand"])), asked.get("about")
        if work is None or not isinstance(about, dict):
            raise InvalidArgument("this node does not know it: are the nodes of different versions?")
        task = asyncio.create_task(_done(work(about), answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _done(work: Awaitable[Any], answer: Callable[[bytes], None]) -> None:
    """Tell what came of it."""
    try:
        told = {"result": await work}
    except LeveretError as error:
        told = {"error": type(error).__name__, "message": str(error)}
    except Exception as error:
        LOG.error("errand failed", error)
        told = {"error": LeveretError.__name__, "message": "the node failed: its log says why"}
    answer(json.dumps(told).encode())


async def call(link: PeerLink | None, call_name: str, about: dict[str, Any], timeout_s: float) -> Any:
    """Let another node do something; give what came of it, or raise what it refused with."""
    answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def settle(data: bytes | None) -> None:
        if not answered.done():
            answered.set_result(data)

    if link is None:
        raise Unreachable("there is no link to the node")
    link.ask(json.dumps({"errand": call_name, "about": about}).encode(), settle)
    try:
        data = await asyncio.wait_for(answered, timeout_s)
    except TimeoutError:
        raise Unreachable("the node has not answered in time: it may still do it") from None
    if data is None:
        raise Unreachable("the link to the node was lost: it may still do it")
    told = json.loads(data)
    if "refused" in told:
        raise NotSupported(f"the node does not run the errand '{call_name}': {told['refused']}")
    if "error" in told:
        raise _error(str(told["error"]), str(told.get("message")))
    return told["result"]


def _error(name: str, message: str) -> LeveretError:
    """An error of another node."""
    kind = getattr(errors, name, LeveretError)
    return kind(message) if isinstance(kind, type) and issubclass(kind, LeveretError) else LeveretError(message)
