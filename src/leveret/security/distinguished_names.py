"""Distinguished names as text (RFC 4514): those of certificates, and those of LDAP, which are compared in parts."""

import re
from collections.abc import Iterable
from unicodedata import normalize

from leveret.core.errors import InvalidArgument

SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
"""What RFC 4514 calls the types that OpenSSL spells out; others keep their names."""
SPECIAL = frozenset('"+,;<>\\')

_TYPE = re.compile(r"\s*([A-Za-z][\w-]*|\d+(?:\.\d+)*)\s*=\s*", re.ASCII)
_CHARACTER = re.compile(r"\\((?:[0-9A-Fa-f]{2})+|.)|([^\\,+;])", re.DOTALL)

Parts = tuple[frozenset[tuple[str, str]], ...]
"""A name as it is compared: types and values without regard to case and spaces, most special part first."""

Relative = Iterable[tuple[str, str]]
"""One part of a name, mostly a single pair of type and value."""


def escaped(value: str) -> str:
    """A value that ends no sooner than it should, and begins no other part of the name."""
    characters = [f"\\{each}" if each in SPECIAL else "\\00" if each == "\0" else each for each in value]
    if characters and characters[-1] == " ":
        characters[-1] = "\\ "
    if characters and characters[0] in (" ", "#"):
        characters[0] = f"\\{characters[0]}"
    return "".join(characters)


def written(name: Iterable[Relative]) -> str:
    """The name of a certificate as Python gives it, most general part first, as text: most special part first."""
    texts = ["+".join(f"{SHORT.get(kind, kind)}={escaped(value)}" for kind, value in part) for part in name]
    return ",".join(reversed(texts))


def parsed(text: str) -> Parts:
    """The parts of a name; raises InvalidArgument for text that is none."""
    parts: list[frozenset[tuple[str, str]]] = []
    pairs: list[tuple[str, str]] = []
    at = 0
    while True:
        found = _TYPE.match(text, at)
        if found is None:
            raise InvalidArgument(f"{text[:200]!r} is no distinguished name such as cn=ops,ou=groups,dc=example,dc=org")
        value, at = _value(text, found.end())
        pairs.append((found[1].lower(), folded(value)))
        separator = text[at : at + 1]
        if separator != "+":
            parts.append(frozenset(pairs))
            pairs = []
        if not separator:
            return tuple(parts)
        at += 1


def _value(text: str, at: int) -> tuple[str, int]:
    """The value that begins at a place, without its escapes, and where it ends."""
    data = b""
    while (found := _CHARACTER.match(text, at)) is not None:
        escape, plain = found.groups()
        is_hex = escape is not None and len(escape) > 1
        data += bytes.fromhex(escape) if is_hex else (escape or plain).encode("utf-8", "surrogatepass")
        at = found.end()
    return data.decode("utf-8", "replace"), at


def folded(value: str) -> str:
    """A value as directories compare most of them: compatible characters, case and repeated spaces do not count."""
    return " ".join(normalize("NFKC", normalize("NFKC", value).casefold()).split())
