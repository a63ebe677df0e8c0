"""A file of revocation lists while the server runs: whether it was written since, and when its lists expire."""

import os
from typing import Literal, NamedTuple

from leveret.security.revocation import CertificateId, RevocationLists, certificate_id, read_lists

Expiry = Literal["soon", "expired"]


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
        """Whether a certificate (DER) is on a list."""
        return self.names(certificate_id(certificate))

    def names(self, known: CertificateId) -> bool:
        """Whether a certificate is on a list."""
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
