"""JSON Web Tokens of an OAuth2 issuer: verified, and their claims turned into an Identity.

Issuer, audience and end have to be there. The scopes of a token are all that it allows: its user need not be stored. A
token that was verified is remembered until it ends: checking a signature takes 50 to 100 us.

Scopes come from the claim `scope` and from those that `oauth_additional_scopes_key` names, as they are or by an alias.
What begins with the prefix (`leveret.`) is in RabbitMQ's syntax, `read:vhost/name[/key]` or `tag:administrator`; what
does not, in Leveret's own. Others, such as openid, mean something to other servers and are ignored.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import quote

import jwt

from leveret.core.errors import InvalidArgument
from leveret.core.names import check_name
from leveret.security.authentication import TOKEN_BYTES_MAX, AuthenticatedLogin, Credentials
from leveret.security.identity import BadToken, Identity, tags_within
from leveret.security.jwks import Jwks
from leveret.security.scopes import SCOPE_CHARS_MAX, SCOPES_BYTES_MAX, is_plain, limited, qualified, words
from leveret.security.users import TAGS, tag_set

SCOPE_CLAIM = "scope"
TAGS_CLAIM = "tags"
TAG = "tag:"
USERNAME_CLAIMS = ("sub", "client_id")  # asked after those of the option, as RabbitMQ does
WORDS_MAX = 10_000  # of a token, before those for other servers are left out
PATH_DEPTH_MAX = 10
_VARIABLE = re.compile(r"\{(\w+)\}")
REMEMBERED_MAX = 10_000
REMEMBERED_MS = 60_000  # at most: so long it takes until a key that its issuer has withdrawn is not accepted any more
TOKEN_DOTS = 2  # header.claims.signature
TYPES = frozenset(("jwt", "at+jwt", "application/at+jwt"))
"""The header `typ` of access tokens, if there is one: others are for logouts, requests, proofs."""
TOKEN_TYPES = frozenset(("bearer", "jwt", "at+jwt"))
"""The claim `typ` of Keycloak: its ID and refresh tokens are signed by the same key."""
NUMBER_MAX = 2**40  # seconds; more is no time
_SIGNATURE_ONLY = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "require": ["exp", "iss", "aud"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """Which claims are read, and how."""

    resource_server_id: str = "leveret"
    """The audience that a token must name, and the prefix of its scopes."""
    scope_prefix: str | None = None
    """Another prefix; default: the resource server with a dot."""
    scope_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    additional_scopes_keys: tuple[str, ...] = ()
    """Claims that have scopes as well; a dot leads into an object, as in realm_access.roles."""
    username_claims: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """What scopes for this server begin with."""
        return f"{self.resource_server_id}." if self.scope_prefix is None else self.scope_prefix

    def identity(self, claims: Mapping[str, Any], expires_ms: int) -> Identity:
        """The identity that verified claims describe; BadToken if they describe none."""
        try:
            user = self.user(claims)
            scopes, tags = self._granted(claims)
            tags |= tags_within(tag_set(claims.get(TAGS_CLAIM, ())), scopes)
        except InvalidArgument as error:
            raise BadToken(f"the token cannot be used: {error}") from None
        return Identity(user, tags & TAGS, scopes, local=False, expires_ms=expires_ms)

    def user(self, claims: Mapping[str, Any]) -> str:
        """The name of the user."""
        for name in (*self.username_claims, *USERNAME_CLAIMS):
            user = claims.get(name)
            if isinstance(user, str) and user:
                check_name("user", user)
                return user
        raise InvalidArgument(f"it has none of the claims {', '.join((*self.username_claims, *USERNAME_CLAIMS))}")

    def _granted(self, claims: Mapping[str, Any]) -> tuple[tuple[str, ...], frozenset[str]]:
        """The scopes that mean something here, each once, and the tags."""
        scopes: dict[str, None] = {}
        tags = set()
        for word in self._words(claims):
            if len(word) > SCOPE_CHARS_MAX:
                continue
            if word.startswith(self.prefix):
                meaning = word.removeprefix(self.prefix)
                if meaning.startswith(TAG):
                    tags.add(meaning.removeprefix(TAG))
                elif (scope := qualified(_expanded(meaning, claims))) is not None:
                    scopes[scope] = None
            elif is_plain(word):
                scopes[word] = None
        if sum(len(each.encode()) for each in scopes) > SCOPES_BYTES_MAX:
            raise InvalidArgument(f"its scopes for this server have over {SCOPES_BYTES_MAX} bytes: use patterns")
        return limited(tuple(scopes)), frozenset(tags)

    def _words(self, claims: Mapping[str, Any]) -> Iterator[str]:
        """All scopes of a token, with those that stand behind an alias."""
        found = list(self._values(claims.get(SCOPE_CLAIM, ())))
        for path in self.additional_scopes_keys:
            for value in _at(claims, path.split(".")[:PATH_DEPTH_MAX]):
                found += self._values(value)
        if len(found) > WORDS_MAX:
            raise InvalidArgument(f"a token has at most {WORDS_MAX} scopes and roles, not {len(found)}")
        for word in found:
            yield word
            yield from self.scope_aliases.get(word, ())

    def _values(self, value: object) -> tuple[str, ...]:
        """The words of a claim; an object has them under the name of this server, without the prefix."""
        if isinstance(value, Mapping):
            return tuple(f"{self.prefix}{word}" for word in words(value.get(self.resource_server_id, ())) or ())
        return words(value) or ()


def _at(claims: object, path: list[str]) -> list[object]:
    """What is at a path; lists on the way are gone through."""
    found = [claims]
    for name in path:
        flat = [each for value in found for each in (value if isinstance(value, list) else [value])]
        found = [each[name] for each in flat if isinstance(each, Mapping) and name in each]
    return found


def _expanded(scope: str, claims: Mapping[str, Any]) -> str:
    """The scope with the value of a claim in place of {claim}; encoded, so that a value is no pattern.

    {vhost} is left: it is known when the scope is asked for.
    """

    def value(match: re.Match[str]) -> str:
        claim = claims.get(match[1])
        return quote(claim, safe="") if isinstance(claim, str) and match[1] != "vhost" else match[0]

    return _VARIABLE.sub(value, scope)


def parse_aliases(given: str) -> dict[str, tuple[str, ...]]:
    """Aliases as the option has them: role=scope scope;other=scope."""
    aliases = {}
    for each in filter(None, (part.strip() for part in given.split(";"))):
        name, equals, scopes = each.partition("=")
        if not (name.strip() and equals and scopes.split()):
            raise InvalidArgument(f"oauth_scope_aliases is like role=scope scope;other=scope, not {each!r}")
        aliases[name.strip()] = tuple(scopes.split())
    return aliases


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Whose tokens are taken, and how they are read."""

    issuer: str
    rules: ClaimRules = field(default_factory=ClaimRules)
    skew_s: int = 30
    """How far the clocks of the issuer and of this machine may differ."""


class WebTokens:
    """The tokens of one issuer."""

    def __init__(self, issuer: Issuer, keys: Jwks) -> None:
        if not issuer.issuer or not issuer.rules.resource_server_id:
            raise InvalidArgument("tokens are taken for an issuer and a resource server: give both")
        self._issuer = issuer
        self._keys = keys
        self._remembered: dict[bytes, tuple[Identity, int]] = {}
        self._mutex = Lock()

    @property
    def audience(self) -> str:
        """Whom access tokens are issued for: this server."""
        return self._issuer.rules.resource_server_id

    def recall(self, token: str, now_ms: int) -> Identity | None:
        """Whom a token names if it was verified lately; None says nothing."""
        with self._mutex:
            known = self._remembered.get(_digest(token))
        return known[0] if known is not None and now_ms < known[1] else None

    def verify(self, token: str, now_ms: int) -> Identity:
        """Whom a token names; BadToken for one that proves nothing. May wait for the keys of the issuer."""
        claims, expires_ms = self.claims(token, self.audience, now_ms)
        if str(claims.get("typ", "bearer")).lower() not in TOKEN_TYPES:
            raise BadToken("the token is no access token: send that, not the ID token or the refresh token")
        identity = self._issuer.rules.identity(claims, expires_ms)
        self._remember(token, identity, min(expires_ms, now_ms + REMEMBERED_MS))
        return identity

    def claims(self, token: str, audience: str, now_ms: int) -> tuple[Mapping[str, Any], int]:
        """What a token says, if the issuer has signed it for an audience, and when it ends."""
        if len(token) > TOKEN_BYTES_MAX:
            raise BadToken(f"the token has over {TOKEN_BYTES_MAX} characters")
        try:
            header = jwt.get_unverified_header(token)
            if str(header.get("typ", "JWT")).lower() not in TYPES:
                raise BadToken(f"the token is of the type {str(header['typ'])[:40]!r}, which is no access token")
            if "crit" in header:
                raise BadToken("the token asks for extensions that are not known here")
            key = self._keys.key(header.get("kid"), now_ms)
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=key.algorithms,
                audience=audience,
                issuer=self._issuer.issuer,
                options=_SIGNATURE_ONLY,  # type: ignore[arg-type]
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise BadToken(f"the token proves nothing: {error}") from None
        return claims, self._check_times(claims, now_ms)

    def _check_times(self, claims: dict[str, Any], now_ms: int) -> int:
        """Refuse a token that has ended or has not begun; gives the end, with what clocks may differ."""
        skew_ms = self._issuer.skew_s * 1000
        times = [claims["exp"], claims.get("nbf", 0), claims.get("iat", 0)]
        if any(isinstance(each, bool) or not isinstance(each, int | float) for each in times):
            raise BadToken("the token has times that are no numbers")
        if any(not 0 <= each <= NUMBER_MAX for each in times[1:]) or not times[0] >= 0:
            raise BadToken("the token has times that are no times")
        expires_ms = int(min(times[0], NUMBER_MAX) * 1000) + skew_ms
        if now_ms >= expires_ms:
            raise BadToken("the token has expired: get another one")
        if now_ms < max(times[1:]) * 1000 - skew_ms:
            raise BadToken("the token is not valid yet: are the clocks of the issuer and of this machine right?")
        return expires_ms

    def _remember(self, token: str, identity: Identity, until_ms: int) -> None:
        with self._mutex:
            self._remembered[_digest(token)] = (identity, until_ms)
            if len(self._remembered) > REMEMBERED_MAX:
                del self._remembered[next(iter(self._remembered))]


class OAuth2:
    """The authentication backend "oauth2": a web token as a bearer token, or in the place of a password."""

    def __init__(self, tokens: WebTokens) -> None:
        self._tokens = tokens

    def recall(self, given: Credentials, peer: str, now_ms: int) -> Identity | None:
        token = _token(given)
        return None if token is None else self._tokens.recall(token, now_ms)

    def authenticate(self, given: Credentials, peer: str, now_ms: int) -> AuthenticatedLogin:
        token = _token(given)
        if token is None:
            return AuthenticatedLogin(None, "the password is no web token")
        try:
            return AuthenticatedLogin(self._tokens.verify(token, now_ms))
        except BadToken as error:
            return AuthenticatedLogin(None, str(error))


def _token(given: Credentials) -> str | None:
    """The token, if the credentials have the form of one: cheap, because every password is looked at."""
    if given.password.count(b".") != TOKEN_DOTS or not given.password.isascii():
        return None
    return given.password.decode()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
