"""Access keys: an id that is public, and a secret that requests are signed with.

A signature is checked by making it again, so the secret itself is kept, not a hash of it: a reader of the data
directory can sign. Encryption at rest covers it.
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from leveret.core.errors import InvalidArgument, NotFound, PreconditionFailed, TooMany

KEYS_MAX = 10_000  # all are in memory
KEYS_PER_USER_MAX = 10
PREFIX = "AKIA"
ID_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
ID_RANDOM_CHARS = 16
SECRET_BYTES = 30  # 40 characters of base64

_ID = re.compile(r"[A-Za-z0-9_]{1,128}")
_SECRET = re.compile(r"[!-~]{1,256}")


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
    return PREFIX + "".join(secrets.choice(ID_CHARS) for _ in range(ID_RANDOM_CHARS))


def new_secret() -> str:
    """A secret that cannot be guessed."""
    return secrets.token_urlsafe(SECRET_BYTES)


class AccessKeys:
    """Every access key by its id."""

    def __init__(self) -> None:
        self._keys: dict[str, AccessKey] = {}

    def __iter__(self) -> Iterator[AccessKey]:
        return iter(self._keys.values())

    def find(self, id: str) -> AccessKey | None:
        return self._keys.get(id)

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
        if len(self._keys) >= KEYS_MAX or len(self.of(key.user)) >= KEYS_PER_USER_MAX:
            raise TooMany(
                f"a user has at most {KEYS_PER_USER_MAX} access keys, and all together {KEYS_MAX}: delete some"
            )
        self._keys[key.id] = key

    def drop(self, id: str) -> AccessKey:
        self.get(id)
        return self._keys.pop(id)
