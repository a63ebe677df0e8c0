"""The chain of authentication backends: their order, recall, one counted failure for each login, certificates."""

from collections.abc import Iterator
from typing import Any

import pytest

import leveret
from leveret.config import ServerOptions
from leveret.security.access import Access
from leveret.security.authentication import AuthenticatedLogin, Authentication, Credentials, Internal
from leveret.security.identity import Identity
from leveret.security.logins import FREE_MAX
from leveret.security.passwords import Cost, hash_password
from leveret.server.authentication import authentication_of, backend_names

CHEAP = Cost(n=2, r=1, p=1)
PEER = "192.0.2.1"
NOW_MS = 1_700_000_000_000
RIGHT = Credentials("alice", b"right")
WRONG = Credentials("alice", b"wrong")


class Fixed:
    """A backend that accepts one password, and notes what it was asked."""

    def __init__(self, password: bytes, identity: Identity) -> None:
        self._password = password
        self._identity = identity
        self.asked = 0

    def recall(self, given: Credentials, peer: str, now_ms: int) -> Identity | None:
        return self._identity if self.asked and given.password == self._password else None

    def authenticate(self, given: Credentials, peer: str, now_ms: int) -> AuthenticatedLogin:
        self.asked += 1
        return AuthenticatedLogin(self._identity if given.password == self._password else None, "not the fixed one")


@pytest.fixture
def access() -> Iterator[Access]:
    with leveret.open() as broker:
        with broker.runtime as core:
            made = Access(core, cost=CHEAP)
            made.add_user("alice", hash_password("right", CHEAP), ["monitoring"])
        yield made


def test_a_stored_user_is_known_by_a_password_and_recalled(access: Access) -> None:
    chain = Authentication(access)
    assert chain.recall(RIGHT, PEER, NOW_MS) is None
    login = chain.authenticate(RIGHT, PEER, NOW_MS)
    assert login.identity == Identity("alice", frozenset({"monitoring"}))
    assert chain.recall(RIGHT, PEER, NOW_MS) == login.identity
    assert chain.recall(WRONG, PEER, NOW_MS) is None


def test_backends_are_asked_in_their_order_until_one_accepts(access: Access) -> None:
    first, last = Fixed(b"one", Identity("a", local=False)), Fixed(b"two", Identity("b", local=False))
    chain = Authentication(access, [first, Internal(access), last])
    for password, user, asked in ((b"one", "a", 0), (b"right", "alice", 0), (b"two", "b", 1)):
        login = chain.authenticate(Credentials("alice", password), PEER, NOW_MS)
        assert login.identity is not None
        assert (login.identity.user, last.asked) == (user, asked)
        assert chain.recall(Credentials("alice", password), PEER, NOW_MS) == login.identity


def test_a_login_that_all_refuse_is_counted_once(access: Access) -> None:
    chain = Authentication(access, [Internal(access), Fixed(b"two", Identity("b")), Fixed(b"x", Identity("c"))])
    delays_ms = [chain.authenticate(WRONG, PEER, NOW_MS).delay_ms for _ in range(6)]
    assert delays_ms == [0, 0, 0, 1_000, 2_000, 3_000]
    assert "wrong name or password" in chain.authenticate(WRONG, PEER, NOW_MS).reason


def test_a_token_does_not_make_failures_of_the_given_name_forgotten(access: Access) -> None:
    token = Fixed(b"token", Identity("alice", scopes=(), local=False))
    chain = Authentication(access, [token, Internal(access)])
    for _ in range(FREE_MAX + 1):
        chain.authenticate(WRONG, PEER, NOW_MS)
    assert chain.authenticate(Credentials("alice", b"token"), PEER, NOW_MS).identity is not None
    assert chain.authenticate(WRONG, "198.51.100.1", NOW_MS).delay_ms == 2_000
    assert chain.authenticate(RIGHT, PEER, NOW_MS).identity is not None
    assert chain.authenticate(WRONG, "198.51.100.2", NOW_MS).delay_ms == 0


def test_api_keys_are_bearer_tokens_and_no_passwords(access: Access) -> None:
    chain = Authentication(access)
    _, token = access.api_keys.add("alice", ["write:a", "manage"], NOW_MS)
    identity = Identity("alice", frozenset({"monitoring"}), ("write:a", "manage"))
    assert chain.recall(Credentials(None, token.encode()), PEER, NOW_MS) == identity
    assert chain.authenticate(Credentials(None, token.encode()), PEER, NOW_MS).identity == identity
    assert chain.authenticate(Credentials("alice", token.encode()), PEER, NOW_MS).identity is None
    for wrong in (token[:-1], "lvk_x", "\xff", "right"):
        assert chain.authenticate(Credentials(None, wrong.encode()), PEER, NOW_MS).identity is None


def test_a_certificate_names_a_stored_user(access: Access) -> None:
    chain = Authentication(access)
    assert chain.certified("alice", PEER).identity == Identity("alice", frozenset({"monitoring"}))
    assert chain.certified("nobody", PEER).identity is None
    assert chain.certified("", PEER).identity is None
    assert chain.certified("guest", "192.0.2.1").identity is None
    assert chain.certified("guest", "127.0.0.1").identity is not None


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(Credentials("alice", b"hush"))


def test_the_option_names_the_backends() -> None:
    jwt: dict[str, Any] = {"oauth_issuer": "https://id.example"}
    assert backend_names(ServerOptions()) == ("internal",)
    assert backend_names(ServerOptions(**jwt)) == ("oauth2", "internal")
    assert backend_names(ServerOptions(**jwt, auth_backends="internal, oauth2")) == ("internal", "oauth2")
    assert backend_names(ServerOptions(**jwt, auth_backends="internal")) == ("internal",)


@pytest.mark.parametrize("given", ["", "internal,internal", "kerberos", "oauth2", "internal,"])
def test_backends_that_cannot_be_asked_are_refused(given: str, access: Access) -> None:
    with pytest.raises(leveret.InvalidArgument, match="auth_backends"):
        authentication_of(ServerOptions(auth_backends=given), access)
