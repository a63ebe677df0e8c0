"""An OpenID Connect provider on this machine: authlib decides what a client is given, joserfc signs it.

Discovery, keys that can be rotated, a login form, the code flow with PKCE, client credentials and logout; http, as
browsers and servers take it from this machine only.
"""

import html
import json
import os
import secrets
import threading
import time
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request, grants
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import AuthorizationCodeMixin
from authlib.oidc.core.grants import OpenIDCode
from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # this machine only

AUDIENCE = "leveret"
CLIENT = "leveret-console"
SECRET = "client:secret/with signs"
PUBLIC = "leveret-public"
LIFETIME_S = 300
Claims = dict[str, Any]
MAKERS: dict[str, Callable[[Any], Any]] = {
    "RS256": lambda names: RSAKey.generate_key(2048, names),
    "PS256": lambda names: RSAKey.generate_key(2048, names),
    "ES256": lambda names: ECKey.generate_key("P-256", names),
    "ES384": lambda names: ECKey.generate_key("P-384", names),
    "EdDSA": lambda names: OKPKey.generate_key("Ed25519", names),
}


class Client(ClientMixin):  # type: ignore[misc]
    """A registered client."""

    def __init__(self, name: str, secret: str) -> None:
        self.name = name
        self.secret = secret

    def get_client_id(self) -> str:
        return self.name

    def get_default_redirect_uri(self) -> None:
        """None: the client has to say it."""

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return urlsplit(redirect_uri).path in ("/console/oauth/callback", "/elsewhere")

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == ("client_secret_basic" if self.secret else "none")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in ("authorization_code", "client_credentials")


class Code(AuthorizationCodeMixin):  # type: ignore[misc]
    """A code that was given out."""

    def __init__(self, request: Any, user: str) -> None:
        data = request.payload.data
        self.client_id, self.redirect_uri = data["client_id"], data["redirect_uri"]
        self.scope, self.nonce, self.user = data.get("scope", ""), data.get("nonce"), user
        self.code_challenge = data.get("code_challenge")
        self.code_challenge_method = data.get("code_challenge_method")

    def get_redirect_uri(self) -> Any:
        return self.redirect_uri

    def get_scope(self) -> Any:
        return self.scope

    def get_nonce(self) -> Any:
        return self.nonce

    def get_auth_time(self) -> int:
        return int(time.time())

    def get_acr(self) -> None:
        """Say nothing of how."""

    def get_amr(self) -> None:
        """Say nothing of how."""


class Form(OAuth2Request):  # type: ignore[misc]
    """A request with a form."""

    given: dict[str, str]

    @property
    def args(self) -> dict[str, str]:
        return self.given

    @property
    def form(self) -> dict[str, str]:
        return self.given


class Provider:
    """The provider; `users` are who can log in, with the claims that they get."""

    def __init__(self) -> None:
        self.users: dict[str, Claims] = {}
        self.clients = {name: Client(name, secret) for name, secret in ((CLIENT, SECRET), (PUBLIC, ""))}
        self.codes: dict[str, Code] = {}
        self.requests: list[str] = []
        self.exchanges: list[dict[str, str]] = []
        self.tamper: Callable[[Claims], Claims] = lambda claims: claims
        """What becomes of an ID token before it is signed."""
        self.keys = KeySet([])
        self.rotations = 0
        self.algorithm = "RS256"
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                world.answer(self, b"")

            def do_POST(self) -> None:
                world.answer(self, self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self.rotate()
        self._oauth = _server(self)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # Keys and tokens

    def rotate(self, algorithm: str = "RS256", *, keep: bool = False) -> None:
        """Sign with another key from now on."""
        self.rotations += 1
        self.algorithm = algorithm
        names = {"kid": f"key-{self.rotations}", "use": "sig", "alg": algorithm}
        self.key = MAKERS[algorithm](names)
        self.keys = KeySet([*(self.keys.keys if keep else ()), self.key])

    def sign(self, claims: Claims, **header: Any) -> str:
        """A token with these claims."""
        named = {"alg": self.algorithm, "kid": self.key.kid, **header}
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", SecurityWarning
            )  # EdDSA is to be called Ed25519, which no provider does yet
            return jwt.encode(named, claims, self.key, algorithms=[self.algorithm])

    def token(self, user: str = "ada", scope: str = "", lifetime_s: float = LIFETIME_S, **claims: Any) -> str:
        """An access token."""
        now_s = int(time.time())
        told = {"iss": self.issuer, "aud": AUDIENCE, "sub": user, "iat": now_s, "exp": now_s + int(lifetime_s)}
        return self.sign({**told, "scope": scope, **claims}, typ="at+jwt")

    # HTTP

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        path = urlsplit(request.path).path
        self.requests.append(path)
        given = dict(parse_qsl(urlsplit(request.path).query)) | dict(parse_qsl(body.decode()))
        if path == "/.well-known/openid-configuration":
            self._json(request, self.configuration())
        elif path == "/keys":
            self._json(request, self.keys.as_dict(private=False))
        elif path == "/authorize" and request.command == "GET":
            self._form(request)
        elif path == "/authorize":
            self._send(request, *self._authorized(request, given))
        elif path == "/token":
            self.exchanges.append(given)
            self._send(request, *self._oauth.create_token_response((request, given)))
        elif path == "/logout":
            self._send(request, 302, "", [("Location", given["post_logout_redirect_uri"])])
        else:
            self._send(request, 404, "", [])

    def configuration(self) -> Claims:
        """What discovery says."""
        names = {"authorization": "authorize", "token": "token", "end_session": "logout"}
        found: Claims = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in names.items()}
        return {**found, "issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}

    def _authorized(self, request: BaseHTTPRequestHandler, given: dict[str, str]) -> Any:
        user = given.pop("user", None) if given.get("answer") == "allow" else None
        asked = self._oauth.create_oauth2_request((request, given))
        grant = self._oauth.get_consent_grant((request, given), end_user=user)
        return self._oauth.create_authorization_response(asked, grant_user=user, grant=grant)

    def _form(self, request: BaseHTTPRequestHandler) -> None:
        query = html.escape(urlsplit(request.path).query)
        page = (
            f"<!doctype html><title>Provider</title><form method='post' action='/authorize?{query}'>"
            "<label>User <input name='user'></label><button name='answer' value='allow'>Allow</button>"
            "<button name='answer' value='deny'>Deny</button></form>"
        )
        self._send(request, 200, page, [("Content-Type", "text/html")])

    def _json(self, request: BaseHTTPRequestHandler, value: Any) -> None:
        self._send(request, 200, json.dumps(value), [("Content-Type", "application/json")])

    def _send(self, request: BaseHTTPRequestHandler, status: int, body: Any, headers: list[tuple[str, str]]) -> None:
        text = json.dumps(body) if isinstance(body, dict) else body or ""
        request.send_response(status)
        for name, value in headers:
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(text.encode())))
        request.end_headers()
        request.wfile.write(text.encode())


def _server(world: Provider) -> Any:
    """What authlib decides."""

    class Server(AuthorizationServer):  # type: ignore[misc]
        def query_client(self, client_id: str) -> Client | None:
            return world.clients.get(client_id)

        def save_token(self, token: Any, request: Any) -> None:
            """A token is not stored: it says all."""

        def send_signal(self, *args: Any, **kwargs: Any) -> None:
            """Tell nobody."""

        def create_oauth2_request(self, request: tuple[BaseHTTPRequestHandler, dict[str, str]]) -> Any:
            handler, given = request
            made = Form(handler.command, f"{world.issuer}{handler.path}", headers=handler.headers)
            made.given, made.payload = given, BasicOAuth2Payload(given)
            return made

        def handle_response(self, status: int, body: Any, headers: list[tuple[str, str]]) -> Any:
            return status, body, headers

    class CodeGrant(grants.AuthorizationCodeGrant):  # type: ignore[misc]
        TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "none")

        def save_authorization_code(self, code: str, request: Any) -> None:
            world.codes[code] = Code(request, request.user)

        def query_authorization_code(self, code: str, client: Client) -> Code | None:
            found = world.codes.get(code)
            return found if found is not None and found.client_id == client.name else None

        def delete_authorization_code(self, authorization_code: Code) -> None:
            world.codes = {name: each for name, each in world.codes.items() if each is not authorization_code}

        def authenticate_user(self, authorization_code: Code) -> str:
            return authorization_code.user

    class IdTokens(OpenIDCode):  # type: ignore[misc]
        def exists_nonce(self, nonce: str, request: Any) -> bool:
            return False

        def encode_id_token(self, token: Any, request: Any) -> str:
            now_s = int(time.time())
            told = {"iss": world.issuer, "aud": request.client.name, "sub": request.user, "iat": now_s}
            code: Code = request.authorization_code
            return world.sign(world.tamper({**told, "exp": now_s + LIFETIME_S, "nonce": code.nonce}))

    def generate(grant_type: str, client: Client, user: str | None = None, scope: str = "", **_: Any) -> Claims:
        claims = dict(world.users.get(user or client.name, {}))
        lifetime_s = claims.pop("lifetime_s", LIFETIME_S)
        granted = f"{scope} {claims.pop('scope', '')}"
        access = world.token(user or client.name, granted, lifetime_s, jti=secrets.token_hex(8), **claims)
        return {"token_type": "Bearer", "access_token": access, "expires_in": int(lifetime_s), "scope": granted}

    made = Server()
    made.register_token_generator("default", generate)
    made.register_grant(CodeGrant, [CodeChallenge(required=True), IdTokens(require_nonce=True)])
    made.register_grant(grants.ClientCredentialsGrant)
    return made
