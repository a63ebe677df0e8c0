"""A request to a shard that another node has: mostly it is answered, and needs no task of its own.

asked ---- answered -----------------------------------------------> done
  '------- not done, or lost ----> a task looks for the next owner -> done
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from leveret.cluster.forwarding.request import NOTHING, ForwardedRequest, NotDone
from leveret.core.errors import Unreachable
from leveret.protocols.http.request import Refusal
from leveret.protocols.http.response import Response, Streamed
from leveret.runtime.pending import PendingAnswer

Answer = Response | Streamed
Find = Callable[[Exception], Coroutine[Any, Any, Answer]]


class PendingForward(PendingAnswer[Answer]):
    """One request."""

    def __init__(self, sent_request: ForwardedRequest, find: Find, ended: Callable[[PendingForward], None]) -> None:
        """Wait for a node; `find` asks the next one, `ended` is told when it is not waited for any more."""
        super().__init__(NOTHING)
        self._find = find
        self._ended = ended
        self._work: ForwardedRequest | asyncio.Task[Answer] = sent_request
        sent_request.add_done_callback(self._heard)

    def cancel(self) -> None:
        if not self.done:
            super().cancel()
            self._work.cancel()
            self._ended(self)

    def cut_off(self) -> None:
        """This node stops: the waiting client is to ask another one."""
        self._work.cancel()
        self._finish(Refusal(503, "the server is stopping: try another one"))

    def __await__(self) -> Generator[object, None, Answer]:
        """See PendingAnswer; a task that is cancelled waits for nothing any more."""
        try:
            return (yield from super().__await__())
        except BaseException:
            self.cancel()
            raise

    def _heard(self, sent_request: PendingAnswer[Answer]) -> None:
        """The node has answered, or will not."""
        error = sent_request.exception()
        if isinstance(error, NotDone | Unreachable):
            self._work = task = asyncio.ensure_future(self._find(error))
            task.add_done_callback(self._found)
        else:
            self._take(sent_request)

    def _found(self, task: asyncio.Task[Answer]) -> None:
        if not task.cancelled():
            self._take(task)

    def _take(self, work: PendingAnswer[Answer] | asyncio.Task[Answer]) -> None:
        error = work.exception()
        if error is None:
            self._value = work.result()
        assert error is None or isinstance(error, Exception), "a task that was cancelled has none"
        self._finish(error)

    def _finish(self, error: Exception | None) -> None:
        self._ended(self)
        self.finish(error)
