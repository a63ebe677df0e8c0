"""JSON that clients send: refused when other languages would refuse it, or when it could not be sent on.

depth     a value inside of more than JSON_DEPTH_MAX others would exhaust the stack of a recursive reader
numbers   NaN, infinities and 1e999 are no JSON; Python would take them, and answers with them would be broken
text      half of a character (\\ud800) cannot be written as UTF-8
"""

import json
import math
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.protocols.http.reader import nesting

JSON_DEPTH_MAX = 200  # answers put a few levels around it, and orjson writes 254

DEPTH_ERROR = f"the body is nested too deep, the limit is {JSON_DEPTH_MAX} levels: flatten it"


def read_json(data: bytes, *, bytes_as_text: bool = False) -> Any:
    """The value of a document.

    With `bytes_as_text` text may hold single bytes that are not UTF-8, as \\udc80 to \\udcff: routing keys do.
    """
    if data.count(b"[") + data.count(b"{") > JSON_DEPTH_MAX and nesting(data) > JSON_DEPTH_MAX:
        raise InvalidArgument(DEPTH_ERROR)
    try:
        value = _DECODER.decode(data.decode())
        if b"\\u" in data:
            _check_text(json.dumps(value, ensure_ascii=False), bytes_as_text)
    except RecursionError:
        raise InvalidArgument(DEPTH_ERROR) from None
    except ValueError as error:
        raise InvalidArgument(f"the body is not JSON ({error}): correct it") from None
    return value


def _check_text(text: str, bytes_as_text: bool) -> None:
    if not bytes_as_text:
        text.encode()
    elif text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") != text:
        raise ValueError("escaped bytes are UTF-8: send the characters")


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a number of JSON")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large")
    return value


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_number)
