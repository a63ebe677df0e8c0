"""API keys, which are tokens that a user makes for a program, and access keys, which requests of SQS are signed with.

    lvk_0123456789abcdef_AbC...         prefix, number, 32 random bytes

The number finds the key, the rest proves it. Only a hash of it is kept: 32 random bytes cannot be guessed, so that it
need not be a slow one. Rotation gives a key a new secret; the old one stays good for as long as one says.

An access key has an id that is public, and a secret that requests are signed with. A signature is checked by making it
again, so the secret itself is kept, not a hash of it: a reader of the data directory can sign. Encryption at rest
covers it.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from leveret.core.broker import Broker
from leveret.core.definition_log import Kind
from leveret.core.errors import InvalidArgument, NotFound, PreconditionFailed, TooMany
from leveret.core.names import check_name
from leveret.security.scopes import parse_scopes

PREFIX = "lvk_"
NUMBER_BYTES = 8
SECRET_BYTES = 32
KEYS_MAX = 10_000
LABEL_CHARS_MAX = 255
TOKEN = re.compile(r"lvk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
ACCESS_KEYS_MAX = 10_000  # all are in memory
KEYS_PER_USER_MAX = 10
ID_PREFIX = "AKIA"
ID_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
ID_RANDOM_CHARS = 16
ACCESS_SECRET_BYTES = 30  # 40 characters of base64

_ID = re.compile(r"[A-Za-z0-9_]{1,128}")
_SECRET = re.compile(r"[!-~]{1,256}")


@dataclass(frozen=True, slots=True)
class Secret:
    """The hash of a secret, and when that ends; None: with its key."""

    sha256: str = field(repr=False)
    expires_ms: int | None = None

    def proves(self, digest: str, now_ms: int) -> bool:
        """Whether it is this one, and still good."""
        fresh = self.expires_ms is None or now_ms < self.expires_ms
        return hmac.compare_digest(self.sha256, digest) and fresh


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret."""

    number: str
    user: str
    label: str
    scopes: tuple[str, ...]
    created_ms: int
    expires_ms: int | None
    stored: tuple[Secret, ...] = field(default=(), repr=False)
    """The current secret, then the one before it."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.number,
            "user": self.user,
            "label": self.label,
            "scopes": list(self.scopes),
            "created_ms": self.created_ms,
            "expires_ms": self.expires_ms,
            "secrets": [{"sha256": each.sha256, "expires_ms": each.expires_ms} for each in self.stored],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "ApiKey":
        known = tuple(Secret(each["sha256"], each["expires_ms"]) for each in stored["secrets"])
        return cls(
            number=stored["name"],
            user=stored["user"],
            label=stored["label"],
            scopes=tuple(stored["scopes"]),
            created_ms=stored["created_ms"],
            expires_ms=stored["expires_ms"],
            stored=known,
        )

    def accepts(self, digest: str, now_ms: int) -> bool:
        """Whether a secret with this hash is the one, and the key has not ended."""
        fresh = self.expires_ms is None or now_ms < self.expires_ms
        return fresh and any(secret.proves(digest, now_ms) for secret in self.stored)


class ApiKeys:
    """Every key, kept in the catalog of a core. The verbs run under its lock; `find` does not need it."""

    def __init__(self, core: Broker, revoked: Callable[[str], None] = lambda user: None) -> None:
        """Start with none; `put` takes in those that the core has. `revoked` hears of a user whose token is no more."""
        self._core = core
        self._revoked = revoked
        self._keys: dict[str, ApiKey] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[ApiKey]:
        return iter(sorted(self._keys.values(), key=lambda key: (key.created_ms, key.number)))

    def get(self, number: str) -> ApiKey:
        key = self._keys.get(number)
        if key is None:
            raise NotFound(f"no API key '{number}': list them, or make one")
        return key

    def add(
        self, user: str, scopes: Iterable[str], now_ms: int, *, label: str = "", lifetime_ms: int | None = None
    ) -> tuple[ApiKey, str]:
        """A new key for a user, and its token, which cannot be shown again."""
        check_name("user", user)
        if not isinstance(label, str) or len(label) > LABEL_CHARS_MAX:
            raise InvalidArgument(f"the label of an API key has up to {LABEL_CHARS_MAX} characters: shorten it")
        if len(self._keys) >= KEYS_MAX:
            raise TooMany(f"there are {KEYS_MAX} API keys, which is the limit: delete some")
        expires_ms = None if lifetime_ms is None else now_ms + _positive("lifetime", lifetime_ms)
        number = secrets.token_hex(NUMBER_BYTES)
        token, secret = _new_token(number)
        key = ApiKey(number, user, label, parse_scopes(scopes), now_ms, expires_ms, (secret,))
        return self._keep(key), token

    def rotate(self, number: str, now_ms: int, *, overlap_ms: int = 0) -> tuple[ApiKey, str]:
        """Another token for a key; the current one stays good for `overlap_ms`."""
        key = self.get(number)
        token, secret = _new_token(number)
        kept = (replace(key.stored[0], expires_ms=now_ms + _positive("overlap", overlap_ms)),) if overlap_ms else ()
        rotated = self._keep(replace(key, stored=(secret, *kept)))
        if not kept:
            self._revoked(key.user)
        return rotated, token

    def delete(self, number: str) -> None:
        """Make a key useless at once."""
        user = self.get(number).user
        self._core.undefine(Kind.API_KEY, {"name": number, "user": user})
        del self._keys[number]
        self._revoked(user)

    def drop_user(self, user: str) -> None:
        """Delete the keys of a user: a later one of the same name must not inherit them."""
        for key in [each for each in self._keys.values() if each.user == user]:
            self.delete(key.number)

    def put(self, key: ApiKey) -> None:
        """Know a key that the core has."""
        self._keys[key.number] = key

    def drop(self, number: str) -> None:
        """Forget a key that the core has no more."""
        self._keys.pop(number, None)

    def find(self, token: str, now_ms: int) -> ApiKey | None:
        """The key that a token proves; None for one that is unknown, wrong or has ended."""
        match = TOKEN.fullmatch(token)
        key = self._keys.get(match[1]) if match else None
        if match is None or key is None or not key.accepts(_digest(match[2]), now_ms):
            return None
        return key

    def _keep(self, key: ApiKey) -> ApiKey:
        self._keys[key.number] = key
        self._core.define(Kind.API_KEY, key.to_dict())
        return key


def _new_token(number: str) -> tuple[str, Secret]:
    secret = secrets.token_urlsafe(SECRET_BYTES)
    return f"{PREFIX}{number}_{secret}", Secret(_digest(secret))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _positive(what: str, time_ms: object) -> int:
    if type(time_ms) is not int or time_ms <= 0:
        raise InvalidArgument(f"the {what} of an API key is a number of milliseconds above 0, not {time_ms!r}")
    return time_ms


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A key of a user."""

    id: str
    user: str
    secret: str = field(repr=False)
    created_ms: int = 0

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise InvalidArgument("the id of an access key has 1 to 128 letters, digits and underscores")
        if not _SECRET.fullmatch(self.secret):
            raise InvalidArgument("the secret of an access key has 1 to 256 visible ASCII characters")

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.id, "user": self.user, "secret": self.secret, "created_ms": self.created_ms}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "AccessKey":
        return cls(stored["name"], stored["user"], stored["secret"], stored["created_ms"])


def new_id() -> str:
    """An id that is not in use."""
    return ID_PREFIX + "".join(secrets.choice(ID_CHARS) for _ in range(ID_RANDOM_CHARS))


def new_secret() -> str:
    """A secret that cannot be guessed."""
    return secrets.token_urlsafe(ACCESS_SECRET_BYTES)


class AccessKeys:
    """Every access key by its id."""

    def __init__(self) -> None:
        self._keys: dict[str, AccessKey] = {}
        self.find: Callable[[str], AccessKey | None] = self._keys.get

    def __iter__(self) -> Iterator[AccessKey]:
        return iter(self._keys.values())

    def get(self, id: str) -> AccessKey:
        found = self._keys.get(id)
        if found is None:
            raise NotFound(f"no access key '{id}': see `leveret keys list`")
        return found

    def of(self, user: str) -> list[AccessKey]:
        return [key for key in self._keys.values() if key.user == user]

    def put(self, key: AccessKey) -> None:
        if key.id in self._keys:
            raise PreconditionFailed(f"the access key '{key.id}' exists: delete it first")
        if len(self._keys) >= ACCESS_KEYS_MAX or len(self.of(key.user)) >= KEYS_PER_USER_MAX:
            raise TooMany(
                f"a user has at most {KEYS_PER_USER_MAX} access keys, and all together {ACCESS_KEYS_MAX}: delete some"
            )
        self._keys[key.id] = key

    def drop(self, id: str) -> AccessKey:
        self.get(id)
        return self._keys.pop(id)
