"""Tokens over HTTP: Bearer and Basic on every API, and logins of browsers step by step, with what can go wrong."""

import http.client
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest

import leveret
from tests.oauth.provider import CLIENT, PUBLIC, SECRET, Claims, Provider
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until

OPERATOR = "leveret.tag:administrator leveret.read:*/* leveret.configure:%2F/*"


class Answer(NamedTuple):
    """What a server said."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def location(self) -> str:
        return self.headers["Location"] or ""


class Browser:
    """A browser without a window, which keeps cookies of both servers."""

    def __init__(self) -> None:
        self.cookies: dict[str, str] = {}
        self.headers: dict[str, str] = {}

    def call(self, method: str, url: str, form: dict[str, str] | None = None) -> Answer:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
        headers = {**self.headers, "Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            connection.request(method, target, None if form is None else urlencode(form), headers)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        for line in answer.headers.get_all("Set-Cookie", ()):
            name, _, value = line.split(";")[0].partition("=")
            self.cookies[name] = value
        return Answer(answer.status, answer.headers, body)

    def begin(self, origin: str) -> str:
        """Where the login leads to."""
        answer = self.call("GET", f"{origin}/console/oauth/login")
        assert answer.status == 303, answer
        return answer.location

    def allow(self, url: str, user: str = "ada", answer: str = "allow") -> str:
        """Log in at the provider; where that leads to."""
        assert self.call("GET", url).status == 200
        told = self.call("POST", url, {"user": user, "answer": answer})
        assert told.status == 302, told
        return told.location

    def log_in(self, origin: str, user: str = "ada") -> Answer:
        return self.call("GET", self.allow(self.begin(origin), user))


@pytest.fixture(params=[CLIENT, PUBLIC])
def console(tmp_path: Path, provider: Provider, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that is registered at the provider, with a secret and without."""
    provider.users = {"ada": {"scope": OPERATOR}, "eve": {"scope": "leveret.read:*/*"}}
    flags = ("--oauth-issuer", provider.issuer, "--oauth-client-id", request.param)
    secret = {"LEVERET_OAUTH_CLIENT_SECRET": SECRET} if request.param == CLIENT else {}
    with ServerProcess(tmp_path, *flags, environ=secret) as running:
        yield f"http://127.0.0.1:{running.ports['http']}"


@pytest.fixture
def browser() -> Browser:
    return Browser()


# Tokens


def test_a_bearer_token_is_good_for_every_api(server: ServerProcess, provider: Provider) -> None:
    port = server.ports["http"]
    token = provider.token("ada", f"{OPERATOR} leveret.write:%2F/orders")
    api = Api(port, token=token)
    assert api.get("/whoami") == {"name": "ada", "tags": ["administrator"]}
    api.put("/vhosts/shop")
    api.put("/queues/%2F/orders")
    assert [row["name"] for row in api.get("/queues")] == ["orders"]
    with leveret.connect(f"http://127.0.0.1:{port}", token=token) as client:
        client.queue("orders").send("one")
        assert client.queue("orders").receive()[0].body == "one"
    assert api.call("PUT", "/queues/shop/q").status == 401
    assert Api(port, token=provider.token("eve", "leveret.read:*/*")).call("GET", "/overview").status == 401


def test_a_token_is_a_password_of_basic_too(server: ServerProcess, provider: Provider) -> None:
    api = Api(server.ports["http"], "whatever", provider.token("ada", OPERATOR))
    for _ in range(2):
        assert api.get("/whoami")["name"] == "ada"
    assert Api(server.ports["http"], "ada", "x.y.z").call("GET", "/whoami").status == 401


def test_rest_asks_scopes_of_other_virtual_hosts(server: ServerProcess, provider: Provider) -> None:
    port = server.ports["http"]
    Api(port).put("/vhosts/shop")
    browser = Browser()
    browser.headers["Authorization"] = (
        f"Bearer {provider.token('ada', 'leveret.configure:shop/* leveret.write:shop/q')}"
    )
    root = f"http://127.0.0.1:{port}"
    assert browser.call("PUT", f"{root}/queues/q?vhost=shop").status == 201
    refused = browser.call("PUT", f"{root}/queues/q")
    assert (refused.status, "refused for user 'ada'" in refused.json["detail"]) == (403, True)
    assert browser.call("GET", f"{root}/queues/q/messages?vhost=shop").status in (403, 404)


def test_roles_of_keycloak(tmp_path: Path, provider: Provider) -> None:
    flags = ("--oauth-issuer", provider.issuer, "--oauth-username-claims", "preferred_username")
    roles = ("--oauth-additional-scopes-key", "realm_access.roles", "--oauth-scope-aliases", f"ops={OPERATOR}")
    with ServerProcess(tmp_path, *flags, *roles) as server:
        claims: Claims = {"preferred_username": "ada", "realm_access": {"roles": ["ops", "uma"]}, "typ": "Bearer"}
        token = provider.token("5c1f7b9e", "openid profile", azp="shop", **claims)
        assert Api(server.ports["http"], token=token).get("/whoami") == {"name": "ada", "tags": ["administrator"]}


def test_a_provider_that_calls_itself_otherwise_is_not_believed(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {**provider.configuration(), "issuer": "http://127.0.0.1:1"}
    monkeypatch.setattr(provider, "configuration", lambda: other)
    with ServerProcess(tmp_path, "--oauth-issuer", provider.issuer) as server:
        assert Api(server.ports["http"], token=provider.token("ada", OPERATOR)).call("GET", "/whoami").status == 401
        assert "the provider calls itself 'http://127.0.0.1:1'" in server.text


# Logins of browsers


def test_a_login_at_the_provider_begins_a_session(console: str, browser: Browser, provider: Provider) -> None:
    browser.headers["X-CSRF-Token"] = ""
    told = browser.call("GET", f"{console}/console/session").json
    assert told == {"user": None, "oauth": {"label": "single sign-on", "path": "/console/oauth/login"}}
    url = browser.begin(console)
    query = dict(parse_qsl(urlsplit(url).query))
    assert (query["code_challenge_method"], query["response_type"], query["scope"]) == (
        "S256",
        "code",
        "openid profile",
    )
    assert query["redirect_uri"] == f"{console}/console/oauth/callback"
    assert min(len(query[name]) for name in ("state", "nonce", "code_challenge")) >= 43
    answer = browser.call("GET", browser.allow(url))
    assert (answer.status, answer.location) == (303, "/console/")
    lines = answer.headers.get_all("Set-Cookie", ())
    assert any("leveret_session_" in line and "HttpOnly; SameSite=Strict" in line for line in lines)
    assert any("leveret_oauth_" in line and "Max-Age=0" in line for line in lines)
    assert provider.exchanges[0]["code_verifier"]
    session = browser.call("GET", f"{console}/console/session").json
    assert {name: session[name] for name in ("user", "tags", "vhosts", "makes_in")} == {
        "user": "ada",
        "tags": ["administrator"],
        "vhosts": ["/"],
        "makes_in": ["/"],
    }
    assert browser.call("PUT", f"{console}/api/queues/%2F/q").status == 403
    browser.headers["X-CSRF-Token"] = session["token"]
    assert browser.call("GET", f"{console}/api/whoami").json["name"] == "ada"
    assert browser.call("PUT", f"{console}/api/queues/%2F/q").status == 201
    rights = browser.call("GET", f"{console}/console/rights/%2F/queue/q").json
    assert rights == {"configure": True, "write": False, "read": True}


def test_logging_out_ends_the_session_here_and_at_the_provider(
    console: str, browser: Browser, provider: Provider
) -> None:
    browser.log_in(console)
    browser.headers["X-CSRF-Token"] = browser.call("GET", f"{console}/console/session").json["token"]
    kept = dict(browser.cookies)
    told = browser.call("DELETE", f"{console}/console/session").json
    query = parse_qs(urlsplit(told["logout_url"]).query)
    assert told["logout_url"].startswith(f"{provider.issuer}/logout?")
    assert query["post_logout_redirect_uri"] == [f"{console}/console/"]
    browser.cookies = kept
    assert browser.call("GET", f"{console}/console/session").json["user"] is None


def test_a_session_ends_with_the_token(console: str, browser: Browser, provider: Provider) -> None:
    provider.users["ada"]["lifetime_s"] = -29  # a second is left of what clocks may differ
    assert browser.log_in(console).location == "/console/"
    wait_until(lambda: browser.call("GET", f"{console}/console/session").json["user"] is None)


def test_who_has_no_tag_is_not_let_in(console: str, browser: Browser) -> None:
    assert browser.log_in(console, "eve").location == "/console/?login=tags"
    assert browser.call("GET", f"{console}/console/session").json["user"] is None


def test_who_is_refused_by_the_provider_is_told(console: str, browser: Browser) -> None:
    assert (
        browser.call("GET", browser.allow(browser.begin(console), answer="deny")).location == "/console/?login=denied"
    )


def test_a_code_is_good_once_and_for_the_browser_that_asked(console: str, browser: Browser) -> None:
    url = browser.allow(browser.begin(console))
    thief = Browser()
    assert thief.call("GET", url).location == "/console/?login=failed"
    thief.begin(console)
    assert thief.call("GET", url).location == "/console/?login=failed"
    kept = dict(browser.cookies)
    assert browser.call("GET", url).location == "/console/"
    browser.cookies = kept
    assert browser.call("GET", url).location == "/console/?login=failed"


@pytest.mark.parametrize("change", ["state", "code", "no state", "no code", "iss", "cookie"])
def test_an_answer_that_was_changed_is_refused(console: str, browser: Browser, change: str) -> None:
    parts = urlsplit(browser.allow(browser.begin(console)))
    query = dict(parse_qsl(parts.query))
    if change == "cookie":
        name = next(each for each in browser.cookies if each.startswith("leveret_oauth"))
        browser.cookies[name] = browser.cookies[name][:-2] + "xx"
    elif change == "iss":
        query["iss"] = "https://elsewhere.example"
    elif change.startswith("no "):
        del query[change.removeprefix("no ")]
    else:
        query[change] += "x"
    answer = browser.call("GET", parts._replace(query=urlencode(query)).geturl())
    assert answer.location == "/console/?login=failed"


@pytest.mark.parametrize(
    "changed",
    [{"nonce": "other"}, {"nonce": None}, {"aud": "other"}, {"azp": "other"}, {"sub": "eve"}, {"iss": "x"}, {"exp": 1}],
    ids=lambda changed: next(iter(changed)) + str(next(iter(changed.values()))),
)
def test_an_id_token_of_another_login_is_refused(
    console: str, browser: Browser, provider: Provider, changed: dict[str, Any]
) -> None:
    provider.tamper = lambda claims: {name: value for name, value in {**claims, **changed}.items() if value is not None}
    assert browser.log_in(console).location == "/console/?login=failed"


def test_a_provider_that_does_not_answer(tmp_path: Path, browser: Browser) -> None:
    flags = ("--oauth-issuer", "http://127.0.0.1:1", "--oauth-client-id", PUBLIC)
    with ServerProcess(tmp_path, *flags) as server:
        origin = f"http://127.0.0.1:{server.ports['http']}"
        assert browser.call("GET", f"{origin}/console/oauth/login").location == "/console/?login=unreachable"
        assert Api(server.ports["http"]).get("/whoami")["name"] == "guest"


def test_without_a_client_there_is_no_login_at_a_provider(server: ServerProcess, browser: Browser) -> None:
    origin = f"http://127.0.0.1:{server.ports['http']}"
    browser.headers["X-CSRF-Token"] = ""
    assert browser.call("GET", f"{origin}/console/session").json == {"user": None}
    assert browser.call("GET", f"{origin}/console/oauth/login").status == 404


def test_a_host_that_is_none_leads_nowhere(console: str, browser: Browser) -> None:
    browser.headers["Host"] = "evil.example/x?"
    assert browser.call("GET", f"{console}/console/oauth/login").status in (400, 421)


def test_too_many_scopes_for_a_session_are_told(console: str, browser: Browser, provider: Provider) -> None:
    many = " ".join(f"leveret.read:%2F/{secrets.token_urlsafe(45)}" for _ in range(80))
    provider.users["ada"]["scope"] = f"leveret.tag:administrator {many}"
    assert browser.log_in(console).location == "/console/?login=scopes"
