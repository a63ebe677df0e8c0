"""JSON Web Tokens of an OAuth2 issuer: whom they name, and what they allow.

Issuer, audience, subject and end have to be there. The scopes of a token are all that it allows: its user need not be
one of ours. A token that was checked is remembered until it ends: checking a signature takes 50 to 100 us.
"""

import hashlib
from dataclasses import dataclass
from threading import Lock
from typing import Any

import jwt

from leveret.core.errors import InvalidArgument
from leveret.core.names import check_name
from leveret.security.authentication import Credentials, Login
from leveret.security.identity import BadToken, Identity, parse_scopes, tags_within
from leveret.security.jwks import Jwks
from leveret.security.users import TAGS, tag_set

REMEMBERED_MAX = 10_000
REMEMBERED_MS = 60_000  # at most: so long it takes until a key that its issuer has withdrawn is not accepted any more
TOKEN_CHARS_MAX = 16_384
TOKEN_DOTS = 2  # header.claims.signature
_SIGNATURE_ONLY = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "require": ["exp", "iss", "aud", "sub"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Whose tokens are taken, and how they are read."""

    issuer: str
    audience: str
    keys: str
    """File or URL of the JWK set."""
    skew_s: int = 30
    """How far the clocks of the issuer and of this machine may differ."""
    user_claim: str = "sub"
    scope_claim: str = "scope"
    tags_claim: str = "tags"


class WebTokens:
    """The tokens of one issuer."""

    def __init__(self, issuer: Issuer, keys: Jwks | None = None) -> None:
        """Nothing is remembered, and no key was read."""
        if not issuer.issuer or not issuer.audience:
            raise InvalidArgument("tokens are taken for an issuer and an audience: give both")
        self._issuer = issuer
        self._keys = keys or Jwks(issuer.keys)
        self._remembered: dict[bytes, tuple[Identity, int]] = {}
        self._mutex = Lock()

    def recall(self, token: str, now_ms: int) -> Identity | None:
        """Whom a token names if it was checked lately; None says nothing."""
        with self._mutex:
            known = self._remembered.get(_digest(token))
        return known[0] if known is not None and now_ms < known[1] else None

    def verify(self, token: str, now_ms: int) -> Identity:
        """Whom a token names; BadToken for one that proves nothing. May wait for the keys of the issuer."""
        claims = self._claims(token, now_ms)
        expires_ms = self._check_times(claims, now_ms)
        user = claims.get(self._issuer.user_claim)
        try:
            if not isinstance(user, str) or not user:
                raise InvalidArgument(f"the token has no {self._issuer.user_claim}")
            check_name("user", user)
            scopes = parse_scopes(claims.get(self._issuer.scope_claim, ""))
            tags = tag_set(claims.get(self._issuer.tags_claim, ())) & TAGS
        except InvalidArgument as error:
            raise BadToken(f"the token cannot be used: {error}") from None
        identity = Identity(user, tags_within(tags, scopes), scopes, local=False)
        self._remember(token, identity, min(expires_ms, now_ms + REMEMBERED_MS))
        return identity

    def _claims(self, token: str, now_ms: int) -> dict[str, Any]:
        """What a token says, if its issuer has signed it for us."""
        if len(token) > TOKEN_CHARS_MAX:
            raise BadToken(f"the token has over {TOKEN_CHARS_MAX} characters")
        try:
            name = jwt.get_unverified_header(token).get("kid")
            key = self._keys.key(name, now_ms)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=self._issuer.audience,
                issuer=self._issuer.issuer,
                options=_SIGNATURE_ONLY,  # type: ignore[arg-type]
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise BadToken(f"the token proves nothing: {error}") from None
        return claims

    def _check_times(self, claims: dict[str, Any], now_ms: int) -> int:
        """Refuse a token whose time is over or has not come; gives the end, with what clocks may differ."""
        skew_ms = self._issuer.skew_s * 1000
        times = [claims["exp"], claims.get("nbf", 0)]
        if any(isinstance(each, bool) or not isinstance(each, int | float) for each in times):
            raise BadToken("the token has times that are no numbers")
        expires_ms = int(min(times[0], 2**40) * 1000) + skew_ms
        if now_ms >= expires_ms:
            raise BadToken("the token has ended: get another one")
        if now_ms < times[1] * 1000 - skew_ms:
            raise BadToken("the token is not good yet")
        return expires_ms

    def _remember(self, token: str, identity: Identity, until_ms: int) -> None:
        with self._mutex:
            self._remembered[_digest(token)] = (identity, until_ms)
            if len(self._remembered) > REMEMBERED_MAX:
                del self._remembered[next(iter(self._remembered))]


class OAuth2:
    """The authentication backend "oauth2": a web token as a bearer token, or in the place of a password."""

    def __init__(self, tokens: WebTokens) -> None:
        """Take the tokens of one issuer."""
        self._tokens = tokens

    def recall(self, given: Credentials, peer: str, now_ms: int) -> Identity | None:
        """The identity of a token that was verified lately."""
        token = _token(given)
        return None if token is None else self._tokens.recall(token, now_ms)

    def authenticate(self, given: Credentials, peer: str, now_ms: int) -> Login:
        """Verify a token; may wait for the keys of the issuer."""
        token = _token(given)
        if token is None:
            return Login(None, "the password is no web token")
        try:
            return Login(self._tokens.verify(token, now_ms))
        except BadToken as error:
            return Login(None, str(error))


def _token(given: Credentials) -> str | None:
    """The token, if the credentials have the form of one: cheap, because every password is looked at."""
    if given.password.count(b".") != TOKEN_DOTS or not given.password.isascii():
        return None
    return given.password.decode()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
