"""The verbs of sinks as requests: stage a piece, commit a batch, drop parts. All of them may be repeated."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from leveret.client.calls import ClientCall
from leveret.http_client import Answer


class BatchProgress(NamedTuple):
    """How far a batch is."""

    published: bool
    done: int
    dropped: int


def put_piece(sink: str, part: str, piece: int, data: bytes) -> ClientCall[int]:
    """Stage a piece; gives the number of its rows."""
    return ClientCall("PUT", f"/sinks/{quote(sink, safe='')}/parts/{part}/{piece}", _rows, data)


def commit_batch(
    sink: str, batch: int, parts: Sequence[tuple[str, int]], rows: int, **options: Any
) -> ClientCall[BatchProgress]:
    """Publish a batch of parts, each with the number of its pieces; `options` are those of the REST API."""
    named = [{"part": part, "pieces": pieces} for part, pieces in parts]
    body = {"parts": named, "rows": rows, **options}
    return ClientCall("POST", f"/sinks/{quote(sink, safe='')}/batches/{batch}", _progress, body)


def abort_parts(sink: str, parts: Sequence[str]) -> ClientCall[None]:
    """Drop staged parts."""
    return ClientCall("POST", f"/sinks/{quote(sink, safe='')}/abort", lambda answer: None, {"parts": list(parts)})


def _rows(answer: Answer) -> int:
    return int(answer.json()["rows"])


def _progress(answer: Answer) -> BatchProgress:
    told = answer.json()
    return BatchProgress(told["state"] == "published", told["done"], told["dropped"])
