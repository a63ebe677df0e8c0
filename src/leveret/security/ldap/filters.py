"""Search filters (RFC 4515) as templates: `(&(objectClass=person)(uid=${username}))`.

A template is parsed once, when the server starts. What takes the place of a variable goes into the request as a value
of its own, and is never parsed: no name of a user can change what is searched for.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from leveret.core.errors import InvalidArgument
from leveret.security.ldap.wire import OCTETS, SEQUENCE, tlv

CHARS_MAX = 2_000
DEPTH_MAX = 16
SETS = {"&": 0xA0, "|": 0xA1, "!": 0xA2}
COMPARISONS = {"=": 0xA3, ">=": 0xA5, "<=": 0xA6, "~=": 0xA8}
SUBSTRINGS, PRESENT, EXTENSIBLE = 0xA4, 0x87, 0xA9
INITIAL, ANY, FINAL = 0x80, 0x81, 0x82

_ITEM = re.compile(r"([\w.;-]*)(:dn)?(?::([\w.-]+))?(:=|>=|<=|~=|=)([^()]*)", re.ASCII)
_PIECE = re.compile(r"\$\{(\w+)\}|\\([0-9A-Fa-f]{2})|(\\|\$\{)|([^\\$]+|\$)", re.ASCII)

Values = Mapping[str, str]
Encoded = Callable[[Values], bytes]


@dataclass(frozen=True, slots=True)
class LdapFilter:
    """A parsed template."""

    text: str
    encoded: Encoded
    """The filter of a request, with values in place of the variables."""


def parse(text: str, variables: frozenset[str]) -> LdapFilter:
    """A template that may use these variables; raises InvalidArgument."""
    if len(text) > CHARS_MAX:
        raise InvalidArgument(f"the filter has {len(text)} characters, the limit is {CHARS_MAX}: shorten it")
    encoded, end = _parsed(text, 0, variables, DEPTH_MAX)
    if end != len(text):
        raise _bad(text, end)
    return LdapFilter(text, encoded)


def _bad(text: str, at: int) -> InvalidArgument:
    return InvalidArgument(f"the filter {text!r} is wrong at character {at + 1}: it is like (uid=${{username}})")


def _parsed(text: str, at: int, variables: frozenset[str], depth: int) -> tuple[Encoded, int]:
    """The filter that begins at a place, and where it ends."""
    if not text.startswith("(", at) or not depth:
        raise _bad(text, at)
    at += 1
    if text[at : at + 1] in SETS:
        return _parsed_set(text, at, variables, depth)
    found = _ITEM.match(text, at)
    if found is None or not text.startswith(")", found.end()):
        raise _bad(text, at)
    return _item(text, found, variables), found.end() + 1


def _parsed_set(text: str, at: int, variables: frozenset[str], depth: int) -> tuple[Encoded, int]:
    """Filters that are combined: all, any, or not the one."""
    tag, inner = SETS[text[at]], []
    first = at
    at += 1
    while text.startswith("(", at):
        each, at = _parsed(text, at, variables, depth - 1)
        inner.append(each)
    if not text.startswith(")", at) or not inner or (text[first] == "!" and len(inner) != 1):
        raise _bad(text, at)
    return lambda values: tlv(tag, *(each(values) for each in inner)), at + 1


def _item(text: str, found: re.Match[str], variables: frozenset[str]) -> Encoded:
    attribute, names, rule, comparison, value = found.groups()
    if comparison == ":=":
        return _extensible(text, found, _value(text, found.start(5), value, variables))
    if not attribute or names or rule:
        raise _bad(text, found.start())
    kind = tlv(OCTETS, attribute.encode())
    if "*" not in value:
        tag, assertion = COMPARISONS[comparison], _value(text, found.start(5), value, variables)
        return lambda values: tlv(tag, kind, tlv(OCTETS, assertion(values)))
    if comparison != "=":
        raise _bad(text, found.start(4))
    if value == "*":
        return lambda values: tlv(PRESENT, attribute.encode())
    first, *middle, last = [_value(text, found.start(5), part, variables) for part in value.split("*")]

    def substrings(values: Values) -> bytes:
        given = [(INITIAL, first(values)), *((ANY, each(values)) for each in middle), (FINAL, last(values))]
        return tlv(SUBSTRINGS, kind, tlv(SEQUENCE, *(tlv(tag, part) for tag, part in given if part)))

    return substrings


def _extensible(text: str, found: re.Match[str], assertion: Encoded) -> Encoded:
    """A comparison by a rule, such as the one of Active Directory that looks into groups of groups."""
    attribute, names, rule, *_ = found.groups()
    if not attribute and not rule:
        raise _bad(text, found.start())
    head = (tlv(0x81, rule.encode()) if rule else b"") + (tlv(0x82, attribute.encode()) if attribute else b"")
    tail = tlv(0x84, b"\xff") if names else b""
    return lambda values: tlv(EXTENSIBLE, head, tlv(0x83, assertion(values)), tail)


def _value(text: str, at: int, value: str, variables: frozenset[str]) -> Encoded:
    """Bytes with variables between them."""
    pieces: list[tuple[str | None, bytes]] = []
    for found in _PIECE.finditer(value):
        variable, escaped, broken, plain = found.groups()
        if broken or (variable and variable not in variables):
            known = ", ".join(f"${{{name}}}" for name in sorted(variables))
            raise InvalidArgument(
                f"the filter {text!r} is wrong at character {at + found.start() + 1}: behind a backslash are two "
                f"digits, and the variables are {known}"
            )
        pieces.append((variable, bytes.fromhex(escaped) if escaped else (plain or "").encode()))
    return lambda values: b"".join(values[name].encode() if name else literal for name, literal in pieces)
