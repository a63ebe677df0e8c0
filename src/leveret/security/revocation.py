"""Certificate revocation lists (RFC 5280) in PEM: which certificates they name, and when the next lists are due.

    CertificateList { { [version], algorithm, issuer, this update, [next update], [revoked], [extensions] }, ... }
    revoked         { { serial number, date, [extensions] }, ... }

OpenSSL checks handshakes against the same file. It does not tell when a list expires, nor which established
connections have a certificate that is on a new list: this module does.
"""

import os
import re
import ssl
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from leveret.security import der
from leveret.security.der import BadCertificate

FILE_BYTES_MAX = 16 << 20  # about 300 000 revoked certificates, each about 100 bytes of memory
WARNING_MS_MAX = 24 * 3_600_000
WARNING_SHARE = 4  # a list that is renewed each day must not be warned about all day: only in its last quarter
VERSION = 0xA0  # tag of the version of a certificate

_PEM = re.compile(rb"-----BEGIN X509 CRL-----(.*?)-----END X509 CRL-----", re.DOTALL)
Expiry = Literal["soon", "expired"]


class CertificateId(NamedTuple):
    """What revocation lists know a certificate by: DER of its issuer's name and of its serial number."""

    issuer: bytes
    serial: bytes


@dataclass(frozen=True, slots=True)
class RevocationLists:
    """The lists of one file."""

    revoked: Mapping[bytes, frozenset[bytes]] = field(repr=False)
    """Serial numbers by issuer."""
    next_update_ms: int | None
    """When the first of them expires; None: none of them says."""
    warning_ms: int = 0
    """Time before that from which on it is late for a new list."""

    def names(self, known: CertificateId) -> bool:
        return known.serial in self.revoked.get(known.issuer, ())

    def is_due(self, now_ms: int) -> bool:
        """Whether a list expires soon, or has expired."""
        return self.next_update_ms is not None and now_ms >= self.next_update_ms - self.warning_ms

    def has_expired(self, now_ms: int) -> bool:
        """Whether OpenSSL refuses the certificates that a list is about."""
        return self.next_update_ms is not None and now_ms >= self.next_update_ms


class _List(NamedTuple):
    issuer: bytes
    updated_ms: int
    next_update_ms: int | None
    serials: frozenset[bytes]


def read_lists(path: str) -> RevocationLists:
    """The lists of a file; raises BadCertificate. The largest one takes about a second: not for an event loop."""
    try:
        with open(path, "rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadCertificate(f"the revocation lists of {path} cannot be read: {error.strerror}") from None
    if len(text) > FILE_BYTES_MAX:
        raise BadCertificate(
            f"the file {path} of revocation lists has over {FILE_BYTES_MAX} bytes: remove lists of other authorities"
        )
    try:
        lists = [_parsed(b64decode(body)) for body in _PEM.findall(text)]
    except (ValueError, IndexError):
        raise BadCertificate(f"a revocation list in {path} is damaged: get it again") from None
    if not lists:
        raise BadCertificate(f"there is no revocation list in {path}: give PEM (-----BEGIN X509 CRL-----)")
    return _together(lists)


def _together(lists: list[_List]) -> RevocationLists:
    """The newest list of each issuer counts, as it does for OpenSSL."""
    newest: dict[bytes, _List] = {}
    for each in lists:
        if each.issuer not in newest or newest[each.issuer].updated_ms < each.updated_ms:
            newest[each.issuer] = each
    revoked = {issuer: each.serials for issuer, each in newest.items()}
    ends = [(each.next_update_ms, each.updated_ms) for each in newest.values() if each.next_update_ms is not None]
    if not ends:
        return RevocationLists(revoked, None)
    next_update_ms, updated_ms = min(ends)
    return RevocationLists(revoked, next_update_ms, min(WARNING_MS_MAX, (next_update_ms - updated_ms) // WARNING_SHARE))


def _parsed(data: bytes) -> _List:
    body = der.parts(der.parts(data)[0][1])[0][1]
    fields = der.parts(body)
    if fields[0][0] == der.INTEGER:
        del fields[0]
    issuer, updated_ms = fields[1][1], der.time_ms(*fields[2])
    rest = fields[3:]
    next_update_ms = der.time_ms(*rest.pop(0)) if rest and rest[0][0] in der.TIMES else None
    revoked = rest[0][1] if rest and rest[0][0] == der.SEQUENCE else b""
    return _List(issuer, updated_ms, next_update_ms, frozenset(_serials(revoked)))


def _serials(revoked: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(revoked):
        size = revoked[at + 1]
        start, end = at + 2, at + 2 + size
        if size & 0x80:  # which no list has that is made as usual
            _, start, end = der.header(revoked, at)
        yield revoked[start + 2 : start + 2 + revoked[start + 1]]
        at = end
    if at != len(revoked):
        raise ValueError("the last entry is cut off")


def certificate_id(certificate: bytes) -> CertificateId:
    """What lists know a certificate by, of its DER."""
    body = der.parts(der.parts(certificate)[0][1])[0][1]
    fields = [value for tag, value in der.parts(body) if tag != VERSION]
    return CertificateId(fields[2], fields[0])


def check_revocation(context: ssl.SSLContext, path: str) -> None:
    """Let handshakes of a context refuse the certificates that the lists of a file name.

    Of the whole chain: an intermediate authority that was revoked vouches for no client. Raises what OpenSSL raises.
    """
    context.load_verify_locations(path)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


class Stamp(NamedTuple):
    """What changes when a file is written or replaced."""

    modified_ns: int
    size: int
    inode: int


class ListsVersion(NamedTuple):
    """The lists of a file, and its stamp from before they were read: what is written meanwhile makes another one."""

    stamp: Stamp | None
    lists: RevocationLists


class RevocationFile:
    """The lists that connections are checked against."""

    def __init__(self, path: str) -> None:
        """Read them; raises BadCertificate."""
        self.path = path
        self._version = self.load()
        self._told: tuple[Stamp | None, Expiry] | None = None
        """What `expiry` gave last, about which version."""

    def load(self) -> ListsVersion:
        """Read the file, in any thread; raises BadCertificate."""
        stamp = self._stamp()
        return ListsVersion(stamp, read_lists(self.path))

    def use(self, version: ListsVersion) -> None:
        """Check against these lists from now on."""
        self._version = version

    def _stamp(self) -> Stamp | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return Stamp(found.st_mtime_ns, found.st_size, found.st_ino)

    @property
    def is_stale(self) -> bool:
        """Whether the file was written since it was read; a file that is missing for now was not."""
        return self._stamp() not in (None, self._version.stamp)

    @property
    def next_update_ms(self) -> int | None:
        """When the first list expires; None: no list says so."""
        return self._version.lists.next_update_ms

    def revokes(self, certificate: bytes) -> bool:
        return self.names(certificate_id(certificate))

    def names(self, known: CertificateId) -> bool:
        return self._version.lists.names(known)

    def expiry(self, now_ms: int) -> Expiry | None:
        """Whether a list expires soon or has expired; once for each version, so that it can be logged."""
        stamp, lists = self._version
        if not lists.is_due(now_ms):
            return None
        found: Expiry = "expired" if lists.has_expired(now_ms) else "soon"
        if self._told == (stamp, found):
            return None
        self._told = (stamp, found)
        return found
