"""Requests of the client as bytes."""

import json
from typing import Any


def request_bytes(method: str, path: str, head: str, body: Any, key: str | None) -> bytes:
    """A request; `head` are the lines that all requests of a client have. Bytes are sent as they are."""
    is_bytes = isinstance(body, bytes)
    data = body if is_bytes else b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    lines = f"{method} {path} HTTP/1.1\r\n{head}"
    if key is not None:
        lines += f"Idempotency-Key: {key}\r\n"
    if data or method in ("POST", "PUT", "PATCH"):
        kind = "octet-stream" if is_bytes else "json"
        lines += f"Content-Type: application/{kind}\r\nContent-Length: {len(data)}\r\n"
    return f"{lines}\r\n".encode() + data
