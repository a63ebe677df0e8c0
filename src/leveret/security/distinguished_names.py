"""Distinguished names as text (RFC 4514): those of certificates, and values that go into those of LDAP."""

from collections.abc import Iterable

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
