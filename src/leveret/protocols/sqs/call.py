"""One request after decoding: the same for both protocols."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote

from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.parameters import Parameters, required

if TYPE_CHECKING:
    from leveret.protocols.sqs.account import Account
    from leveret.protocols.sqs.queues import SqsQueue

Answer = Response | Awaitable[Response]


class Wire(Protocol):
    """A protocol: a module with these functions."""

    decode: Callable[[Request], tuple[str, Parameters]]
    encode: Callable[[str, dict[str, Any] | None, str], Response]
    refuse: Callable[[SqsError, str], Response]
    answer_text: Callable[[bytes, str], Response] | None
    """Answers with a result that is text already; None when the protocol has another form."""


class SqsCaller(NamedTuple):
    """Who sent a request; without a user when signatures are not checked."""

    user: str | None
    arn: str
    host: str
    tls: bool


class SqsCall:
    """An action with its parameters."""

    __slots__ = ("account", "action", "caller", "parameters", "request", "request_id", "wire")

    def __init__(
        self,
        account: Account,
        wire: Wire,
        request_id: str,
        action: str,
        parameters: Parameters,
        caller: SqsCaller,
        request: Request,
    ) -> None:
        self.account = account
        self.wire = wire
        self.request_id = request_id
        self.action = action
        self.parameters = parameters
        self.caller = caller
        self.request = request

    def answer(self, result: dict[str, Any] | None = None) -> Response:
        """The answer with a result."""
        return self.wire.encode(self.action, result, self.request_id)

    def durable(self, commit_batch: int, result: dict[str, Any] | None = None) -> Answer:
        """The answer with a result, when a commit batch of the journal is on the disk."""
        return self.account.async_broker.when_durable(commit_batch, self.answer(result))

    @property
    def in_json(self) -> bool:
        """Whether results may be given as text in JSON."""
        return self.wire.answer_text is not None

    def answer_text(self, text: bytes) -> Response:
        """The answer with a result in JSON."""
        assert self.wire.answer_text is not None, "text is made only for that protocol"
        return self.wire.answer_text(text, self.request_id)

    def queue(self) -> SqsQueue:
        """The queue that the request is about."""
        return self.account.queues.of_url(required(self.parameters, "QueueUrl"))

    def url(self, queue: SqsQueue) -> str:
        """The URL of a queue, on the server as this client sees it."""
        server = f"{'https' if self.caller.tls else 'http'}://{self.request.header(b'host')}"
        return f"{server}/{self.account.settings.account}/{quote(queue.name, safe='', errors='surrogateescape')}"
