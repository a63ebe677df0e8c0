"""Users: their names, tags and limits, and the decision whether a client is who it says; limits of virtual hosts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from leveret.core.errors import InvalidArgument, NotFound, TooMany
from leveret.core.names import NAME_BYTES_MAX, check_name
from leveret.security import passwords
from leveret.security.logins import Failures, Verified
from leveret.security.passwords import DEFAULT_COST, NO_PASSWORD, Cost, needs_rehash, verify
from leveret.security.peers import is_loopback, origin

TAGS = frozenset(("administrator", "impersonator", "management", "monitoring", "policymaker"))
LOOPBACK_USERS = frozenset(("guest",))  # its password is public
FROM_HERE_ONLY = "user {!r} can only connect from this machine"
USERS_MAX = 10_000
LIMIT_MAX = 2**31 - 1

UNLIMITED = -1
_LIMITS = {"max-connections": "connections_max", "max-channels": "channels_max"}
_VHOST_LIMITS = {"max-connections": "connections_max", "max-queues": "queues_max"}


@dataclass(frozen=True, slots=True)
class User:
    """A user; a limit of None is none."""

    name: str
    password_hash: str = field(default=NO_PASSWORD, repr=False)
    tags: frozenset[str] = frozenset()
    connections_max: int | None = None
    channels_max: int | None = None

    def __post_init__(self) -> None:
        check_name("user", self.name)
        if not self.name:
            raise InvalidArgument("the user name is empty: choose one")
        passwords.check_stored(self.password_hash)
        unknown = sorted(set(self.tags) - TAGS)
        if unknown:
            raise InvalidArgument(f"the tags are {', '.join(sorted(TAGS))}, not {', '.join(map(repr, unknown))}")
        check_limits(self, _LIMITS)

    def to_dict(self) -> dict[str, Any]:
        tags, limits = sorted(self.tags), stored_limits(self, _LIMITS)
        return {"name": self.name, "password_hash": self.password_hash, "tags": tags, "limits": limits}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "User":
        """The reverse of to_dict; what RabbitMQ exports is understood as well."""
        known = read_limits(stored.get("limits") or {}, "user", _LIMITS)
        password_hash = stored.get("password_hash", NO_PASSWORD)
        if "hashing_algorithm" in stored:
            password_hash = passwords.imported(password_hash, stored["hashing_algorithm"])
        return cls(stored.get("name", ""), password_hash, tag_set(stored.get("tags", ())), **known)


@dataclass(frozen=True, slots=True)
class UserLogin:
    """What became of a login. `reason` is for the log; the client learns no more than that it was refused."""

    user: User | None
    reason: str = ""
    rehash: bool = False
    """The stored hash is weaker than it should be: call change_password while the password is at hand."""


class Users:
    """Every user, and who is let in."""

    def __init__(self, cost: Cost = DEFAULT_COST, loopback_users: Iterable[str] = LOOPBACK_USERS) -> None:
        self._users: dict[str, User] = {}
        self._cost = cost
        self._loopback_users = frozenset(loopback_users)
        self._nobody = passwords.unmatchable(cost)
        self._verified = Verified()
        self._failures_by_name = Failures()
        self._failures_by_origin = Failures()

    def count_failures(self, by_name: Failures, by_origin: Failures) -> None:
        """Count wrong passwords elsewhere from now on: together with other nodes."""
        self._failures_by_name = by_name
        self._failures_by_origin = by_origin

    def __len__(self) -> int:
        return len(self._users)

    def __iter__(self) -> Iterator[User]:
        return iter(sorted(self._users.values(), key=lambda user: user.name))

    def __contains__(self, name: str) -> bool:
        return name in self._users

    def get(self, name: str) -> User:
        user = self._users.get(name)
        if user is None:
            raise NotFound(f"no user '{name}': add it first")
        return user

    def limits_of(self, name: str) -> User:
        """The stored user of that name, or one without limits: a token may name a user that is not stored."""
        return self._users.get(name) or User(name)

    def put(self, user: User) -> User:
        """Add or replace a user as it is: from the journal, from an import, with other tags or limits."""
        if user.name not in self._users and len(self._users) >= USERS_MAX:
            raise TooMany(f"there are {USERS_MAX} users, which is the limit: delete some")
        self._users[user.name] = user
        return user

    def delete(self, name: str) -> User:
        """Forget a user; its permissions are dropped by Permissions.drop_user."""
        user = self.get(name)
        del self._users[name]
        return user

    def check(self, name: str, password: str | bytes, peer: str, now_ms: int) -> UserLogin:
        """Decide a login by password, without counting it: another way to log in may follow. Hashing takes a fifth of a
        second: not in the event loop.
        """
        name = name[:NAME_BYTES_MAX]  # no user has a longer one, and it is going to be logged
        user = self._users.get(name)
        if not self.may_come_from(name, peer):
            # Not even hashed: the rule is public, and the password must not be guessed from afar.
            return UserLogin(None, FROM_HERE_ONLY.format(name))
        if not self._is_password(user, password, now_ms):
            return UserLogin(None, f"wrong name or password for user {name!r}")
        assert user is not None
        return UserLogin(user, rehash=needs_rehash(user.password_hash, self._cost))

    def succeeded(self, name: str) -> None:
        """Forget the failures of a name.

        Not those of the address: the owner of one account could try the others from there without delay.
        """
        self._failures_by_name.forget(name[:NAME_BYTES_MAX])

    def failed(self, name: str, peer: str, now_ms: int) -> int:
        """Count a failed login against its name and its address; gives the delay of the refusal in milliseconds."""
        by_name = self._failures_by_name.count(name[:NAME_BYTES_MAX], now_ms)
        return max(by_name, self._failures_by_origin.count(origin(peer), now_ms))

    def recall(self, name: str, password: str | bytes, peer: str, now_ms: int) -> User | None:
        """The user, if this login was right a minute ago at most; None says nothing. Hashes no password."""
        user = self._users.get(name)
        if user is None or not user.password_hash or not self.may_come_from(name, peer):
            return None
        return user if self._verified.knows(user.password_hash, passwords.encoded(password), now_ms) else None

    def count_failure(self, peer: str, now_ms: int) -> int:
        """Count a wrong token or signature against its address; for how many milliseconds to hold the answer back."""
        return self._failures_by_origin.count(origin(peer), now_ms)

    def failed_often(self, origin: str, now_ms: int) -> bool:
        """Whether so many logins from an address were wrong that refusals are held back."""
        return self._failures_by_origin.exceeded(origin, now_ms)

    def may_come_from(self, name: str, peer: str) -> bool:
        """Whether a user is let in from an address: some are from this machine only."""
        return name not in self._loopback_users or is_loopback(peer)

    def _is_password(self, user: User | None, password: str | bytes, now_ms: int) -> bool:
        """Whether it is; a refusal takes equally long for every user, existing or not."""
        stored = NO_PASSWORD if user is None else user.password_hash
        secret = passwords.encoded(password)
        if stored and self._verified.knows(stored, secret, now_ms):
            return True
        if not stored or needs_rehash(stored, self._cost):
            verify(self._nobody, secret)
        if not verify(stored, secret):
            return False
        self._verified.remember(stored, secret, now_ms)
        return True


def tag_set(given: object) -> frozenset[str]:
    """Tags as a list, or as older exports have them: separated by commas."""
    if isinstance(given, str):
        return frozenset(tag.strip() for tag in given.split(",") if tag.strip())
    tags = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(tag, str) for tag in tags):
        raise InvalidArgument("the tags of a user are a list of names")
    return frozenset(tags)


def check_limits(limited: object, fields: Mapping[str, str]) -> None:
    """Refuse limits that are no counts; `fields` are their attributes by RabbitMQ's names."""
    for key, attribute in fields.items():
        limit = getattr(limited, attribute)
        if limit is not None and (type(limit) is not int or not 0 <= limit <= LIMIT_MAX):
            raise InvalidArgument(f"{key} is a number from 0 to {LIMIT_MAX}; {UNLIMITED} in a definition is no limit")


def stored_limits(limited: object, fields: Mapping[str, str]) -> dict[str, int]:
    """The limits that there are, by RabbitMQ's names."""
    limits = {key: getattr(limited, attribute) for key, attribute in fields.items()}
    return {key: limit for key, limit in limits.items() if limit is not None}


def read_limits(limits: object, whose: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The attributes of limits in a definition."""
    if not isinstance(limits, Mapping) or set(limits) - set(fields):
        raise InvalidArgument(f"the limits of a {whose} are {', '.join(fields)}: remove the others")
    return {fields[key]: None if limit == UNLIMITED else limit for key, limit in limits.items()}


@dataclass(frozen=True, slots=True)
class VhostLimits:
    """The limits of one virtual host."""

    vhost: str
    connections_max: int | None = None
    queues_max: int | None = None

    def __post_init__(self) -> None:
        check_name("vhost", self.vhost)
        check_limits(self, _VHOST_LIMITS)

    def values(self) -> dict[str, int]:
        """The limits that there are, by RabbitMQ's names."""
        return stored_limits(self, _VHOST_LIMITS)

    def to_dict(self) -> dict[str, Any]:
        return {"vhost": self.vhost, "limits": self.values()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "VhostLimits":
        return cls(stored["vhost"], **read_limits(stored["limits"], "vhost", _VHOST_LIMITS))
