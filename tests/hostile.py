"""JSON values that no client should send, for every place of a request that takes JSON."""

import json
from collections.abc import Iterator
from typing import Any

PLACE = "@@here@@"
ANY = ("arguments", "definition", "value")  # fields of rows that hold any JSON


def nested(depth: int, left: str = "[", right: str = "]") -> str:
    """A value inside so many others."""
    return left * depth + "1" + right * depth


TAGS = ("$bytes", "$time", "$decimal", "$float", "$dict", "$other", "$")
WRONG = ("null", "true", "1", "1.5", "[]", "{}", '""', '"x"', '{"$bytes":1}', nested(100), '"\\udc80"')
TEXTS: dict[str, str] = {
    "null": "null",
    "true": "true",
    "a negative number": "-1",
    "a fraction": "0.5",
    "65 bits": str(1 << 64),
    "400 digits": "9" * 400,
    "5,000 digits": "9" * 5_000,
    "a number beyond doubles": "1e999",
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "an empty string": '""',
    "300 characters": json.dumps("x" * 300),
    "a byte of zero": '"a\\u0000b"',
    "half a character": '"\\udc80"',
    "halves in the wrong order": '"\\udc80\\ud800"',
    "a key that is half a character": '{"\\udc80": 1}',
    "an array": "[1]",
    "an object": '{"a": 1}',
    "100 arrays": nested(100),
    "900 arrays": nested(900),
    "100,000 arrays": nested(100_000),
    "100 objects": nested(100, '{"a":', "}"),
    "900 objects": nested(900, '{"a":', "}"),
    "2,000 values": json.dumps(list(range(2_000))),
}
FORMS: dict[str, str] = {
    **{f"{tag} of {wrong[:12]}": f'{{"{tag}": {wrong}}}' for tag in TAGS for wrong in WRONG},
    "a signalling NaN": '{"$decimal": "sNaN"}',
    "a decimal NaN": '{"$decimal": "NaN123"}',
    "a decimal infinity": '{"$decimal": "-Infinity"}',
    "a huge decimal": '{"$decimal": "1E+999999999"}',
    "a tiny decimal": '{"$decimal": "1E-999999999"}',
    "a long decimal": f'{{"$decimal": "{"1" * 10_000}"}}',
    "a negative decimal": '{"$decimal": "-1.5"}',
    "a time without zone": '{"$time": "0001-01-01T00:00:00"}',
    "the first time": '{"$time": "0001-01-01T00:00:00+14:00"}',
    "the last time": '{"$time": "9999-12-31T23:59:59.999999-14:00"}',
    "a float NaN": '{"$float": "nan"}',
    "a float infinity": '{"$float": "-inf"}',
    "a float beyond doubles": '{"$float": "1e999"}',
    "bytes that are no text": '{"$bytes": "/w=="}',
    "two tags": '{"$bytes": "AAAA", "$time": "x"}',
    "a tag and a name": '{"$bytes": "AAAA", "a": 1}',
    "a name and a tag": '{"a": 1, "$bytes": "AAAA"}',
}
HOSTILE: dict[str, str] = TEXTS | FORMS


def bodies(body: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Each hostile value as the body, in place of each of its fields, and inside of those that are tables."""
    places = [("the body", PLACE)] + [(name, {**body, name: PLACE}) for name in body]
    for name, inside in body.items():
        if isinstance(inside, dict):
            places += [(f"{name}.{each}*", {**body, name: {**inside, each: PLACE}}) for each in inside or ("a",)]
            places += [(f"{name}[]*", {**body, name: {"a": [PLACE]}})]
        elif isinstance(inside, list):
            places += [(f"{name}[]", {**body, name: [PLACE]})]
            places += [
                (f"{name}[].{each}{'*' * (each in ANY)}", {**body, name: [{**row, each: PLACE}]})
                for row in inside
                for each in (row if isinstance(row, dict) else ())
            ]
    for name, made in places:
        text = json.dumps(made)
        for what, value in (HOSTILE if name.endswith("*") else TEXTS).items():
            yield f"{what} as {name}", text.replace(json.dumps(PLACE), value).encode()
