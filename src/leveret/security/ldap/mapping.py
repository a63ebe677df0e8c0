"""Which tags and permissions the members of LDAP groups have: a file in TOML, or in JSON if its name ends so.

    [[group]]
    dn = "cn=operators,ou=groups,dc=example,dc=org"        # or name = "operators", or name = "*": every LDAP user
    tags = ["administrator"]
    permissions = [{ vhost = "*", configure = ".*", write = ".*", read = ".*" }]

    [[group]]
    name = "orders"
    permissions = [{ vhost = "shop", configure = "", write = "^orders$", read = "^{username}-" }]

A user has what all of its groups have. A name is the first part of the name of a group below `ldap_group_base`.
"""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.security.distinguished_names import Parts, folded, parsed
from leveret.security.identity import Identity
from leveret.security.permissions import Permission
from leveret.security.users import TAGS, tag_set

FILE_BYTES_MAX = 1 << 20
GROUPS_MAX = 1_000
PERMISSIONS_MAX = 100
"""Of one group, and of one user: they are tried for each name, and forwarded with requests to other nodes."""
EVERY_USER = "*"
FIELDS = frozenset(("dn", "name", "tags", "permissions"))
PATTERNS = ("configure", "write", "read")

_USERNAME = re.compile(r"\\.|\{username\}", re.DOTALL)


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
        """Whether it is one of the groups of a user."""
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
    def read(cls, path: str) -> "GroupMapping":
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
    """The groups of a parsed file."""
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
