"""Message attributes: their checks and digests, and the headers and properties of AMQP that they are kept as.

    String  "red"        header, a string        Number "7"     header, an integer
    Binary  base64       header, bytes           Number "1.50"  header, a string; x-sqs-types says Number
    String.color "red"   header, a string; x-sqs-types says String.color
    amqp.correlation_id  the property of that name, and so for the others in PROPERTIES
    AWSTraceHeader       header x-aws-trace-header, and traceparent, of which x-sqs-types says that it is no attribute
    x-death, long names  in the list x-sqs-attributes, because they cannot be or must not be headers

What a publisher by AMQP put into headers and properties is read by the same table backwards.
"""

import json
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from decimal import Decimal
from hashlib import md5
from struct import pack
from typing import Any, NamedTuple

from leveret.core.deadletter import ORIGIN, OWNED, RECEIVED
from leveret.core.errors import LeveretError
from leveret.core.jsonable import encode as jsonable
from leveret.core.jsonable import plain
from leveret.core.properties import Properties
from leveret.core.tables import KEY_BYTES_MAX
from leveret.protocols.sqs.errors import BAD_CHARACTERS, SqsError, invalid
from leveret.protocols.sqs.loops import is_forbidden
from leveret.runtime.bodies import TEXT_TYPE
from leveret.runtime.message import DEDUP, GROUP

ATTRIBUTES_MAX = 10
TYPE_CHARS_MAX = 256
PREFIX = "amqp."
TYPES = "x-sqs-types"
OTHERS = "x-sqs-attributes"
TRACE = "x-aws-trace-header"
NO_ATTRIBUTE = ""  # as a type: of a header that the sender did not send as an attribute
TEXTS = ("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type", "app_id")
NUMBERS = ("priority", "timestamp")
PROPERTIES = (*TEXTS, *NUMBERS)
HIDDEN = OWNED | {ORIGIN, RECEIVED, DEDUP, GROUP, TYPES, OTHERS, TRACE, "x-delay", "CC"}

_NAME = re.compile(r"(?!(?i:aws\.|amazon\.))(?!.*\.\.)[\w-](?:[\w.-]{0,254}[\w-])?")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?")
_KINDS = {"String": "StringValue", "Number": "StringValue", "Binary": "BinaryValue"}
_INTEGER_CHARS_MAX = 20
ALL = frozenset(("All", "*", ".*"))


class Value(NamedTuple):
    """The value of an attribute: text, or bytes when the type is Binary."""

    type: str
    value: str | bytes

    @property
    def data(self) -> bytes:
        """The value as it is counted and digested."""
        return self.value if isinstance(self.value, bytes) else self.value.encode()

    def shown(self) -> dict[str, str]:
        """The value as an answer has it."""
        if isinstance(self.value, bytes):
            return {"BinaryValue": b64encode(self.value).decode(), "DataType": self.type}
        return {"StringValue": self.value, "DataType": self.type}


Values = dict[str, Value]


# What requests bring


def read_attributes(given: dict[str, Any]) -> Values:
    """The attributes of a message, checked."""
    if len(given) > ATTRIBUTES_MAX:
        raise invalid(f"Number of message attributes [{len(given)}] exceeds the allowed maximum [{ATTRIBUTES_MAX}].")
    for name in given:
        if not _NAME.fullmatch(name):
            raise invalid(
                f"Invalid attribute name: {name[:300]!r}. A name has 1 to 256 letters, digits, underscores, hyphens "
                "and single dots, neither begins nor ends with a dot, and does not begin with AWS. or Amazon."
            )
    return {name: read_value(name, value) for name, value in given.items()}


def read_value(name: str, given: Any) -> Value:
    """One value, checked."""
    if not isinstance(given, dict):
        raise SqsError("Serialization", f"the message attribute {name!r} is a structure")
    kind = given.get("DataType")
    if not isinstance(kind, str) or not kind:
        raise invalid(f"The message attribute '{name}' must contain non-empty message attribute type.")
    base = kind.partition(".")[0]
    if base not in _KINDS or len(kind) > TYPE_CHARS_MAX or is_forbidden(kind):
        raise invalid(
            f"The message attribute '{name}' has an invalid message attribute type, the set of supported type prefixes "
            "is Binary, Number, and String."
        )
    value = given.get(_KINDS[base])
    if not isinstance(value, str) or not value:
        raise invalid(f"Message (user) attribute '{name}' must contain a non-empty value of type '{base}'.")
    if base == "Number" and not _NUMBER.fullmatch(value):
        raise invalid(f"Could not cast message attribute '{name}' value to number.")
    if base == "Binary":
        return Value(kind, _decoded(name, value))
    if is_forbidden(value):
        raise invalid(BAD_CHARACTERS)
    return Value(kind, value)


def _decoded(name: str, value: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (Base64Error, ValueError):
        raise SqsError("Serialization", f"the binary value of the attribute '{name}' is not base64") from None


def size_bytes(values: Values) -> int:
    """How much attributes add to the size of a message."""
    return sum(len(name.encode()) + len(value.type.encode()) + len(value.data) for name, value in values.items())


def digest(values: Values) -> str:
    """The MD5 that clients compare: names, types and values, each with its length, in the order of names."""
    hashed = md5(usedforsecurity=False)
    for name in sorted(values):
        value = values[name]
        for part in (name.encode(), value.type.encode()):
            hashed.update(pack(">I", len(part)) + part)
        data = value.data
        hashed.update((b"\x02" if isinstance(value.value, bytes) else b"\x01") + pack(">I", len(data)) + data)
    return hashed.hexdigest()


# Headers and properties


def store(values: Values, headers: dict[str, Any], properties: Properties) -> None:
    """Put attributes into headers and properties."""
    types: dict[str, str] = {}
    others: list[dict[str, Any]] = []
    for name, value in values.items():
        kept = _kept(value)
        field = name.removeprefix(PREFIX) if name.startswith(PREFIX) else ""
        if field in PROPERTIES:
            _set_property(properties, field, value)
            continue
        if len(name.encode()) > KEY_BYTES_MAX or name in HIDDEN:
            others.append({"name": name, "type": value.type, "value": value.value})
            continue
        headers[name] = kept
        if _inferred(kept) != value:
            types[name] = value.type
    if types:
        headers[TYPES] = types
    if others:
        headers[OTHERS] = others


def _kept(value: Value) -> str | bytes | int:
    """A value as a header has it."""
    text = value.value
    if value.type == "Number" and isinstance(text, str) and len(text) <= _INTEGER_CHARS_MAX:
        try:
            number = int(text)
        except ValueError:
            return text
        if str(number) == text and number.bit_length() < 63:
            return number
    return text


def _set_property(properties: Properties, field: str, value: Value) -> None:
    text = value.data.decode("utf-8", "replace")
    if field in TEXTS:
        setattr(properties, field, text)
    elif text.isdecimal() and len(text) <= _INTEGER_CHARS_MAX:
        setattr(properties, field, int(text))
    else:
        raise invalid(f"The message attribute '{PREFIX}{field}' is a whole number.")


def load(properties: Properties) -> Values:
    """The attributes that are in headers and properties."""
    found: Values = {}
    headers = properties.headers or {}
    types = headers.get(TYPES)
    for name, raw in headers.items():
        if name in HIDDEN or not _NAME.fullmatch(name):
            continue
        value = _inferred(raw)
        told = types.get(name) if isinstance(types, dict) else None
        if value is not None and told != NO_ATTRIBUTE:
            found[name] = value if told is None else Value(str(told), value.value)
    found |= _others(headers.get(OTHERS))
    for field in PROPERTIES:
        raw = getattr(properties, field)
        if raw is not None and (field, raw) != ("content_type", TEXT_TYPE):
            found[PREFIX + field] = Value("Number" if field in NUMBERS else "String", plain(str(raw)))
    return found


def _others(listed: Any) -> Values:
    """The attributes in the list of those that are no headers; a publisher may have written anything there."""
    rows = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return {
        row["name"]: Value(row["type"], row["value"])
        for row in rows
        if isinstance(row.get("name"), str)
        and isinstance(row.get("type"), str)
        and isinstance(row.get("value"), bytes if row["type"].startswith("Binary") else str)
    }


def _inferred(raw: Any) -> Value | None:
    """The attribute that a header is; None for one that says nothing."""
    if isinstance(raw, str):
        return Value("String", raw)
    if isinstance(raw, bytes):
        return Value("Binary", bytes(raw))
    if isinstance(raw, bool):
        return Value("String", "true" if raw else "false")
    if isinstance(raw, int | float | Decimal):
        return Value("Number", str(int(raw)) if isinstance(raw, int) else str(raw))
    if raw is None:
        return None
    try:
        return Value("String", json.dumps(jsonable(raw), separators=(",", ":")))
    except (LeveretError, ValueError):
        return None


# Which of them a receiver wants


def selected(values: Values, names: list[str]) -> Values:
    """Those that are asked for: All, * and .* are all, a name with .* at its end is all that begin so."""
    if not ALL.isdisjoint(names):
        return values
    prefixes = tuple(name[:-2] for name in names if name.endswith(".*"))
    exact = set(names)
    return {name: value for name, value in values.items() if name in exact or (prefixes and name.startswith(prefixes))}
