"""Bodies: bytes, text or anything that JSON can say, each with the content type that tells them apart.

bytes   application/octet-stream            str     text/plain; charset=utf-8
else    application/json, compact
"""

import json
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.properties import Properties, encode_header

BYTES_TYPE = "application/octet-stream"
TEXT_TYPE = "text/plain; charset=utf-8"
JSON_TYPE = "application/json"
PERSISTENT_MODE = 2

_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def _header(content_type: str) -> bytes:
    """The content header of a message without other properties."""
    return encode_header(Properties(content_type=content_type, delivery_mode=PERSISTENT_MODE), 0)


HEADERS: dict[str, bytes] = {each: _header(each) for each in (BYTES_TYPE, TEXT_TYPE, JSON_TYPE)}


def encode(body: Any) -> tuple[str, bytes]:
    """The content type and the bytes of a body."""
    if isinstance(body, bytes):
        return BYTES_TYPE, body
    if isinstance(body, bytearray | memoryview):
        return BYTES_TYPE, bytes(body)
    if isinstance(body, str):
        return TEXT_TYPE, _encoded(body)
    try:
        return JSON_TYPE, _encoded(_dumps(body))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the body is not bytes, text or JSON: {error}; encode it yourself to bytes") from None


def decode(content_type: str | None, data: bytes) -> Any:
    """The body as it was sent."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    try:
        if kind == JSON_TYPE:
            return json.loads(data)
        if kind == "text/plain":
            return data.decode()
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the body is not what its content type {kind} says ({error}): use .data") from None
    return data


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("the body has text that is not valid Unicode: send it as bytes") from None
