"""Messages of LDAPv3 (RFC 4511) in BER, as far as bind, search and StartTLS need them.

LDAPMessage    SEQUENCE { message id, operation, [controls] }
BindRequest    [APPLICATION 0]  { version 3, name, [0] password }
SearchRequest  [APPLICATION 3]  { base, scope, aliases, size limit, time limit, types only, filter, { attribute, ... } }
SearchEntry    [APPLICATION 4]  { name, { { attribute, SET { value, ... } }, ... } }
results        [APPLICATION n]  { result code, matched name, diagnostic message, ... }
StartTLS       [APPLICATION 23] { [0] 1.3.6.1.4.1.1466.20037 }
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from leveret.security import der

BOOLEAN, INTEGER, OCTETS, ENUMERATED, SEQUENCE = 0x01, 0x02, 0x04, 0x0A, 0x30
BIND, BIND_DONE, UNBIND, SEARCH, ENTRY, SEARCH_DONE, REFERENCE = 0x60, 0x61, 0x42, 0x63, 0x64, 0x65, 0x73
EXTENDED, EXTENDED_DONE = 0x77, 0x78
START_TLS = b"1.3.6.1.4.1.1466.20037"
HEADER_BYTES_MAX = 6  # tag, and a length of up to four bytes
TEXT_CHARS_MAX = 200  # of what a server says, in a log


class SearchScope(IntEnum):
    """Which entries a search looks at."""

    BASE = 0
    SUBTREE = 2


class Code(IntEnum):
    """Results that mean something here."""

    SUCCESS = 0
    TIME_LIMIT = 3
    SIZE_LIMIT = 4
    NO_SUCH_OBJECT = 32
    INVALID_CREDENTIALS = 49
    BUSY = 51
    UNAVAILABLE = 52


class Malformed(ValueError):
    """Bytes of a server that are no LDAP."""


class Result(NamedTuple):
    """How an operation ended."""

    code: int
    text: str

    def __str__(self) -> str:
        return f"result {self.code}" + (f" ({self.text})" if self.text else "")


class LdapEntry(NamedTuple):
    """One entry that a search has found; types of attributes are in lower case, without options."""

    dn: str
    attributes: dict[str, list[bytes]]


class LdapMessage(NamedTuple):
    """What a server has sent."""

    id: int
    kind: int
    body: bytes


def tlv(tag: int, *parts: bytes) -> bytes:
    """A value with its tag and length."""
    body = b"".join(parts)
    size = len(body)
    if size < 0x80:
        return bytes((tag, size)) + body
    digits = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(digits))) + digits + body


def number(value: int, tag: int = INTEGER) -> bytes:
    """A number that is not negative."""
    return tlv(tag, value.to_bytes(value.bit_length() // 8 + 1))


def message(id: int, operation: bytes) -> bytes:
    """An operation to be sent."""
    return tlv(SEQUENCE, number(id), operation)


def bind_request(name: str, password: bytes) -> bytes:
    """A simple bind. Both must be there: without a password a server may answer with success for anybody."""
    if not name or not password:
        raise ValueError("a bind without a name or a password proves nothing")
    return tlv(BIND, number(3), tlv(OCTETS, name.encode()), tlv(0x80, password))


def search_request(
    base: str, scope: SearchScope, filter: bytes, attributes: Iterable[str], size_max: int, time_s: int
) -> bytes:
    """A search that follows no aliases; no attributes: names only."""
    wanted = list(attributes) or ["1.1"]
    limits = number(size_max), number(time_s)
    places = tlv(OCTETS, base.encode()), number(scope, ENUMERATED), number(0, ENUMERATED)
    names = tlv(SEQUENCE, *(tlv(OCTETS, each.encode()) for each in wanted))
    return tlv(SEARCH, *places, *limits, tlv(BOOLEAN, b"\0"), filter, names)


def start_tls_request() -> bytes:
    """TLS from now on, if the server agrees."""
    return tlv(EXTENDED, tlv(0x80, START_TLS))


def unbind_request() -> bytes:
    """A farewell, which is not answered."""
    return bytes((UNBIND, 0))


def body_size(header: bytes) -> tuple[int, int] | None:
    """Where the body of the first message begins and how long it is; None: more bytes are needed to tell."""
    if len(header) < 2:
        return None
    if header[0] != SEQUENCE or header[1] == 0x80 or header[1] > 0x84:
        raise Malformed("it is no LDAP message")
    begin = 2 + (header[1] & 0x7F if header[1] & 0x80 else 0)
    if len(header) < begin:
        return None
    return begin, int.from_bytes(header[2:begin]) if begin > 2 else header[1]


def message_of(body: bytes) -> LdapMessage:
    """A message without its header."""
    try:
        (_, id), (kind, operation), *_ = der.parts(body)
    except ValueError:
        raise Malformed("it is no LDAP message") from None
    return LdapMessage(int.from_bytes(id), kind, operation)


def result_of(body: bytes) -> Result:
    """The result in an answer."""
    try:
        (_, code), _, (_, text), *_ = der.parts(body)
    except ValueError:
        raise Malformed("an answer has no result") from None
    shown = "".join(each if each.isprintable() else "?" for each in text.decode("utf-8", "replace"))
    return Result(int.from_bytes(code), shown[:TEXT_CHARS_MAX])


def entry_of(body: bytes) -> LdapEntry:
    """An entry that was found."""
    try:
        (_, dn), (_, listed) = der.parts(body)
        attributes: dict[str, list[bytes]] = {}
        for _, each in der.parts(listed):
            (_, kind), (_, values) = der.parts(each)
            name = kind.decode("ascii").partition(";")[0].lower()
            attributes.setdefault(name, []).extend(value for _, value in der.parts(values))
        return LdapEntry(dn.decode(), attributes)
    except ValueError:
        raise Malformed("an entry cannot be read") from None
