"""The backend "ldap" for logins: names and passwords that a directory knows, with tags and permissions of its groups.

A login that was right is remembered for some seconds (`ldap_cache_s`), as a keyed hash of name and password; one that
was wrong is not. Names are compared as directories do, so a user has one name here however it is spelled.

Which tags and permissions the members of groups have is in a file in TOML, or in JSON if its name ends so:

    [[group]]
    dn = "cn=operators,ou=groups,dc=example,dc=org"        # or name = "operators", or name = "*": every LDAP user
    tags = ["administrator"]
    permissions = [{ vhost = "*", configure = ".*", write = ".*", read = ".*" }]

    [[group]]
    name = "orders"
    permissions = [{ vhost = "shop", configure = "", write = "^orders$", read = "^{username}-" }]

A user has what all of its groups have. A name is the first part of the name of a group below `ldap_group_base`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any
from unicodedata import category, normalize

from leveret.core.errors import InvalidArgument
from leveret.core.names import NAME_BYTES_MAX
from leveret.security.authentication import AuthenticatedLogin, Credentials
from leveret.security.distinguished_names import Parts, folded, parsed
from leveret.security.identity import Identity
from leveret.security.ldap.connection import Unavailable
from leveret.security.ldap.directory import LdapDirectory, Misconfigured, WrongLogin
from leveret.security.passwords import PASSWORD_BYTES_MAX
from leveret.security.permissions import Permission
from leveret.security.users import TAGS, tag_set

REMEMBERED_MAX = 10_000
NO_NAME_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn"))
"""Characters that directories drop before they compare, or that no name has: controls, formats, unassigned ones."""
FILE_BYTES_MAX = 1 << 20
GROUPS_MAX = 1_000
PERMISSIONS_MAX = 100
"""Of one group, and of one user: they are tried for each name, and forwarded with requests to other nodes."""
EVERY_USER = "*"
FIELDS = frozenset(("dn", "name", "tags", "permissions"))
PATTERNS = ("configure", "write", "read")

_USERNAME = re.compile(r"\\.|\{username\}", re.DOTALL)


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


class NoGroup(Exception):
    """A user is in no group that the file has."""


@dataclass(frozen=True, slots=True)
class GroupGrant:
    """What the members of a group have."""

    dn: Parts | None
    name: str | None
    tags: frozenset[str]
    permissions: tuple[tuple[str, str, str, str], ...]

    def has(self, groups: Collection[Parts], base: Parts | None) -> bool:
        if self.name == EVERY_USER:
            return True
        if self.dn is not None:
            return self.dn in groups
        # Elsewhere in a directory others may make groups of that name.
        return any(base is not None and _is_below(each, base) and _first(each) == self.name for each in groups)


@dataclass(frozen=True, slots=True)
class GroupMapping:
    """The groups of a file."""

    groups: tuple[GroupGrant, ...]

    @classmethod
    def read(cls, path: str) -> GroupMapping:
        """The mapping in a file; raises InvalidArgument."""
        try:
            with open(path, "rb") as file:
                text = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise InvalidArgument(f"cannot read the mapping of LDAP groups {path}: {error.strerror}") from None
        if len(text) > FILE_BYTES_MAX:
            raise InvalidArgument(f"the mapping of LDAP groups {path} is over {FILE_BYTES_MAX} bytes: shorten it")
        try:
            table = json.loads(text) if path.endswith(".json") else tomllib.loads(text.decode())
            return cls(tuple(_groups(table)))
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"the mapping of LDAP groups {path} cannot be used: {error}") from None

    def identity(self, user: str, groups: Collection[Parts], base: Parts | None) -> Identity:
        """The identity of a user in these groups; raises NoGroup, or InvalidArgument when it has too much."""
        matched = [each for each in self.groups if each.has(groups, base)]
        if not matched:
            raise NoGroup(f"user '{user}' is in no group of ldap_mapping, of {len(groups)} groups that it has")
        tags = frozenset[str]().union(*(each.tags for each in matched))
        rows = dict.fromkeys(row for each in matched for row in each.permissions)
        if len(rows) > PERMISSIONS_MAX:
            raise InvalidArgument(
                f"the groups of user '{user}' have {len(rows)} permissions, the limit is {PERMISSIONS_MAX}: give them "
                "fewer, with patterns for more names"
            )
        permissions = tuple(
            Permission(user, vhost, _expanded(configure, user), _expanded(write, user), _expanded(read, user))
            for vhost, configure, write, read in rows
        )
        return Identity(user, tags, local=False, permissions=permissions)


def _groups(table: object) -> Iterator[GroupGrant]:
    listed = table.get("group") if isinstance(table, dict) and set(table) == {"group"} else None
    if not isinstance(listed, list) or not listed:
        raise InvalidArgument("it has a list of tables called group, and nothing else")
    if len(listed) > GROUPS_MAX:
        raise InvalidArgument(f"it has {len(listed)} groups, the limit is {GROUPS_MAX}: remove some")
    for number, row in enumerate(listed, start=1):
        try:
            yield _group(row)
        except InvalidArgument as error:
            raise InvalidArgument(f"group {number}: {error}") from None


def _group(row: object) -> GroupGrant:
    if not isinstance(row, dict) or set(row) - FIELDS or ("dn" in row) == ("name" in row):
        raise InvalidArgument(f"a group has dn or name, and of the others {', '.join(sorted(FIELDS - {'dn', 'name'}))}")
    which = row.get("dn", row.get("name"))
    if not isinstance(which, str) or not which.strip():
        raise InvalidArgument("its dn or name is text")
    tags = tag_set(row.get("tags", ()))
    if not tags <= TAGS:
        raise InvalidArgument(f"the tags are {', '.join(sorted(TAGS))}, not {', '.join(sorted(tags - TAGS))}")
    given = row.get("permissions", [])
    if not isinstance(given, list) or len(given) > PERMISSIONS_MAX:
        raise InvalidArgument(f"permissions are a list of at most {PERMISSIONS_MAX}")
    permissions = tuple(_permission(each) for each in given)
    return GroupGrant(parsed(which) if "dn" in row else None, folded(row.get("name", "")) or None, tags, permissions)


def _permission(given: object) -> tuple[str, str, str, str]:
    """A checked row: virtual host and three patterns."""
    if not isinstance(given, Mapping) or set(given) - {"vhost", *PATTERNS} or "vhost" not in given:
        raise InvalidArgument(f"a permission has vhost and of {', '.join(PATTERNS)} what is allowed")
    row: list[Any] = [given["vhost"], *(given.get(name, "") for name in PATTERNS)]
    if not all(isinstance(each, str) for each in row):
        raise InvalidArgument("a permission has texts only")
    Permission("someone", *row)  # raises what cannot be used
    return (row[0], row[1], row[2], row[3])


def _expanded(pattern: str, user: str) -> str:
    """A pattern with the name of the user in it, escaped: a user that is called .* does not match every name."""
    return _USERNAME.sub(lambda found: re.escape(user) if found[0] == "{username}" else found[0], pattern)


def _is_below(dn: Parts, base: Parts) -> bool:
    return len(dn) > len(base) and dn[len(dn) - len(base) :] == base


def _first(dn: Parts) -> str | None:
    """The value of the first part, if it has one value."""
    values = [value for _, value in dn[0]]
    return values[0] if len(values) == 1 else None
