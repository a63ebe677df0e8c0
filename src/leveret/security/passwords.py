"""Passwords as they are stored: what is needed to check one, never the password.

scrypt$16384$8$5$salt$digest              ours: cost n, block size r, parallelism p, then base64
rabbit_password_hashing_sha256$base64     imported from RabbitMQ: 4 bytes of salt, then the digest of salt + password
rabbit_password_hashing_sha512$base64     the same
(empty)                                   no password: it is not the way in for this user
"""

import binascii
import hashlib
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

from leveret.core.errors import InvalidArgument

CHARS_MIN = 8
"""Fewest characters of a new password, unless an option says otherwise; RabbitMQ takes any that is not empty."""
PASSWORD_BYTES_MAX = 1_024  # hashing is dear on purpose: no client chooses how much of it there is
STORED_CHARS_MAX = 1_024
SCRYPT_MEMORY_BYTES_MAX = 64 * 1024 * 1024  # an imported user must not cost the broker its memory at each login
SCRYPT_PARALLELISM_MAX = 16
SALT_BYTES = 16
DIGEST_BYTES = 32
NO_PASSWORD = ""
SHA256 = "rabbit_password_hashing_sha256"

_SCRYPT = "scrypt"
_SALT_BYTES_MIN = 8
_IMPORTED_SALT_BYTES = 4
_IMPORTED = {SHA256: hashlib.sha256, "rabbit_password_hashing_sha512": hashlib.sha512}


@dataclass(frozen=True, slots=True)
class Cost:
    """How dear one scrypt hash is: 128 * n * r bytes of memory, p times over."""

    n: int = 16_384
    r: int = 8
    p: int = 5

    def __post_init__(self) -> None:
        if min(self.n - 1, self.r, self.p) < 1 or self.n & (self.n - 1):
            raise InvalidArgument("scrypt needs r and p of at least 1 and for n a power of two above 1")
        if self.memory_bytes > SCRYPT_MEMORY_BYTES_MAX or self.p > SCRYPT_PARALLELISM_MAX:
            raise InvalidArgument(
                f"scrypt may use {SCRYPT_MEMORY_BYTES_MAX} bytes (128 * n * r) and {SCRYPT_PARALLELISM_MAX} for p: "
                "choose lower ones"
            )

    @property
    def memory_bytes(self) -> int:
        """What one hash needs."""
        return 128 * self.n * self.r

    def digest(self, salt: bytes, password: bytes) -> bytes:
        room_bytes = 2 * self.memory_bytes + 128 * self.r * self.p + 1024 * 1024
        return hashlib.scrypt(password, salt=salt, n=self.n, r=self.r, p=self.p, maxmem=room_bytes, dklen=DIGEST_BYTES)


DEFAULT_COST = Cost()


@dataclass(frozen=True, slots=True, repr=False)
class _Stored:
    """A stored string taken apart; `cost` is None for imported ones."""

    cost: Cost | None
    digest: bytes
    hashed: Callable[[bytes], bytes]


def hash_password(password: str | bytes, cost: Cost = DEFAULT_COST) -> str:
    """What to store for a new password."""
    secret = encoded(password)
    if not secret:
        raise InvalidArgument("the password is empty: choose one, or use no password at all")
    if len(secret) > PASSWORD_BYTES_MAX:
        raise InvalidArgument(f"the password has {len(secret)} bytes, the limit is {PASSWORD_BYTES_MAX}: shorten it")
    salt = secrets.token_bytes(SALT_BYTES)
    return _written(cost, salt, cost.digest(salt, secret))


def hash_new(password: str | bytes, chars_min: int = CHARS_MIN) -> str:
    """What to store for a password that a user or an operator has chosen; refuses one that is too short."""
    check_new(password, chars_min)
    return hash_password(password)


def check_new(password: str | bytes, chars_min: int = CHARS_MIN) -> None:
    """Refuse a password that is too short."""
    chars = len(password if isinstance(password, str) else password.decode(errors="replace"))
    if 0 < chars < chars_min:
        raise InvalidArgument(f"the password has {chars} characters, the minimum is {chars_min}: choose a longer one")


def unmatchable(cost: Cost = DEFAULT_COST) -> str:
    """A stored string that is as dear to check as any, and that no password opens."""
    return _written(cost, secrets.token_bytes(SALT_BYTES), secrets.token_bytes(DIGEST_BYTES))


def imported(password_hash: str, hashing_algorithm: str) -> str:
    """What to store for a user that RabbitMQ exported."""
    known_types = isinstance(password_hash, str) and isinstance(hashing_algorithm, str)
    if not known_types or hashing_algorithm not in _IMPORTED:
        known = ", ".join(_IMPORTED)
        raise InvalidArgument(f"the hashing algorithm is one of {known}: set a new password for this user")
    if not password_hash:
        return NO_PASSWORD
    stored = f"{hashing_algorithm}${password_hash}"
    check_stored(stored)
    return stored


def hashed_row(row: dict[str, Any], chars_min: int = CHARS_MIN) -> dict[str, Any]:
    """A user of a file with a hash in place of its password; as it is, if it has none.

    A password that is refused is taken out, and the field stays: the import refuses such a user, as RabbitMQ does one
    that has a password and a hash.
    """
    if "password" not in row:
        return row
    given = row["password"]
    if not isinstance(given, str) or "password_hash" in row or len(encoded(given)) > PASSWORD_BYTES_MAX:
        return {**row, "password": None}
    if 0 < len(given) < chars_min:
        return {**row, "password": None}
    kept = {name: value for name, value in row.items() if name not in ("password", "hashing_algorithm")}
    return {**kept, "password_hash": hash_password(given) if given else NO_PASSWORD}


def stored_hash(row: Mapping[str, Any]) -> str:
    """What to store of the hash that a user of a file or a request has: RabbitMQ's, or one of ours."""
    given = row.get("password_hash", NO_PASSWORD)
    if isinstance(given, str) and given.startswith(f"{_SCRYPT}$"):
        return given
    return imported(given, row.get("hashing_algorithm", SHA256))


def check_stored(stored: str) -> None:
    """Refuse a stored string that could not be checked at login."""
    if stored != NO_PASSWORD:
        _parsed(stored)


def exported(stored: str) -> dict[str, str]:
    """What a stored string is in a file of definitions: in RabbitMQ's terms if it came from there, else as it is."""
    scheme, _, digest = stored.partition("$")
    return {"password_hash": digest, "hashing_algorithm": scheme} if scheme in _IMPORTED else {"password_hash": stored}


def scheme_of(stored: str) -> str:
    """How a password was hashed, for people; "none" where there is no password."""
    return stored.split("$", 1)[0] or "none"


def verify(stored: str, password: str | bytes) -> bool:
    """Whether this is the password. Empty and overlong ones never are, and are not hashed."""
    secret = encoded(password)
    if stored == NO_PASSWORD or not 0 < len(secret) <= PASSWORD_BYTES_MAX:
        return False
    parsed = _parsed(stored)
    return compare_digest(parsed.hashed(secret), parsed.digest)


def needs_rehash(stored: str, cost: Cost = DEFAULT_COST) -> bool:
    """Whether the password should be hashed again, now that it is at hand."""
    return stored != NO_PASSWORD and _parsed(stored).cost != cost


def encoded(password: str | bytes) -> bytes:
    """The bytes to hash. No text fails here: an encoding error would carry the password into a log."""
    return password.encode("utf-8", "surrogatepass") if isinstance(password, str) else bytes(password)


def _written(cost: Cost, salt: bytes, digest: bytes) -> str:
    """The stored string of a scrypt hash."""
    return f"{_SCRYPT}${cost.n}${cost.r}${cost.p}${b64encode(salt).decode()}${b64encode(digest).decode()}"


def _parsed(stored: str) -> _Stored:
    """A stored string, checked and taken apart."""
    if not isinstance(stored, str) or len(stored) > STORED_CHARS_MAX:
        raise InvalidArgument(f"a password hash is text of at most {STORED_CHARS_MAX} characters")
    scheme, *parts = stored.split("$")
    try:
        if scheme == _SCRYPT and len(parts) == 5:
            return _parsed_scrypt(*parts)
        if scheme in _IMPORTED and len(parts) == 1:
            return _parsed_imported(scheme, parts[0])
    except (binascii.Error, UnicodeEncodeError, ValueError) as error:
        reason = str(error) if isinstance(error, InvalidArgument) else "a number or the base64 is wrong"
        raise InvalidArgument(f"the password hash cannot be read ({reason}): set a new password") from None
    raise InvalidArgument(f"a password hash is of {_SCRYPT}, {', '.join(_IMPORTED)}: set a new password")


def _parsed_scrypt(n: str, r: str, p: str, salt_text: str, digest_text: str) -> _Stored:
    """The parts of ours."""
    cost = Cost(int(n), int(r), int(p))
    salt, digest = b64decode(salt_text, validate=True), b64decode(digest_text, validate=True)
    if len(salt) < _SALT_BYTES_MIN or len(digest) != DIGEST_BYTES:
        raise InvalidArgument(f"it has {_SALT_BYTES_MIN} bytes of salt or more and a digest of {DIGEST_BYTES}")
    return _Stored(cost, digest, lambda secret: cost.digest(salt, secret))


def _parsed_imported(scheme: str, text: str) -> _Stored:
    """The parts of RabbitMQ's."""
    function, raw = _IMPORTED[scheme], b64decode(text, validate=True)
    salt, digest = raw[:_IMPORTED_SALT_BYTES], raw[_IMPORTED_SALT_BYTES:]
    if len(digest) != function().digest_size:
        raise InvalidArgument(f"it has {_IMPORTED_SALT_BYTES} bytes of salt and a digest of {function().digest_size}")
    return _Stored(None, digest, lambda secret: function(salt + secret).digest())
