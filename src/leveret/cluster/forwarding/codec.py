"""Requests and their answers as they pass between nodes: a stream for each request.

    asks:    OPEN edge, shard or none, version of the catalog, request (JSON) | DATA body, in pieces
    answers: DATA status, content type, headers (JSON), line feed, begin of the body | DATA more of it | CLOSE

A CLOSE before any answer says that nothing was done; one with a reason, after the answer has begun, that some of it is
missing. Credentials stay where they came to: the request says who it is.
"""

from __future__ import annotations

from typing import Any

from leveret.cluster.rpc.wire import packed, unpacked
from leveret.core.errors import InvalidArgument
from leveret.protocols.http.request import HttpPeer, Request
from leveret.protocols.http.response import Response, Streamed
from leveret.security.identity import Identity

BODY_BYTES_MAX = 64 << 20  # of one request or answer, more than any server lets in
PIECE_BYTES = 256 << 10  # of a body: what others say comes in between
SECRET_HEADERS = frozenset((b"authorization", b"cookie", b"x-amz-security-token"))


def request_head(request: Request) -> dict[str, Any]:
    """All of a request but its body and the credentials of its sender."""
    who, peer = request.identity, request.peer
    return {
        "method": request.method,
        "target": request.target.decode("latin-1"),
        "headers": {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in request.headers.items()
            if name not in SECRET_HEADERS
        },
        "peer": [peer.host, peer.port, peer.tls, peer.certificate_name],
        "version": request.version,
        "identity": None if who is None else who.to_list(),
        "size": len(request.body),
    }


def request_of(head: dict[str, Any]) -> tuple[Request, int]:
    """The reverse: a request, and how many bytes its body has; raises what another node should not have said."""
    try:
        headers = {name.encode("latin-1"): value.encode("latin-1") for name, value in head["headers"].items()}
        target = head["target"].encode("latin-1")
        request = Request(str(head["method"]), target, headers, HttpPeer(*head["peer"]), str(head["version"]))
        if head["identity"] is not None:
            request.identity = Identity.from_list(head["identity"])
        size = int(head["size"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument(f"no request: {error}") from None
    if not 0 <= size <= BODY_BYTES_MAX:
        raise InvalidArgument(f"a request of {size} bytes from another node: at most {BODY_BYTES_MAX}")
    return request, size


def answer_head(answer: Response | Streamed) -> bytes:
    """All of an answer but its body."""
    head: dict[str, Any] = {"status": answer.status, "type": answer.content_type, "headers": list(answer.headers)}
    if isinstance(answer, Streamed):
        head["parts"], head["length"] = True, answer.length
    return packed(head) + b"\n"


def answer_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The head of an answer, and the begin of its body."""
    head, _, rest = data.partition(b"\n")
    try:
        told = unpacked(head)
        told["headers"] = tuple((str(name), str(value)) for name, value in told["headers"])
        told["status"] = int(told["status"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"no answer: {error}") from None
    return told, rest
