"""A server as its clients see it: leveret.connect()."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from weakref import WeakSet

from leveret.client import calls, stream_calls
from leveret.client.calls import ClientCall, Row
from leveret.client.exchange import RemoteExchange
from leveret.client.pool import AnswerLost, Pool
from leveret.client.queue import RemoteQueue
from leveret.client.retry import Again
from leveret.client.stream import RemoteStream
from leveret.client.target import URL, ClientOptions, ClientTarget
from leveret.clock import SystemClock
from leveret.core.errors import BrokerClosed, ExchangeNotFound
from leveret.embedded.worker import Worker

T = TypeVar("T")


class RemoteBroker:
    """A broker on a server, from leveret.connect(); safe to use from any number of threads.

    The verbs are those of leveret.Broker and its queues. A request whose answer is lost is sent again, with an
    Idempotency-Key if it sends a message, so that it is never there twice.
    """

    def __init__(self, target: ClientTarget) -> None:
        self.clock = SystemClock()
        self.running: WeakSet[Worker] = WeakSet()
        self._target = target
        self._pool = Pool(target.servers)
        self.new_key = target.new_key
        self._closed = threading.Event()

    def run(self, call: ClientCall[T]) -> T:
        """Ask until there is an answer, or no hope."""
        request, attempts = partial(self._target.request, call), self._target.attempts()
        while True:
            if self._closed.is_set():
                raise BrokerClosed("the client was closed: open it again with leveret.connect()")
            try:
                timeout_s = self._target.timeout_s + call.wait_s
                answer = self._pool.ask(request, timeout_s, call.wait_s > 0, call.again)
            except AnswerLost as lost:
                delay_s = attempts.lost(call, lost.sent, lost.reason)
            else:
                found = attempts.answered(call, answer)
                if not isinstance(found, Again):
                    return found
                delay_s = found.delay_s
            self._closed.wait(delay_s)

    def queue(
        self,
        name: str,
        *,
        declare: bool = True,
        durable: bool = True,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> RemoteQueue:
        """The queue of that name, made if need be; options that contradict an existing one are refused.

        declare=False asks nothing: for those who may only send or receive.
        """
        row = self.run(calls.declare(name, durable, arguments, options)) if declare else None
        return RemoteQueue(self, name, row)

    def queues(self) -> list[RemoteQueue]:
        """Every queue that one may use, by name."""
        return [RemoteQueue(self, row["name"], row) for row in self._all(calls.list_queues)]

    def stream(
        self,
        name: str,
        *,
        declare: bool = True,
        partitions: int | None = None,
        max_age: str | float | timedelta | None = None,
        max_bytes: int | None = None,
        segment_bytes: int | None = None,
    ) -> RemoteStream:
        """The stream of that name, made if need be; options that contradict an existing one are refused.

        declare=False asks nothing: for those who may only send or read.
        """
        called = stream_calls.declare(name, partitions, max_age, max_bytes, segment_bytes)
        return RemoteStream(self, name, self.run(called) if declare else None)

    def streams(self) -> list[RemoteStream]:
        """Every stream that one may use, by name."""
        return [RemoteStream(self, row["name"], row) for row in self._all(stream_calls.list_streams)]

    def _all(self, page: Callable[[str], ClientCall[tuple[list[Row], str | None]]]) -> Iterator[Row]:
        """The rows of all pages of a list."""
        after: str | None = ""
        while after is not None:
            rows, after = self.run(page(after))
            yield from rows

    def exchange(self, name: str, type: str | None = None, **options: Any) -> RemoteExchange:
        """The exchange of that name, made if need be (direct unless told otherwise)."""
        if type is None:
            try:
                self.run(calls.describe_exchange(name))
                return RemoteExchange(self, name)
            except ExchangeNotFound:
                type = "direct"
        self.run(calls.declare_exchange(name, {"type": type, **options}))
        return RemoteExchange(self, name)

    def rest(self, seconds: float) -> None:
        """Do nothing for a while, or until the client is closed."""
        self._closed.wait(seconds)

    def flush(self) -> None:
        """Everything that was answered is durable already; here because the embedded broker has it."""

    def close(self) -> None:
        """Let workers finish, then close the connections; once more is no error."""
        for worker in list(self.running):
            worker.stop()
        self._closed.set()
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteBroker {self._target.servers!r}>"


def connect(url: str = URL, **options: Unpack[ClientOptions]) -> RemoteBroker:
    """A client of the server at a URL, which may have a user and a password in it; nothing is asked yet.

    Several URLs, separated by commas, are those of nodes of a cluster: when one fails, the next one is asked.

    Options: `token`; `tls`, an ssl.SSLContext; `timeout` in seconds, for each attempt; `retries`; `vhost`, the virtual
    host, "/" unless told otherwise; with `idempotent=False` messages carry no key, and one whose fate is unknown raises
    Unreachable instead of being sent again.
    """
    return RemoteBroker(ClientTarget(url, **options))
