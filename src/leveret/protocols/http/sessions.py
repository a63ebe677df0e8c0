"""Logins of browsers: a cookie that no script can read, and a token that every change must carry beside it.

    user . began_ms . used_ms . id . signature [. signature]        the first one in base64
    ~identity . began_ms . ...                                      of a user that is not stored, as compressed JSON

A node that has the key can verify a cookie: all nodes of a cluster have the same key. While nodes get another
secret they have two keys: cookies and tokens are then signed by both, and one signature by one of the keys is enough.
So a login is valid on nodes with the old secret, with both and with the new one.

A single server keeps its key in a file, with the sessions that were logged out: logins outlast a restart.

    the key, in hexadecimal
    user (base64) id ended_ms        a line for each session that was logged out less than 12 hours ago

A session ends when it was not used for a while, when it is old, when it is logged out, when the password changes, and
when the token expires that it was begun with.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, replace
from hmac import compare_digest
from itertools import product

from leveret.clock import Clock
from leveret.observability.logs import Log
from leveret.protocols.http.request import Refusal, Request
from leveret.security.identity import Identity
from leveret.security.users import Users

COOKIE = "leveret_session"
TOKEN_HEADER = b"x-csrf-token"
"""Pages of this server send it with every request, whether they have a token or not: others cannot."""
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))

KEY_BYTES = 32
SIGNATURES_MAX = 2
ID_BYTES = 18
EXTERNAL = "~"  # what cookies begin with that say all about a user that is not stored
CERTIFIED = "cert~"  # what ids of sessions begin with that a certificate has begun
IDLE_MS_MAX = 60 * 60_000
AGE_MS_MAX = 12 * 60 * 60_000
USED_MAX = 10_000  # sessions of which is known when they were used last; of others their cookie says it
ENDED_PER_USER_MAX = 1_000  # sessions that were logged out before their time
VALUE_CHARS_MAX = 3_800  # of a cookie: browsers keep none over 4096, with its name and attributes
HEADER_CHARS_MAX = 16_384  # of all cookies of a request: those of other ports may come first
ENDED_USERS_MAX = 10_000  # users of whom such sessions are known
FILE_LINES_MAX = 10_000  # of those in the file; the newest
TIME_CHARS_MAX = 15
PORT_CHARS_MAX = 5

LOG = Log("http")


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A user who has logged in."""

    identity: Identity
    token: str
    id: str
    began_ms: int
    used_ms: int

    @property
    def user(self) -> str:
        return self.identity.user

    def ended(self, now_ms: int) -> bool:
        is_old = now_ms - self.used_ms >= IDLE_MS_MAX or now_ms - self.began_ms >= AGE_MS_MAX
        return is_old or self.identity.has_expired(now_ms)


class SessionFile:
    """The key of a single server, and the sessions that were logged out."""

    def __init__(self, path: str, now_ms: int) -> None:
        """Read the file, or begin it; a damaged one is begun anew, which logs all users out."""
        self._path = path
        self.key = secrets.token_bytes(KEY_BYTES)
        self.ended: list[tuple[str, str, int]] = []
        try:
            with open(path) as file:
                key, *lines = file.read().splitlines()
            ended = [row for row in map(_ended_line, lines) if now_ms - row[2] < AGE_MS_MAX]
            self.key, self.ended = _key_line(key), ended
        except FileNotFoundError:
            pass  # the first start
        except ValueError:
            LOG.warning("console sessions damaged", file=path)
        self._rewrite()

    def append(self, user: str, number: str, now_ms: int) -> None:
        """A session was logged out; that is safe on return."""
        self.ended.append((user, number, now_ms))
        if len(self.ended) > 2 * FILE_LINES_MAX:
            self._rewrite()
            return
        with open(self._path, "a") as file:
            file.write(_line_of(self.ended[-1]))
            file.flush()
            os.fsync(file.fileno())

    def _rewrite(self) -> None:
        self.ended = self.ended[-FILE_LINES_MAX:]
        fresh = f"{self._path}.new"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"{self.key.hex()}\n{''.join(map(_line_of, self.ended))}")
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self._path)


def _key_line(line: str) -> bytes:
    key = bytes.fromhex(line)
    if len(key) != KEY_BYTES:
        raise ValueError("the key is cut off")
    return key


def _line_of(row: tuple[str, str, int]) -> str:
    user, number, ended_ms = row
    return f"{urlsafe_b64encode(user.encode()).decode()} {number} {ended_ms}\n"


def _ended_line(line: str) -> tuple[str, str, int]:
    user, number, ended_ms = line.split(" ")
    return urlsafe_b64decode(user.encode()).decode(), number, int(ended_ms)


class Sessions:
    """All users who have logged in: cookies are proof of it, and nothing is kept but what they cannot say."""

    def __init__(
        self, users: Users, clock: Clock, keys: tuple[bytes, ...] = (), file: SessionFile | None = None
    ) -> None:
        """Take cookies that are signed by one of the keys; without any, by that of the file or of this process."""
        self._users = users
        self._clock = clock
        self._file = file
        self._keys = keys[:SIGNATURES_MAX] or (secrets.token_bytes(KEY_BYTES) if file is None else file.key,)
        self._used: dict[str, int] = {}
        self._ended: dict[str, dict[str, None]] = {}
        for user, number, _ in [] if file is None else file.ended:
            self.forget(user, number)

    def begin(self, identity: Identity, *, certified: bool = False) -> tuple[str, BrowserSession]:
        """A new session, and the value of its cookie; `certified`: it needs the client certificate that began it."""
        now_ms, number = self._clock.now_ms(), CERTIFIED * certified + secrets.token_urlsafe(ID_BYTES)
        session = BrowserSession(identity, self._token(number), number, now_ms, now_ms)
        value = self.cookie_of(session)
        if len(value) > VALUE_CHARS_MAX:
            raise Refusal(403, "the user has too many scopes or permissions for a session: give fewer, with patterns")
        return value, session

    def cookie_of(self, session: BrowserSession) -> str:
        """The value of the cookie of a session; it says when that was used last."""
        told = f"{_encoded(session.identity)}.{session.began_ms}.{session.used_ms}.{session.id}"
        return f"{told}.{self._signature(told, session.user)}"

    def sign(self, purpose: str, data: bytes) -> str:
        """A value for another cookie that only this server, or a node of the same cluster, can have made."""
        encoded = urlsafe_b64encode(data).decode()
        return f"{encoded}.{self._sign(purpose.encode(), encoded.encode())}"

    def signed(self, purpose: str, value: str) -> bytes | None:
        """The reverse of sign; None if it was not made for this purpose."""
        encoded, _, signature = value.partition(".")
        if not _agree(signature, self._sign(purpose.encode(), encoded.encode())):
            return None
        return urlsafe_b64decode(encoded.encode())

    def find(self, request: Request) -> BrowserSession | None:
        """The session that a request belongs to, if it goes on."""
        session, now_ms = self._read(cookie(request)), self._clock.now_ms()
        if session is None or session.id in self._ended.get(session.user, ()):
            return None
        if session.id.startswith(CERTIFIED) and request.peer.certificate_name != session.user:
            return None  # else a session would outlive the certificate, which may be revoked by now
        used_ms = max(session.used_ms, self._used.pop(session.id, 0))
        if replace(session, used_ms=used_ms).ended(now_ms):
            return None
        self._used[session.id] = now_ms
        if len(self._used) > USED_MAX:
            del self._used[next(iter(self._used))]
        request.peer.authenticated()
        return replace(session, used_ms=now_ms)

    def end(self, session: BrowserSession) -> None:
        """Take its cookies no more, not even after a restart."""
        self.forget(session.user, session.id)
        if self._file is not None:
            self._file.append(session.user, session.id, self._clock.now_ms())

    def forget(self, user: str, number: str) -> None:
        """A session was logged out, here or elsewhere."""
        ended = self._ended.setdefault(user, {})
        ended[number] = None
        if len(ended) > ENDED_PER_USER_MAX:
            del ended[next(iter(ended))]
        if len(self._ended) > ENDED_USERS_MAX:
            del self._ended[next(iter(self._ended))]

    def identify(self, request: Request) -> Identity | None:
        """Who asks by a session; a change must carry its token, since the browser adds the cookie to every request."""
        session = self.find(request)
        if session is None:
            return None
        given = request.header(TOKEN_HEADER)
        if request.method not in SAFE and not _agree(given, session.token):
            raise Refusal(403, "the request does not carry the token of the session: load the page again")
        return session.identity

    def _read(self, value: str) -> BrowserSession | None:
        """The session of a cookie that we have signed, for a user whose password is still the same."""
        try:
            encoded, began_ms, used_ms, number, signature = value.split(".", 4)
            if max(len(began_ms), len(used_ms)) > TIME_CHARS_MAX:
                return None
            identity = self._identity(encoded, value[: -len(signature) - 1], signature)
            if identity is None:
                return None
            return BrowserSession(identity, self._token(number), number, int(began_ms), int(used_ms))
        except (ValueError, TypeError, zlib.error):  # not one of ours, or of another version
            return None

    def _identity(self, encoded: str, told: str, signature: str) -> Identity | None:
        """The identity of a cookie, once its signature was checked: until then it is anybody's."""
        if encoded.startswith(EXTERNAL):
            if not _agree(signature, self._signature(told, None)):
                return None
            return Identity.from_list(json.loads(zlib.decompress(urlsafe_b64decode(encoded[len(EXTERNAL) :].encode()))))
        name = urlsafe_b64decode(encoded.encode()).decode()
        if name not in self._users or not _agree(signature, self._signature(told, name)):
            return None
        return Identity(name, self._users.get(name).tags)

    def _token(self, number: str) -> str:
        return self._sign(b"token", number.encode())

    def _signature(self, told: str, user: str | None) -> str:
        if user is None or told.startswith(EXTERNAL):
            return self._sign(b"external", told.encode())
        return self._sign(b"cookie", told.encode(), self._users.get(user).password_hash.encode())

    def _sign(self, *parts: bytes) -> str:
        """Signatures by all keys, which only those can make who have them."""
        digests = [hmac.digest(key, b"\0".join(parts), hashlib.sha256) for key in self._keys]
        return ".".join(urlsafe_b64encode(digest).decode().rstrip("=") for digest in digests)


def _agree(given: str, right: str) -> bool:
    """Whether one of the given signatures is one of the right ones."""
    pairs = product(given.split(".", SIGNATURES_MAX)[:SIGNATURES_MAX], right.split("."))
    return any(compare_digest(one.encode(), other.encode()) for one, other in pairs)


def _encoded(identity: Identity) -> str:
    """What a cookie says of a user: the name of a stored one, all of another."""
    if identity.local:
        return urlsafe_b64encode(identity.user.encode()).decode()
    stored = zlib.compress(json.dumps(identity.to_list()).encode(), 9)
    return EXTERNAL + urlsafe_b64encode(stored).decode()


def cookie_name(request: Request, name: str = COOKIE) -> str:
    """What a server calls its cookie: browsers send those of one port to all others of the host as well."""
    port = request.header(b"host").rpartition(":")[2]
    return f"{name}_{port}" if port.isascii() and port.isdigit() and len(port) <= PORT_CHARS_MAX else name


def cookie(request: Request, name: str = COOKIE) -> str:
    """What the browser was told to keep, "" if nothing."""
    wanted = cookie_name(request, name)
    for part in request.header(b"cookie")[:HEADER_CHARS_MAX].split(";"):
        name, _, value = part.strip().partition("=")
        if name == wanted:
            return value
    return ""


def cookie_line(key: str, request: Request) -> tuple[str, str]:
    """The header that makes a browser keep a session; "" makes it forget."""
    age_s = AGE_MS_MAX // 1000 if key else 0
    secure = "; Secure" if request.is_encrypted else ""
    return "Set-Cookie", f"{cookie_name(request)}={key}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}"
