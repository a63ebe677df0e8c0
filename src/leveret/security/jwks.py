"""The keys that tokens of an issuer are signed with: a JWK set from a file or a URL, read again now and then.

The algorithms belong to the key, whatever a token says about itself: otherwise a public key could be used as the secret
of an HMAC. Secrets come from files only. A token that names an unknown key makes the set be read again, but not more
often than every RETRY_MS: a stranger can make up names of keys. Tokens whose key is known never wait for that.
"""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import jwt

from leveret.core.errors import InvalidArgument
from leveret.security.fetch import ANSWER_BYTES_MAX, FAILURES, FETCH_S, Fetch, Fetcher, bounded, check_url
from leveret.security.identity import BadToken

RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("oct", None): ("HS256", "HS384", "HS512"),
}
"""The algorithms that a key of a kind (and of a curve) is good for."""
PUBLIC = frozenset(("RSA", "EC", "OKP"))
SECRET = PUBLIC | {"oct"}
RSA_BITS_MIN = 2_048
KEYS_MAX = 100
REFRESH_MS = 300_000
RETRY_MS = 30_000
WAIT_S = 2  # for the keys that another login is reading: threads for logins are few, and names of keys can be made up


class VerificationKey(NamedTuple):
    """A key, and the algorithms that it is good for."""

    key: Any
    algorithms: tuple[str, ...]


class Jwks:
    """The keys of an issuer by their names. Looking one up may wait for the network: not in the thread of a loop."""

    def __init__(self, source: str | Callable[[], str], fetch: Fetch | None = None) -> None:
        """`source` is a path, a URL, or gives the URL when it is needed; nothing is read yet."""
        self._is_url = callable(source) or "://" in source
        if isinstance(source, str) and self._is_url:
            check_url("the place of a key set", source)
        self._source = source
        self._fetch = fetch or (Fetcher().get if self._is_url else _read)
        self._keys: dict[str, VerificationKey] = {}
        self._read_ms: int | None = None
        self._reason = ""
        self._refreshing = Lock()

    def key(self, name: str | None, now_ms: int) -> VerificationKey:
        """The key of that name; a token without one can only mean the one key that there is."""
        found = self._find(name)
        wait_s = 0 if found is not None else WAIT_S if self._keys else FETCH_S
        if self._is_due(found, now_ms) and self._refreshing.acquire(timeout=wait_s):
            try:
                if self._is_due(self._find(name), now_ms):
                    self._refresh(now_ms)
            finally:
                self._refreshing.release()
            found = self._find(name)
        if found is None and not self._keys:
            raise BadToken(f"no token can be checked now, the keys of the issuer are not there: {self._reason}")
        if found is None:
            raise BadToken("the token is signed with a key that its issuer does not have")
        return found

    def _is_due(self, found: VerificationKey | None, now_ms: int) -> bool:
        """Whether the set is to be read: it is old, or a key is looked for that is not in it."""
        if self._read_ms is None or now_ms < self._read_ms - RETRY_MS:  # the clock was set back
            return True
        return now_ms - self._read_ms >= (RETRY_MS if found is None else REFRESH_MS)

    def _find(self, name: str | None) -> VerificationKey | None:
        keys = self._keys
        if name is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(name)

    def _refresh(self, now_ms: int) -> None:
        """Read the set; an old one is better than none. Until then all who look for a key that is not in it wait."""
        try:
            source = self._source() if callable(self._source) else self._source
            self._keys = parse_set(self._fetch(source), PUBLIC if self._is_url else SECRET)
        except FAILURES as error:
            self._reason = str(error)
        finally:
            self._read_ms = now_ms


def parse_set(data: bytes, kinds: frozenset[str]) -> dict[str, VerificationKey]:
    """The keys of a set that can be used, the first KEYS_MAX of them."""
    try:
        stored: Any = json.loads(data)
        listed = [each for each in stored["keys"] if each.get("kty") in kinds and _algorithms(each)]
        keys = {
            str(each.get("kid", "")): VerificationKey(_loaded(each), _algorithms(each)) for each in listed[:KEYS_MAX]
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, jwt.PyJWTError):
        raise InvalidArgument("the key set is no JWK set: it is JSON with a list called keys") from None
    return {name: key for name, key in keys.items() if getattr(key.key, "key_size", RSA_BITS_MIN) >= _bits_min(key)}


def _algorithms(stored: dict[str, Any]) -> tuple[str, ...]:
    """The algorithms that a key is good for; none if it is not for signatures."""
    kind = stored["kty"]
    known = ALGORITHMS.get((kind, stored.get("crv") if kind in ("EC", "OKP") else None), ())
    if stored.get("use", "sig") != "sig":
        return ()
    return known if stored.get("alg") is None else tuple(each for each in known if each == stored["alg"])


def _bits_min(key: VerificationKey) -> int:
    """The least size of a key: RSA keys under 2048 bits can be broken, as RFC 7518 says."""
    return RSA_BITS_MIN if key.algorithms[0] in RSA else 0


def _loaded(stored: dict[str, Any]) -> Any:
    """The key as the library wants it."""
    return jwt.PyJWK(stored, _algorithms(stored)[0]).key


def _read(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return bounded(file.read(ANSWER_BYTES_MAX + 1))
