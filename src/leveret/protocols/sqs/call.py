"""One request after decoding: the same for both protocols."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from leveret.core.errors import LeveretError
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.errors import SqsError, sqs_error
from leveret.protocols.sqs.loops import in_order
from leveret.protocols.sqs.wire import ENTRY_ID_CHARS_MAX, TYPES, Parameters, Wire, answer_text, check_types, required

if TYPE_CHECKING:
    from leveret.protocols.sqs.account import Account
    from leveret.protocols.sqs.queues import SqsQueue

Answer = Response | Awaitable[Response]
ENTRIES_MAX = 10

_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{ENTRY_ID_CHARS_MAX}}}")


class SqsCaller(NamedTuple):
    """Who sent a request; without a user when signatures are not checked."""

    user: str | None
    arn: str
    host: str
    tls: bool


@dataclass(slots=True, eq=False)
class SqsCall:
    """An action with its parameters."""

    account: Account
    wire: Wire
    request_id: str
    action: str
    parameters: Parameters
    caller: SqsCaller
    request: Request

    def answer(self, result: dict[str, Any] | None = None) -> Response:
        return self.wire.encode(self.action, result, self.request_id)

    def durable(self, commit_batch: int, result: dict[str, Any] | None = None) -> Answer:
        """The answer with a result, when a commit batch of the journal is on the disk."""
        return self.account.async_broker.when_durable(commit_batch, self.answer(result))

    @property
    def in_json(self) -> bool:
        return self.wire.has_text

    def answer_text(self, text: bytes) -> Response:
        assert self.wire.has_text, "text is made only for that protocol"
        return answer_text(text, self.request_id)

    def queue(self) -> SqsQueue:
        return self.account.queues.of_url(required(self.parameters, "QueueUrl"))

    def url(self, queue: SqsQueue) -> str:
        """The URL of a queue, on the server as this client sees it."""
        server = f"{'https' if self.caller.tls else 'http'}://{self.request.header(b'host')}"
        return f"{server}/{self.account.settings.account}/{quote(queue.name, safe='', errors='surrogateescape')}"


def batch_entries(call: SqsCall) -> list[Parameters]:
    """The entries of a batch, checked as far as they are alike."""
    given = call.parameters.get("Entries") or []
    if not given:
        raise SqsError("EmptyBatchRequest", entry=f"{call.action}RequestEntry")
    if len(given) > ENTRIES_MAX:
        raise SqsError("TooManyEntriesInBatchRequest", count=len(given))
    if not in_order(given, TYPES):
        _refuse_entries(given)
    found: list[Parameters] = given
    return found


def _refuse_entries(given: list[Any]) -> None:
    seen = set()
    for entry in given:
        if not isinstance(entry, dict):
            raise SqsError("Serialization", "an entry of a batch is a structure")
        check_types(entry)
        name = entry.get("Id")
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise SqsError("InvalidBatchEntryId")
        if name in seen:
            raise SqsError("BatchEntryIdsNotDistinct", id=name)
        seen.add(name)


def failed_entry(entry: Parameters, error: LeveretError) -> dict[str, Any]:
    """The outcome of an entry that was refused."""
    known = sqs_error(error)
    # A missing parameter of an entry is a wrong value of the batch, and the texts differ a little.
    code = "InvalidParameterValue" if known.kind == "MissingParameter" else known.fault.code
    text = str(known).replace("parameters are invalid", "parameters cannot be validated")
    return {"Id": entry["Id"], "Code": code, "Message": text, "SenderFault": known.fault.status < 500}


def batch_result(successful: list[dict[str, Any]], refused: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of a batch; a list without members is left out."""
    result: dict[str, Any] = {"Successful": successful}
    if refused:
        result["Failed"] = refused
    return result


def for_each_entry(given: list[Parameters], act: Callable[[Parameters], None]) -> dict[str, Any]:
    """Do something for every entry, whatever becomes of the others."""
    successful: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for entry in given:
        try:
            act(entry)
        except LeveretError as error:
            refused.append(failed_entry(entry, error))
        else:
            successful.append({"Id": entry["Id"]})
    return batch_result(successful, refused)
