"""The keys that tokens of an issuer are signed with: a JWK set from a file or a URL, read again now and then.

An algorithm belongs to a kind of key, whatever a token says about itself: otherwise a public key could be used as the
secret of an HMAC. Secrets come from files only.
"""

import json
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from http.client import HTTPException
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import jwt

from leveret.core.errors import InvalidArgument
from leveret.security.identity import BadToken
from leveret.security.peers import is_loopback

ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "oct": "HS256"}
PUBLIC = frozenset(("RSA", "EC"))
SET_BYTES_MAX = 1 << 20
KEYS_MAX = 100
FETCH_S = 10
REFRESH_MS = 300_000
RETRY_MS = 30_000  # between two looks for a key that is not there: anybody can make up names of keys

Fetch = Callable[[str], bytes]


class Jwks:
    """The keys of an issuer by their names. Looking one up may wait for the network: not in the thread of a loop."""

    def __init__(self, source: str, fetch: Fetch | None = None) -> None:
        """`source` is a path or a URL; nothing is read yet."""
        self._is_url = "://" in source
        if self._is_url:
            _check_url(source)
        self._source = source
        self._fetch = fetch or (_fetch if self._is_url else _read)
        self._keys: dict[str, jwt.PyJWK] = {}
        self._read_ms: int | None = None
        self._asking: Thread | None = None
        self._mutex = Lock()

    def key(self, name: str | None, now_ms: int) -> jwt.PyJWK:
        """The key of that name; a token without one can only mean the one key that there is."""
        with self._mutex:
            if self._read_ms is None or now_ms - self._read_ms >= REFRESH_MS or now_ms < self._read_ms:
                self._refresh(now_ms)
            found = self._find(name)
            if found is None and self._read_ms is not None and now_ms - self._read_ms >= RETRY_MS:
                self._refresh(now_ms)
                found = self._find(name)
        if found is None:
            raise BadToken("the token is signed with a key that its issuer does not have")
        return found

    def _find(self, name: str | None) -> jwt.PyJWK | None:
        if name is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(name)

    def _refresh(self, now_ms: int) -> None:
        """Read the set; an old one is better than none."""
        self._read_ms = now_ms
        try:
            data = self._fetched() if self._is_url else self._fetch(self._source)
            self._keys = parse_set(data, PUBLIC if self._is_url else frozenset(ALGORITHMS))
        except (OSError, HTTPException, InvalidArgument) as error:
            if not self._keys:
                raise BadToken(f"no token can be checked now, the keys of the issuer are not there: {error}") from None

    def _fetched(self) -> bytes:
        """What the URL gives in FETCH_S: the timeout of a socket would begin anew with each byte that comes."""
        if self._asking is not None and self._asking.is_alive():
            raise TimeoutError("the last request is still not answered")
        answer: Future[bytes] = Future()
        self._asking = Thread(target=_ask, args=(self._fetch, self._source, answer), daemon=True)
        self._asking.start()
        try:
            return answer.result(FETCH_S)
        except TimeoutError:
            raise TimeoutError(f"{self._source} took over {FETCH_S} s") from None


def _ask(fetch: Fetch, source: str, answer: Future[bytes]) -> None:
    """Fetch in a thread, for somebody who may not wait any more."""
    try:
        answer.set_result(fetch(source))
    except Exception as error:
        answer.set_exception(error)


def parse_set(data: bytes, kinds: frozenset[str]) -> dict[str, jwt.PyJWK]:
    """The keys of a set that can be used, the first KEYS_MAX of them."""
    try:
        stored: Any = json.loads(data)
        listed = [each for each in stored["keys"] if each.get("kty") in kinds and _usable(each)]
        return {str(each.get("kid", "")): _key(each) for each in listed[:KEYS_MAX]}
    except (ValueError, TypeError, KeyError, AttributeError, jwt.PyJWTError):
        raise InvalidArgument("the key set is no JWK set: it is JSON with a list called keys") from None


def _usable(stored: dict[str, Any]) -> bool:
    """Whether the key is for signatures, and for an algorithm that is taken here."""
    algorithm = ALGORITHMS[stored["kty"]]
    curve = algorithm != "ES256" or stored.get("crv") == "P-256"
    return curve and stored.get("alg", algorithm) == algorithm and stored.get("use", "sig") == "sig"


def _key(stored: dict[str, Any]) -> jwt.PyJWK:
    return jwt.PyJWK(stored, ALGORITHMS[stored["kty"]])


def _check_url(source: str) -> None:
    """Refuse a way on which somebody could change the keys."""
    parts = urlsplit(source)
    local = parts.hostname == "localhost" or is_loopback(parts.hostname or "")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise InvalidArgument(f"the URL of a key set begins with https://, not as {source!r}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Where the keys come from is said by the configuration only."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


def _fetch(url: str) -> bytes:
    try:
        with urllib.request.build_opener(_NoRedirect).open(url, timeout=FETCH_S) as answer:
            return _bounded(answer.read(SET_BYTES_MAX + 1))
    except HTTPError as refused:
        refused.close()
        raise


def _read(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return _bounded(file.read(SET_BYTES_MAX + 1))


def _bounded(data: bytes) -> bytes:
    if len(data) > SET_BYTES_MAX:
        raise InvalidArgument(f"the key set has over {SET_BYTES_MAX} bytes: remove old keys")
    return data
