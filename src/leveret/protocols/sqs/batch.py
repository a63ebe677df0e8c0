"""The entries of a batch: how they are checked, and what is told about each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from leveret.core.errors import LeveretError
from leveret.protocols.sqs.errors import SqsError, sqs_error
from leveret.protocols.sqs.loops import in_order
from leveret.protocols.sqs.wire import ENTRY_ID_CHARS_MAX, TYPES, Parameters, SqsCall, check_types

ENTRIES_MAX = 10

_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{ENTRY_ID_CHARS_MAX}}}")


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
