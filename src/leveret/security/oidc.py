"""An OpenID Connect provider: its endpoints by discovery, and logins of browsers by the authorisation code flow.

    start   -> URL of the provider with state, nonce and the challenge of a verifier (PKCE, S256)
    finish  <- code: exchanged for tokens at the token endpoint, with the verifier; both tokens are verified

What has to be known in between is a `PendingLogin`, which the browser keeps in a signed cookie. Tokens stay in this
process.
"""

import hashlib
import secrets
from base64 import b64encode, urlsafe_b64encode
from dataclasses import dataclass
from hmac import compare_digest
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from leveret.core.errors import InvalidArgument
from leveret.security.fetch import FAILURES, Fetcher, check_url, json_object
from leveret.security.identity import BadToken, Identity
from leveret.security.web_tokens import WebTokens

DISCOVERY = "/.well-known/openid-configuration"
METADATA_MS = 300_000
RANDOM_BYTES = 32  # of a state, a nonce and a verifier
PENDING_MS_MAX = 10 * 60_000  # in which a person has to log in at the provider
CODE_CHARS_MAX = 4_096


class Metadata(NamedTuple):
    """What a provider says about itself."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str | None


class Provider:
    """A provider that is asked for its endpoints when they are needed."""

    def __init__(self, issuer: str, fetcher: Fetcher) -> None:
        check_url("oauth_issuer", issuer)
        self.issuer = issuer
        self._fetcher = fetcher
        self._known: tuple[int, Metadata] | None = None
        self._mutex = Lock()

    def jwks_uri(self) -> str:
        """Where the keys are now."""
        return self.discover().jwks_uri

    def metadata(self, now_ms: int) -> Metadata:
        """The endpoints, asked for once in METADATA_MS; an old answer is better than none."""
        with self._mutex:
            known = self._known
        if known is not None and 0 <= now_ms - known[0] < METADATA_MS:
            return known[1]
        try:
            found = self.discover()
        except FAILURES:
            if known is None:
                raise
            found = known[1]
        with self._mutex:
            self._known = now_ms, found
        return found

    def discover(self) -> Metadata:
        told = json_object(self._fetcher.get(self.issuer.rstrip("/") + DISCOVERY))
        if told.get("issuer") != self.issuer:
            raise InvalidArgument(f"the provider calls itself {str(told.get('issuer'))[:200]!r}, not {self.issuer!r}")
        return Metadata(
            _endpoint(told, "authorization_endpoint"),
            _endpoint(told, "token_endpoint"),
            _endpoint(told, "jwks_uri"),
            _endpoint(told, "end_session_endpoint") if told.get("end_session_endpoint") else None,
        )


def _endpoint(told: dict[str, Any], name: str) -> str:
    url = told.get(name)
    if not isinstance(url, str):
        raise InvalidArgument(f"the provider names no {name}")
    check_url(f"the {name} of the provider", url)
    return url


class PendingLogin(NamedTuple):
    """A login that was begun in a browser."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    began_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """How the provider knows this server."""

    client_id: str
    client_secret: str = ""
    scopes: str = "openid profile"


class BrowserLogin:
    """Logins of browsers at one provider. `finish` and all that asks the provider may wait: not in an event loop."""

    def __init__(self, provider: Provider, tokens: WebTokens, fetcher: Fetcher, registration: Registration) -> None:
        self._provider = provider
        self._tokens = tokens
        self._fetcher = fetcher
        self._registration = registration

    @property
    def issuer(self) -> str:
        return self._provider.issuer

    def start(self, redirect_uri: str, now_ms: int) -> tuple[str, PendingLogin]:
        """Where the browser goes to log in, and what to remember until it comes back."""
        state, nonce, verifier = (secrets.token_urlsafe(RANDOM_BYTES) for _ in range(3))
        query = {
            "response_type": "code",
            "client_id": self._registration.client_id,
            "redirect_uri": redirect_uri,
            "scope": self._registration.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": _encoded(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        url = with_query(self._provider.metadata(now_ms).authorization_endpoint, query)
        return url, PendingLogin(state, nonce, verifier, redirect_uri, now_ms)

    def finish(self, pending: PendingLogin, state: str, code: str, now_ms: int) -> Identity:
        """The identity of the person who logged in; BadToken if the provider does not say so."""
        if not compare_digest(pending.state.encode(), state.encode("utf-8", "replace")):
            raise BadToken("the answer belongs to another login: begin again")
        if not 0 <= now_ms - pending.began_ms < PENDING_MS_MAX:
            raise BadToken("the login took too long: begin again")
        if not code or len(code) > CODE_CHARS_MAX:
            raise BadToken("the provider sent no code")
        try:
            told = self._exchanged(pending, code, now_ms)
        except FAILURES as error:
            raise BadToken(f"the provider gave no tokens for the code: {error}") from None
        return self._verified(told, pending, now_ms)

    def _exchanged(self, pending: PendingLogin, code: str, now_ms: int) -> dict[str, Any]:
        registration, headers = self._registration, {}
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "client_id": registration.client_id,
            "code_verifier": pending.verifier,
        }
        if registration.client_secret:
            pair = f"{quote(registration.client_id, safe='')}:{quote(registration.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        return self._fetcher.post(self._provider.metadata(now_ms).token_endpoint, form, headers)

    def _verified(self, told: dict[str, Any], pending: PendingLogin, now_ms: int) -> Identity:
        """The identity of the access token; the ID token proves that it was issued for this login."""
        access, proof = told.get("access_token"), told.get("id_token")
        if not isinstance(access, str) or not isinstance(proof, str):
            raise BadToken("the provider gave no access token with an ID token: does oauth_scopes have openid?")
        claims, _ = self._tokens.claims(proof, self._registration.client_id, now_ms)
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not compare_digest(nonce.encode("utf-8", "replace"), pending.nonce.encode()):
            raise BadToken("the ID token was issued for another login")
        if claims.get("azp", self._registration.client_id) != self._registration.client_id:
            raise BadToken("the ID token was issued to another client")
        identity = self._tokens.verify(access, now_ms)
        subject, _ = self._tokens.claims(access, self._tokens.audience, now_ms)
        if subject.get("sub") != claims.get("sub"):
            raise BadToken("the ID token and the access token are of different users")
        return identity

    def logout_url(self, return_to: str, now_ms: int) -> str | None:
        """Where the browser goes to log out at the provider, if that can be done there."""
        endpoint = self._provider.metadata(now_ms).end_session_endpoint
        if endpoint is None:
            return None
        return with_query(endpoint, {"client_id": self._registration.client_id, "post_logout_redirect_uri": return_to})


def with_query(url: str, query: dict[str, str]) -> str:
    """A URL with more in its query."""
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
