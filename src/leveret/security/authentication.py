"""Authentication: a chain of backends turns a name and a password, or a bearer token, into an Identity.

AMQP (PLAIN, AMQPLAIN), HTTP (Basic, Bearer) and the login form of the console ask one chain, which asks its backends in
the order of the option `auth_backends` until one accepts. If all refuse, it counts one failure and gives the delay
after which the client is told; the client never learns which backend refused, or why.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from leveret.security.access import Access
from leveret.security.identity import Identity, tags_within
from leveret.security.keys import PREFIX
from leveret.security.logins import Failures
from leveret.security.passwords import hash_password
from leveret.security.peers import origin
from leveret.security.users import FROM_HERE_ONLY, User

BACKENDS = ("internal", "oauth2", "ldap")
SECRET_IN_CLEAR = (
    "a password or token without TLS from another machine is not taken: connect by TLS, or set plain_auth_remote where "
    "no other party is on that network"
)
"""Why a login is refused that others could have read along."""
TOKEN_BYTES_MAX = 16_384  # of a token in the place of a password: with many roles in it one has some KiB


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client sent to prove who it is; a bearer token has no name. The secret is not in logs and tracebacks."""

    name: str | None
    password: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class AuthenticatedLogin:
    """The result of a login. `reason` is for the log; the client learns no more than that it was refused."""

    identity: Identity | None
    reason: str = ""
    delay_ms: int = 0
    """Time before the client is told of the refusal."""
    stronger: tuple[User, str] | None = field(default=None, repr=False)
    """A stored user whose hash is weaker than it should be, and the hash to store instead."""


class AuthenticationBackend(Protocol):
    """One source of identities. Both methods refuse what is not theirs: another backend may know it."""

    def recall(self, given: Credentials, peer: str, now_ms: int) -> Identity | None:
        """The identity, if these credentials were verified lately or cost nothing to verify; called in the event loop.

        None says nothing.
        """

    def authenticate(self, given: Credentials, peer: str, now_ms: int) -> AuthenticatedLogin:
        """Verify the credentials; called in a worker thread, may wait. Counts no failure: the chain does."""


class Internal:
    """The backend "internal": stored users with passwords, and their API keys as bearer tokens."""

    def __init__(self, access: Access) -> None:
        """Read users and keys from `access`."""
        self._access = access

    def recall(self, given: Credentials, peer: str, now_ms: int) -> Identity | None:
        """The owner of an API key, or the user whose password was right a minute ago at most."""
        if given.name is None:
            return self._by_key(given.password, now_ms)
        user = self._access.users.recall(given.name, given.password, peer, now_ms)
        return None if user is None else identity_of(user)

    def authenticate(self, given: Credentials, peer: str, now_ms: int) -> AuthenticatedLogin:
        """Check a password by its stored hash, which takes a fifth of a second."""
        if given.name is None:
            identity = self._by_key(given.password, now_ms)
            return AuthenticatedLogin(identity, "" if identity else "the API key is unknown, wrong or has expired")
        login = self._access.users.check(given.name, given.password, peer, now_ms)
        if login.user is None:
            return AuthenticatedLogin(None, login.reason)
        stronger = (login.user, hash_password(given.password)) if login.rehash else None
        return AuthenticatedLogin(identity_of(login.user), stronger=stronger)

    def _by_key(self, token: bytes, now_ms: int) -> Identity | None:
        if not token.startswith(PREFIX.encode()):
            return None
        key = self._access.api_keys.find(token.decode("ascii", "replace"), now_ms)
        if key is None or key.user not in self._access.users:
            return None
        tags = self._access.users.get(key.user).tags
        return Identity(key.user, tags_within(tags, key.scopes), key.scopes)


class Authentication:
    """The chain of backends of a server."""

    def __init__(
        self,
        access: Access,
        backends: Sequence[AuthenticationBackend] | None = None,
        token_failures: Failures | None = None,
    ) -> None:
        """Ask these backends in their order; by default "internal" alone."""
        self._users = access.users
        self._backends = (Internal(access),) if backends is None else tuple(backends)
        self._token_failures = Failures() if token_failures is None else token_failures

    def recall(self, given: Credentials, peer: str, now_ms: int) -> Identity | None:
        """The identity, if it is known without waiting; None says nothing. For the event loop."""
        for backend in self._backends:
            identity = backend.recall(given, peer, now_ms)
            if identity is not None:
                return identity
        return None

    def authenticate(self, given: Credentials, peer: str, now_ms: int) -> AuthenticatedLogin:
        """Decide a login; for a worker thread."""
        reasons = []
        for backend in self._backends:
            login = backend.authenticate(given, peer, now_ms)
            if login.identity is not None:
                if given.name == login.identity.user and login.identity.scopes is None:  # proved by a password
                    self._users.succeeded(given.name)
                return login
            reasons.append(login.reason)
        return self.refuse(given, "; ".join(reasons), peer, now_ms)

    def refuse(self, given: Credentials, reason: str, peer: str, now_ms: int) -> AuthenticatedLogin:
        """Count a failed login; gives the refusal."""
        return AuthenticatedLogin(None, reason, self._count_failure(given, peer, now_ms))

    def certified(self, name: str, peer: str) -> AuthenticatedLogin:
        """The stored user that a verified client certificate names, unless it may not come from that address."""
        if name not in self._users:
            return AuthenticatedLogin(None, f"the certificate names user '{name}', which does not exist: add it first")
        if not self._users.may_come_from(name, peer):
            return AuthenticatedLogin(None, FROM_HERE_ONLY.format(name))
        return AuthenticatedLogin(identity_of(self._users.get(name)))

    def _count_failure(self, given: Credentials, peer: str, now_ms: int) -> int:
        """Count a failed login; gives the delay of its refusal."""
        if given.name is None:
            return self._token_failures.count(origin(peer), now_ms)
        return self._users.failed(given.name, peer, now_ms)


def identity_of(user: User) -> Identity:
    """The identity of a stored user who proved it."""
    return Identity(user.name, user.tags)
