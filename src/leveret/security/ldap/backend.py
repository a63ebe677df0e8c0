"""The backend "ldap" for logins: names and passwords that a directory knows, with tags and permissions of its groups.

A login that was right is remembered for some seconds (`ldap_cache_s`), as a keyed hash of name and password; one that
was wrong is not. Names are compared as directories do, so a user has one name here however it is spelled.
"""

import hashlib
import os
import secrets
from threading import Lock
from unicodedata import category, normalize

from leveret.core.errors import InvalidArgument
from leveret.core.names import NAME_BYTES_MAX
from leveret.security.authentication import AuthenticatedLogin, Credentials
from leveret.security.distinguished_names import Parts, parsed
from leveret.security.identity import Identity
from leveret.security.ldap.connection import Unavailable
from leveret.security.ldap.directory import LdapDirectory, Misconfigured, WrongLogin
from leveret.security.ldap.mapping import GroupMapping, NoGroup
from leveret.security.passwords import PASSWORD_BYTES_MAX

REMEMBERED_MAX = 10_000
NO_NAME_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn"))
"""Characters that directories drop before they compare, or that no name has: controls, formats, unassigned ones."""


class Ldap:
    """Logs users in by a directory; used by many threads."""

    def __init__(self, directory: LdapDirectory, mapping: str, group_base: str | None, cache_s: float) -> None:
        """`mapping` is the file of groups; raises InvalidArgument when it cannot be used."""
        self._directory = directory
        self._path = mapping
        self._written_ns = _written_ns(mapping)
        self._mapping = GroupMapping.read(mapping)
        self._base: Parts | None = None if group_base is None else parsed(group_base)
        self._cache_ms = int(cache_s * 1_000)
        self._key = secrets.token_bytes(hashlib.blake2b.MAX_KEY_SIZE)
        self._remembered: dict[bytes, tuple[Identity, int]] = {}
        self._mutex = Lock()

    def recall(self, given: Credentials, peer: str, now_ms: int) -> Identity | None:
        """The identity of a login that was right a moment ago; None says nothing."""
        if given.name is None or not self._remembered:
            return None
        with self._mutex:
            identity, until_ms = self._remembered.get(self._digest(given), (None, 0))
        return identity if until_ms - self._cache_ms <= now_ms < until_ms else None

    def authenticate(self, given: Credentials, peer: str, now_ms: int) -> AuthenticatedLogin:
        """Ask the directory; in a worker thread, for it waits."""
        try:
            name = _checked(given)
            found = self._directory.log_in(name, given.password)
            identity = self._current_mapping().identity(name, found.groups, self._base)
        except (WrongLogin, NoGroup, Misconfigured, Unavailable, InvalidArgument) as error:
            return AuthenticatedLogin(None, f"LDAP: {error}")
        self._remember(given, identity, now_ms)
        return AuthenticatedLogin(identity)

    def close(self) -> None:
        """Close connections."""
        self._directory.close()

    def _current_mapping(self) -> GroupMapping:
        """The mapping as it is in its file now; raises InvalidArgument, so that no login goes by what was before."""
        written_ns = _written_ns(self._path)
        if written_ns != self._written_ns:
            mapping = GroupMapping.read(self._path)
            with self._mutex:
                self._mapping, self._written_ns = mapping, written_ns
                self._remembered.clear()
        return self._mapping

    def _remember(self, given: Credentials, identity: Identity, now_ms: int) -> None:
        if self._cache_ms:
            with self._mutex:
                self._remembered[self._digest(given)] = (identity, now_ms + self._cache_ms)
                if len(self._remembered) > REMEMBERED_MAX:
                    del self._remembered[next(iter(self._remembered))]

    def _digest(self, given: Credentials) -> bytes:
        name = (given.name or "").encode("utf-8", "surrogatepass")
        pair = len(name).to_bytes(4) + name + given.password
        return hashlib.blake2b(pair, key=self._key, digest_size=32).digest()


def _checked(given: Credentials) -> str:
    """The name as it is known here; raises WrongLogin for what is never sent to a directory."""
    if given.name is None:
        raise WrongLogin("it takes names with passwords, no tokens")
    if not given.password:
        # Many directories answer a bind without a password with success, whichever entry it names (RFC 4513, 5.1.2).
        raise WrongLogin("the password is empty")
    if len(given.password) > PASSWORD_BYTES_MAX:
        raise WrongLogin(f"the password has over {PASSWORD_BYTES_MAX} bytes")
    if len(given.name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise WrongLogin(f"the name has over {NAME_BYTES_MAX} bytes")
    # Not folded: of German and Greek letters directories differ in what they take for the same.
    name = " ".join(normalize("NFKC", normalize("NFKC", given.name).lower()).split())
    if not name or any(category(each) in NO_NAME_CATEGORIES for each in given.name + name):
        raise WrongLogin("the name is empty, or has characters that no name has")
    if len(name.encode()) > NAME_BYTES_MAX:
        raise WrongLogin(f"the name has over {NAME_BYTES_MAX} bytes")
    return name


def _written_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
