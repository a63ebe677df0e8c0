"""Fields of requests: each checks its value, and describes itself in the OpenAPI document.

Written by hand and not with a validation framework: reading a message takes about a microsecond for each field.

JSON is refused when other languages would refuse it, or when it could not be sent on:

depth     a value inside of more than JSON_DEPTH_MAX others would exhaust the stack of a recursive reader
numbers   NaN, infinities and 1e999 are no JSON; Python would take them, and answers with them would be broken
text      half of a character (\\ud800) cannot be written as UTF-8
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.names import NAME_BYTES_MAX
from leveret.protocols.http.reader import nesting
from leveret.protocols.http.request import Request

JSON_DEPTH_MAX = 200  # answers put a few levels around it, and orjson writes 254

DEPTH_ERROR = f"the body is nested too deep, the limit is {JSON_DEPTH_MAX} levels: flatten it"

Schema = dict[str, Any]

FLAGS = {"true": True, "false": False}
TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
OBJECT: Schema = {"type": "object"}


def shape(required: str = "", /, **properties: Schema) -> Schema:
    """An object in an answer: the fields that it always has, and the schemas of those that it may have."""
    always = {"required": required.split()} if required else {}
    return {**OBJECT, **always, **({"properties": properties} if properties else {})}


def array(items: Schema = OBJECT, /) -> Schema:
    """Several of one kind in an answer."""
    return {"type": "array", "items": items}


class JsonField:
    """Anything that JSON can say."""

    is_json = False  # whether a query has it as JSON

    def __init__(self, help: str, *, required: bool = False, nullable: bool = False, **schema: Any) -> None:
        """`schema` is what JSON Schema calls its limits."""
        self.required = required
        self.nullable = nullable
        self.schema: Schema = {**schema, "description": help}
        if nullable and "type" in schema:
            self.schema["type"] = [schema["type"], "null"]

    def read(self, name: str, value: Any) -> Any:
        """The value, checked."""
        if value is None and self.nullable:
            return None
        return self.check(name, value)

    def check(self, name: str, value: Any) -> Any:
        """The same for one that is there."""
        return value

    def parse(self, name: str, text: str) -> Any:
        """The value of a field of the query, which is text."""
        return self.check(name, text)


class Whole(JsonField):
    """A whole number."""

    def __init__(self, help: str, at_least: int, at_most: int, **options: Any) -> None:
        super().__init__(help, type="integer", minimum=at_least, maximum=at_most, **options)
        self._range = (at_least, at_most)

    def check(self, name: str, value: Any) -> int:
        """See JsonField; 5.0 is whole as well, as in JSON Schema."""
        least, most = self._range
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgument(f"{name} is a whole number from {least} to {most}, not {_shown(value)}")
        return value

    def parse(self, name: str, text: str) -> int:
        return self.check(name, int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text)


class Number(JsonField):
    """A number, mostly of seconds."""

    def __init__(self, help: str, at_least: float, at_most: float, **options: Any) -> None:
        super().__init__(help, type="number", minimum=at_least, maximum=at_most, **options)
        self._range = (at_least, at_most)

    def check(self, name: str, value: Any) -> float:
        least, most = self._range
        if type(value) not in (int, float) or not least <= value <= most:  # NaN is in no range
            raise InvalidArgument(f"{name} is a number from {least} to {most}, not {_shown(value)}")
        number: float = value
        return number

    def parse(self, name: str, text: str) -> float:
        try:
            return self.check(name, float(text))
        except ValueError:
            return self.check(name, text)


class Text(JsonField):
    """Text of a bounded length."""

    def __init__(self, help: str, chars_max: int, chars_min: int = 0, **options: Any) -> None:
        super().__init__(help, type="string", minLength=chars_min, maxLength=chars_max, **options)
        self._range = (chars_min, chars_max)

    def check(self, name: str, value: Any) -> str:
        least, most = self._range
        if not isinstance(value, str) or not least <= len(value) <= most:
            raise InvalidArgument(f"{name} is a string of {least} to {most} characters")
        return value


class PatternText(Text):
    """Text that a regular expression matches as a whole; `words` tell a client what the expression allows."""

    def __init__(self, help: str, expression: re.Pattern[str], words: str, chars_max: int, **options: Any) -> None:
        """The expression is one that Python and ECMA 262, which JSON Schema refers to, read in the same way."""
        options = {"chars_min": 1, "pattern": f"^(?:{expression.pattern})$", **options}
        super().__init__(help, chars_max, **options)
        self._expression = expression
        self._words = words

    def check(self, name: str, value: Any) -> str:
        text = super().check(name, value)
        if not self._expression.fullmatch(text):
            raise InvalidArgument(f"{name} is {self._words}, not {_shown(text)}")
        return text


class Name(Text):
    """A name that AMQP can carry: limited in bytes of UTF-8, which JSON Schema cannot express; see `description`."""

    def __init__(self, help: str, chars_min: int = 1, **options: Any) -> None:
        super().__init__(f"{help} At most {NAME_BYTES_MAX} bytes of UTF-8.", NAME_BYTES_MAX, chars_min, **options)

    def check(self, name: str, value: Any) -> str:
        text = super().check(name, value)
        if not text.isascii():
            check_bytes(name, text)
        return text


class Choice(JsonField):
    """One of some words."""

    def __init__(self, help: str, *words: str, **options: Any) -> None:
        super().__init__(help, type="string", enum=list(words), **options)
        self._words = words

    def check(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in self._words:
            raise InvalidArgument(f"{name} is one of {', '.join(self._words)}, not {_shown(value)}")
        return value


class Flag(JsonField):
    """True or false."""

    def __init__(self, help: str, **options: Any) -> None:
        super().__init__(help, type="boolean", **options)

    def check(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InvalidArgument(f"{name} is true or false, not {_shown(value)}")
        return value

    def parse(self, name: str, text: str) -> bool:
        return self.check(name, FLAGS.get(text, text))


class TableField(JsonField):
    """Names with values of any kind; the caller checks what is inside."""

    def __init__(self, help: str, entries_max: int, **options: Any) -> None:
        help = f"{help} A name has at most {NAME_BYTES_MAX} bytes of UTF-8."
        names = {"maxLength": NAME_BYTES_MAX}
        super().__init__(help, type="object", maxProperties=entries_max, propertyNames=names, **options)
        self._entries_max = entries_max

    def check(self, name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > self._entries_max:
            raise InvalidArgument(f"{name} is an object of at most {self._entries_max} names and values")
        for key in value:
            check_bytes(f"a name in {name}", key)
        return value


def check_bytes(what: str, text: str) -> None:
    """Refuse a name that is too long for AMQP."""
    if len(text) > NAME_BYTES_MAX or (not text.isascii() and len(text.encode()) > NAME_BYTES_MAX):
        raise InvalidArgument(f"{what} has over {NAME_BYTES_MAX} bytes of UTF-8, which is the limit: shorten it")


class Numbered(TableField):
    """A table whose names are numbers, with values of one kind."""

    def __init__(self, help: str, entries_max: int, each: JsonField, digits_max: int, **options: Any) -> None:
        super().__init__(help, entries_max, **options)
        self.schema["additionalProperties"] = each.schema
        self.schema["propertyNames"] = {"pattern": f"^[0-9]{{1,{digits_max}}}$"}
        self._each = each
        self._digits_max = digits_max

    def check(self, name: str, value: Any) -> dict[str, Any]:
        found = super().check(name, value)
        for key in found:
            if not (key.isascii() and key.isdigit() and len(key) <= self._digits_max):
                raise InvalidArgument(f"the names in {name} are numbers, not {_shown(key)}: give each a value")
        return {key: self._each.read(f"{name}[{key}]", each) for key, each in found.items()}


class JsonText(JsonField):
    """A field of a query whose text is JSON."""

    is_json = True

    def __init__(self, inner: JsonField) -> None:
        super().__init__(inner.schema["description"])
        self.schema = inner.schema
        self._inner = inner

    def parse(self, name: str, text: str) -> Any:
        return self._inner.read(name, parsed_json(name, text))


class Listed(JsonField):
    """Several values of one kind."""

    def __init__(
        self, help: str, each: JsonField | RecordField, count_max: int, count_min: int = 1, **options: Any
    ) -> None:
        items = each.schema
        super().__init__(help, type="array", items=items, minItems=count_min, maxItems=count_max, **options)
        self.each = each
        self._range = (count_min, count_max)

    def check(self, name: str, value: Any) -> list[Any]:
        least, most = self._range
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise InvalidArgument(f"{name} is an array of {least} to {most} values: split it up")
        return [self.each.read(f"{name}[{number}]", each) for number, each in enumerate(value)]


class Either(JsonField):
    """One of some words, or several values."""

    def __init__(self, help: str, word: Choice, several: Listed, **options: Any) -> None:
        super().__init__(help, **options)
        null = [{"type": "null"}] if self.nullable else []
        self.schema["anyOf"] = [word.schema, several.schema, *null]
        self._word, self._several = word, several

    def check(self, name: str, value: Any) -> Any:
        return (self._several if isinstance(value, list) else self._word).check(name, value)


class RecordField(JsonField):
    """An object with known fields; one that is unknown is refused, since it would be without effect."""

    def __init__(
        self,
        help: str,
        fields: Mapping[str, JsonField],
        one_of: tuple[str, ...] = (),
        needs: Mapping[str, str] | None = None,
        count_min: int = 0,
        **options: Any,
    ) -> None:
        """Exactly one of `one_of` is given, each field in `needs` only with another one, and `count_min` in all."""
        self.fields = dict(fields)
        self._one_of = one_of
        self._needs = needs or {}
        self._count_min = count_min
        self._required = frozenset(name for name, field in fields.items() if field.required)
        super().__init__(help, type="object", additionalProperties=False, **options)
        self.schema["properties"] = {name: field.schema for name, field in fields.items()}
        if self._required:
            self.schema["required"] = sorted(self._required)
        if one_of:
            self.schema["oneOf"] = [{"required": [name]} for name in one_of]
        if count_min:
            self.schema["minProperties"] = count_min
        if self._needs:
            self.schema["dependentRequired"] = {name: [other] for name, other in self._needs.items()}

    @property
    def needs_some(self) -> bool:
        """Whether an object without fields is refused, so that a body is required."""
        return bool(self._required or self._one_of or self._count_min)

    def check(self, name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InvalidArgument(f"{name} is a JSON object, not {_shown(value)}")
        known = self.fields
        try:
            found = {key: known[key].read(key, each) for key, each in value.items()}
        except KeyError:
            raise self._unknown(value) from None
        self._check_given(found)
        return found

    def parse_all(self, query: Mapping[str, str]) -> dict[str, Any]:
        if not query.keys() <= self.fields.keys():
            raise self._unknown(query)
        found = {key: self.fields[key].parse(key, text) for key, text in query.items()}
        self._check_given(found)
        return found

    def _check_given(self, found: Mapping[str, Any]) -> None:
        missing = self._required - found.keys()
        if missing:
            raise InvalidArgument(f"{min(missing)} is missing: {self.fields[min(missing)].schema['description']}")
        if self._one_of and len(found.keys() & self._one_of) != 1:
            raise InvalidArgument(f"{' and '.join(self._one_of)} exclude each other: give one of them")
        if len(found) < self._count_min:
            raise InvalidArgument(f"give at least {self._count_min} condition: one of {', '.join(self.fields)}")
        for name, other in self._needs.items():
            if name in found and other not in found:
                raise InvalidArgument(f"{name} is given without {other}: give both {name} and {other}")

    def _unknown(self, given: Mapping[str, Any]) -> InvalidArgument:
        name = min(given.keys() - self.fields.keys())
        near = get_close_matches(name, self.fields, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(self.fields)}"
        return InvalidArgument(f"unknown field {_shown(name)}: {advice}")


NOTHING = RecordField("Nothing.", {})


def json_body(request: Request) -> Any:
    """The body of a request; none is an empty object."""
    body = request.body
    if not body:
        return {}
    return read_json(body)


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


def parsed_json(name: str, text: str) -> Any:
    """What a field of a query says that is JSON."""
    try:
        return read_json(text.encode())
    except ValueError:
        raise InvalidArgument(f'{name} is not JSON: send {{"name": "value"}}') from None


def _shown(value: Any) -> str:
    """A value in an error text: not all of it."""
    text = json.dumps(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."
