"""Permissions: three patterns for each user in each virtual host, and patterns for the keys of topic exchanges.

A pattern is searched in the name, as in RabbitMQ: it matches anywhere unless it has ^ and $. An empty one, and ^$,
match nothing. Without an entry for a virtual host nothing in it is allowed; without one for a topic exchange every key.
Whatever refuses wins: a key that is allowed does not help where the exchange is not.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field, fields
from typing import Any, Literal, NamedTuple

from leveret.core.errors import AccessRefused, NotFound, TooMany
from leveret.core.names import check_name, described
from leveret.core.patterns import check_length, checked, escape, pattern, problem_of

Access = Literal["configure", "write", "read"]

PATTERN_CHARS_MAX = 1_000  # it is searched in every name that the user uses
EXPANDED_CHARS_MAX = 4_000  # the same after names took the place of {username} and {vhost}
PERMISSIONS_MAX = 100_000  # each is kept for ever
DEFAULT_EXCHANGE = "amq.default"  # what patterns call the exchange without a name

_NOTHING = frozenset(("", "^$"))
_VARIABLE = re.compile(r"\\.|\{(username|vhost)\}", re.DOTALL)


class Resource(NamedTuple):
    """What a user wants to use."""

    kind: Literal["queue", "exchange"]
    name: str

    @property
    def checked_name(self) -> str:
        return DEFAULT_EXCHANGE if self.kind == "exchange" and not self.name else self.name


@dataclass(frozen=True, slots=True)
class _Patterns:
    """What permissions on names and on keys share: a pattern for each access."""

    problem: str | None = field(default=None, init=False, repr=False, compare=False)
    """Why a stored pattern cannot be used: it allows nothing."""
    _used: Mapping[str, str | None] = field(init=False, repr=False, compare=False)

    def _keep(self, used: Mapping[str, tuple[str | None, str | None]]) -> None:
        object.__setattr__(self, "_used", {access: text for access, (text, _) in used.items()})
        object.__setattr__(self, "problem", next((each for _, each in used.values() if each is not None), None))

    def allows(self, access: Access, name: str) -> bool:
        """Whether the pattern for this access matches the name, or the key."""
        text = self._used[access]
        return text is not None and pattern(text).matches(name)

    def to_dict(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.init}

    def shown(self) -> dict[str, Any]:
        """The definition for operators, with its problem if it has one."""
        return self.to_dict() | ({} if self.problem is None else {"problem": self.problem})


@dataclass(frozen=True, slots=True)
class Permission(_Patterns):
    """What a user may do in a virtual host."""

    user: str
    vhost: str
    configure: str = ""
    write: str = ""
    read: str = ""
    stored: InitVar[bool] = False

    def __post_init__(self, stored: bool) -> None:
        _check_owner(self.user, self.vhost)
        given = {"configure": self.configure, "write": self.write, "read": self.read}
        self._keep({access: _usable(text, stored) for access, text in given.items()})

    @property
    def configures(self) -> bool:
        """Whether there may be a name that the user may configure."""
        return self.configure not in _NOTHING

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Permission":
        given = {name: stored.get(name, "") for name in ("configure", "write", "read")}
        return cls(stored["user"], stored["vhost"], **given, stored=True)


@dataclass(frozen=True, slots=True)
class TopicPermission(_Patterns):
    """Which keys a user may publish to a topic exchange (write) and bind with (read)."""

    user: str
    vhost: str
    exchange: str
    write: str = ""
    read: str = ""
    stored: InitVar[bool] = False

    def __post_init__(self, stored: bool) -> None:
        _check_owner(self.user, self.vhost)
        check_name("exchange", self.exchange)
        given = {"write": self.write, "read": self.read}
        self._keep({access: self._expanded(text, stored) for access, text in given.items()})

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "TopicPermission":
        given = {name: stored.get(name, "") for name in ("write", "read")}
        return cls(stored["user"], stored["vhost"], stored["exchange"], **given, stored=True)

    def _expanded(self, text: str, stored: bool) -> tuple[str | None, str | None]:
        """The pattern with names in it, escaped: a user whose name is .* does not stand for all of them."""
        if not stored:
            check_length("the pattern of a permission", text, PATTERN_CHARS_MAX)
        values = {"username": escape(self.user), "vhost": escape(self.vhost)}
        expanded = _VARIABLE.sub(lambda match: values[match[1]] if match[1] else match[0], text)
        return _usable(expanded, stored, EXPANDED_CHARS_MAX)


class Permissions:
    """The permissions of all users."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Permission] = {}
        self._topics: dict[tuple[str, str, str], TopicPermission] = {}

    def __iter__(self) -> Iterator[Permission]:
        return iter(self._rows.values())

    def topics(self) -> Iterator[TopicPermission]:
        return iter(self._topics.values())

    def put(self, permission: Permission) -> None:
        """Add or replace what a user may do in a virtual host."""
        key = (permission.user, permission.vhost)
        _check_room(key in self._rows, len(self._rows))
        self._rows[key] = permission

    def put_topic(self, permission: TopicPermission) -> None:
        """Add or replace the keys of a topic exchange that a user may use."""
        key = (permission.user, permission.vhost, permission.exchange)
        _check_room(key in self._topics, len(self._topics))
        self._topics[key] = permission

    def drop(self, user: str, vhost: str) -> Permission:
        if (user, vhost) not in self._rows:
            raise NotFound(f"user '{user}' has no permissions in vhost '{vhost}': there is nothing to clear")
        return self._rows.pop((user, vhost))

    def drop_topic(self, user: str, vhost: str, exchange: str | None = None) -> list[TopicPermission]:
        """Let a user use every key again, of one exchange or of all; what was dropped."""
        keys = [key for key in self._topics if key[:2] == (user, vhost) and exchange in (None, key[2])]
        return [self._topics.pop(key) for key in keys]

    def drop_user(self, user: str) -> None:
        """Forget everything about a user: a later one of the same name must not inherit it."""
        self._rows = {key: row for key, row in self._rows.items() if key[0] != user}
        self._topics = {key: row for key, row in self._topics.items() if key[0] != user}

    def drop_vhost(self, vhost: str) -> None:
        """Forget everything about a virtual host."""
        self._rows = {key: row for key, row in self._rows.items() if key[1] != vhost}
        self._topics = {key: row for key, row in self._topics.items() if key[1] != vhost}

    def may_enter(self, user: str, vhost: str) -> bool:
        """Whether a user may open the virtual host: any entry will do, even one that allows nothing in it."""
        return (user, vhost) in self._rows

    def may_configure_in(self, user: str, vhost: str) -> bool:
        """Whether there may be a name in the virtual host that a user may configure."""
        row = self._rows.get((user, vhost))
        return row is not None and row.configures

    def check(self, user: str, vhost: str, resource: Resource, access: Access) -> None:
        row = self._rows.get((user, vhost))
        if row is None or not row.allows(access, resource.checked_name):
            what = described(resource.kind, resource.checked_name, vhost)
            raise AccessRefused(f"{access} access to {what} refused for user '{user}'")

    def check_topic(self, user: str, vhost: str, exchange: str, key: str, access: Literal["write", "read"]) -> None:
        row = self._topics.get((user, vhost, exchange))
        if row is not None and not row.allows(access, key):
            what = described("exchange", exchange, vhost)
            raise AccessRefused(f"{access} access to topic '{key}' in {what} refused for user '{user}'")


def _check_owner(user: str, vhost: str) -> None:
    """Refuse names of users that do not exist."""
    check_name("user", user)
    check_name("vhost", vhost)


def _check_room(known: bool, count: int) -> None:
    if not known and count >= PERMISSIONS_MAX:
        raise TooMany(f"there are {PERMISSIONS_MAX} permissions, which is the limit: remove some")


def _usable(pattern_text: str, stored: bool, chars_max: int = PATTERN_CHARS_MAX) -> tuple[str | None, str | None]:
    """The pattern that names are searched for, None if it matches nothing; and why a stored one cannot be used."""
    if not stored:
        checked("the pattern of a permission", pattern_text, chars_max)
    if pattern_text in _NOTHING:
        return None, None
    problem = problem_of(pattern_text)
    return (pattern_text, None) if problem is None else (None, problem)
