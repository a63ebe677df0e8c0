"""Who may ask over HTTP: passwords, keys, tokens, and what the wrong ones get."""

import asyncio
import base64
from collections.abc import Coroutine, Iterator

import pytest

import leveret
from leveret.clock import ManualClock, SystemClock
from leveret.protocols.http.auth import PROOF_MS, Auth
from leveret.protocols.http.limits import Throttle
from leveret.protocols.http.origins import cross_origin
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Answer, Response, json_response
from leveret.protocols.http.server import Handler
from leveret.runtime.shared.limits import RateLimit
from leveret.security import logins
from leveret.security.access import Access
from leveret.security.authentication import Authentication, Credentials, Internal
from leveret.security.identity import BadToken, Identity
from leveret.security.logins import UNDECIDED_PER_ORIGIN_MAX
from leveret.security.passwords import Cost, hash_password
from leveret.security.web_tokens import OAuth2, WebTokens
from tests.protocols.http.world import World

CHEAP = Cost(n=2, r=1, p=1)


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> Iterator[Access]:
    monkeypatch.setattr(logins, "DELAYS_MS", (50, 50))
    with leveret.open() as broker:
        with broker.runtime as core:
            made = Access(core, cost=CHEAP)
            made.add_user("alice", hash_password("right", CHEAP), ["monitoring"])
        yield made


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def request(authorization: str | None = None, peer: HttpPeer | None = None, **headers: str) -> Request:
    lines = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    if authorization is not None:
        lines[b"authorization"] = authorization.encode()
    return Request("GET", b"/x", lines, peer or HttpPeer("127.0.0.1", 1))


def identify(auth: Auth, asked: Request) -> Identity:
    async def decide() -> Identity:
        who = auth.identify(asked)
        return who if isinstance(who, Identity) else await who

    return asyncio.run(decide())


def refusal(auth: Auth, asked: Request) -> int:
    with pytest.raises(Refusal) as refused:
        identify(auth, asked)
    return refused.value.status


def test_a_password_is_checked_once_and_then_recalled(access: Access) -> None:
    auth = Auth(access, SystemClock())
    assert identify(auth, request(basic("alice:right"))) == Identity("alice", frozenset({"monitoring"}))
    assert auth.identify(request(basic("alice:right"))) == Identity("alice", frozenset({"monitoring"}))


@pytest.mark.parametrize(
    "given", ["alice:wrong", "nobody:right", "alice:", ":right", "alice:right:", "alice", "guest:wrong"]
)
def test_a_wrong_password_is_refused(access: Access, given: str) -> None:
    auth = Auth(access, SystemClock())
    identify(auth, request(basic("alice:right")))
    assert refusal(auth, request(basic(given))) == 401


@pytest.mark.parametrize("given", [None, "", "Basic", "Basic !!!", "Basic /w==", "Digest x", "Bearer", "Bearer x.y.z"])
def test_what_proves_nothing_is_refused(access: Access, given: str | None) -> None:
    assert refusal(Auth(access, SystemClock()), request(given)) == 401


def test_an_api_key_has_scopes_and_no_tags_without_the_one_to_manage(access: Access) -> None:
    auth = Auth(access, SystemClock())
    _, token = access.api_keys.add("alice", ["write:a"], 0)
    assert identify(auth, request(f"Bearer {token}")) == Identity("alice", frozenset(), ("write:a",))
    _, managing = access.api_keys.add("alice", ["manage"], 0)
    assert identify(auth, request(f"bearer {managing}")).tags == {"monitoring"}
    assert refusal(auth, request(f"Bearer {token[:-1]}x")) == 401


def test_a_connection_proves_its_credentials_once_a_second_and_after_each_change_of_rights(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    auth = Auth(access, clock)
    asked: list[Credentials] = []
    recall = auth._authentication.recall

    def recalled(given: Credentials, peer: str, now_ms: int) -> Identity | None:
        asked.append(given)
        return recall(given, peer, now_ms)

    monkeypatch.setattr(auth._authentication, "recall", recalled)
    _, token = access.api_keys.add("alice", ["write:a"], clock.now_ms(), lifetime_ms=PROOF_MS + 500)

    def name(request: Request) -> Response:
        assert request.identity is not None
        return json_response(request.identity.user)

    handler, peer = auth.wrap(name), HttpPeer("127.0.0.1", 1)

    def ask(**headers: str) -> int:
        before = len(asked)
        answer = handler(request(f"Bearer {token}", peer, **headers))
        assert isinstance(answer, Response)
        assert answer.body == b'"alice"'
        return len(asked) - before

    assert [ask(), ask(), ask()] == [1, 0, 0]
    assert ask(x_forwarded_proto="https") == 1, "of any client of the proxy"
    access.change_password("alice", hash_password("other", CHEAP))
    assert [ask(), ask()] == [1, 0]
    clock.advance(1)
    assert [ask(), ask()] == [1, 0]
    access.delete_user("alice", force=True)
    refused = handler(request(f"Bearer {token}", peer))
    assert isinstance(refused, Coroutine), "it is verified in a thread"
    with pytest.raises(Refusal):
        asyncio.run(refused)


def test_a_web_token_is_verified_elsewhere_and_recalled(access: Access) -> None:
    class Tokens(WebTokens):
        def __init__(self) -> None:
            self.good = Identity("bob", local=False, scopes=())
            self.known: dict[str, Identity] = {}

        def recall(self, token: str, now_ms: int) -> Identity | None:
            return self.known.get(token)

        def verify(self, token: str, now_ms: int) -> Identity:
            if token != "g.oo.d":
                raise BadToken("forged")
            return self.known.setdefault(token, self.good)

    tokens = Tokens()
    auth = Auth(access, SystemClock(), Authentication(access, [OAuth2(tokens), Internal(access)]))
    assert identify(auth, request("Bearer g.oo.d")) is tokens.good
    assert auth.identify(request("Bearer g.oo.d")) is tokens.good
    assert refusal(auth, request("Bearer b.a.d")) == 401


def test_secrets_come_by_tls_or_from_this_machine(access: Access, caplog: pytest.LogCaptureFixture) -> None:
    far = HttpPeer("192.0.2.1", 1)
    assert refusal(Auth(access, SystemClock()), request(basic("alice:right"), far)) == 403
    assert "plain_auth_remote" in str(vars(caplog.records[-1]))
    assert identify(Auth(access, SystemClock()), request(basic("alice:right"), HttpPeer("192.0.2.1", 1, tls=True)))
    assert identify(Auth(access, SystemClock(), secrets_in_clear=True), request(basic("alice:right"), far))
    assert refusal(Auth(access, SystemClock(), secrets_in_clear=True), request(basic("guest:guest"), far)) == 401


def test_only_some_logins_of_an_address_are_decided_at_once(access: Access) -> None:
    auth = Auth(access, SystemClock())

    async def flood() -> list[int]:
        attempts = [auth.identify(request(basic(f"alice:{number}"))) for number in range(20)]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)  # type: ignore[arg-type]
        return [outcome.status for outcome in outcomes if isinstance(outcome, Refusal)]

    statuses = asyncio.run(flood())
    assert statuses.count(401) == UNDECIDED_PER_ORIGIN_MAX
    assert statuses.count(429) == 20 - UNDECIDED_PER_ORIGIN_MAX
    assert identify(auth, request(basic("alice:right"))).user == "alice"


def whoami(request: Request) -> Response:
    return json_response(None if request.identity is None else request.identity.user)


def test_handlers_learn_who_asks(access: Access) -> None:
    async def later(request: Request) -> Response:
        return whoami(request)

    for inner in (whoami, later):
        auth = Auth(access, SystemClock())
        with World(auth.wrap(inner, frozenset({b"/open"}))) as world:
            client = world.connect()
            for _ in range(2):
                header = f"Authorization: {basic('alice:right')}"
                assert client.request("GET /", header).body == b'"alice"'
            assert client.request("GET /open").body == b"null"
            refused = client.request("GET /")
            assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Bearer realm="leveret"')
            assert client.request("GET /", f"Authorization: {basic('alice:wrong')}").status == 401


def test_too_many_requests_are_told_to_wait(access: Access) -> None:
    clock = leveret.ManualClock()
    handler = Throttle(RateLimit(0.5, 2), clock).wrap(whoami)
    assert [_status(handler, request()) for _ in range(3)] == [200, 200, 429]
    with pytest.raises(Refusal) as refused:
        handler(request())
    assert refused.value.headers == (("Retry-After", "2"),)
    assert _status(handler, request(peer=HttpPeer("127.0.0.2", 1))) == 200
    known = request()
    known.identity = Identity("alice")
    assert _status(handler, known) == 200
    clock.advance(2)
    assert _status(handler, request()) == 200


def _status(handler: Handler, asked: Request) -> int:
    try:
        answer = handler(asked)
    except Refusal as error:
        return error.status
    assert isinstance(answer, Response)
    return answer.status


def test_pages_of_named_origins_may_read_answers_and_refusals() -> None:
    def sometimes(request: Request) -> Response:
        if request.raw_path == b"/refused":
            raise Refusal(404, "nothing")
        return Response(200)

    async def later(request: Request) -> Answer:
        return sometimes(request)

    for inner in (sometimes, later):
        with World(cross_origin(inner, problem, frozenset({"https://app.example"}))) as world:
            client = world.connect()
            for path in ("/", "/refused"):
                good = client.request(f"GET {path}", "Origin: https://app.example")
                assert good.headers["access-control-allow-origin"] == "https://app.example"
                bad = client.request(f"GET {path}", "Origin: https://evil.example")
                assert "access-control-allow-origin" not in bad.headers
            preflight = ("Origin: https://app.example", "Access-Control-Request-Method: PUT")
            answer = client.request("OPTIONS /", *preflight, "Access-Control-Request-Headers: authorization")
            assert (answer.status, answer.headers["access-control-allow-headers"]) == (204, "authorization")


def test_an_answer_that_is_used_again_keeps_its_headers() -> None:
    shared = Response(200)
    handler = cross_origin(lambda request: shared, problem, frozenset({"*"}))
    for _ in range(2):
        answer = handler(request(origin="https://app.example"))
        assert isinstance(answer, Response)
        assert len(answer.headers) == 2
    assert not shared.headers


def test_without_origins_nothing_is_said() -> None:
    assert cross_origin(whoami, problem, frozenset()) is whoami


# Client certificates

ANNS = HttpPeer("192.0.2.7", 1, tls=True, certificate_name="alice")
ALICE = Identity("alice", frozenset({"monitoring"}))
CHROME = {"user_agent": "Mozilla/5.0 (X11; Linux x86_64)", "host": "broker:15671"}


def certified(access: Access, on: bool = True) -> Auth:
    return Auth(access, SystemClock(), certificates=on)


def changing(**headers: str) -> Request:
    asked = request(None, ANNS, **headers)
    asked.method = "POST"
    return asked


def test_a_verified_certificate_is_its_user_if_nothing_else_is_sent(access: Access) -> None:
    auth = certified(access)
    assert identify(auth, request(None, ANNS)) == ALICE
    assert identify(auth, changing()) == ALICE
    access.add_user("bob", hash_password("builder", CHEAP))
    assert identify(auth, request(basic("bob:builder"), ANNS)).user == "bob"
    assert refusal(auth, request(basic("bob:wrong"), ANNS)) == 401
    assert refusal(auth, request("Bearer made.up.token", ANNS)) == 401


def test_certificates_are_no_identity_unless_an_option_says_so(access: Access) -> None:
    assert refusal(certified(access, on=False), request(None, ANNS)) == 401


@pytest.mark.parametrize(
    "peer",
    [
        HttpPeer("192.0.2.7", 1, tls=True),
        HttpPeer("192.0.2.7", 1, tls=True, certificate_name="mallory"),
        HttpPeer("192.0.2.7", 1, tls=True, certificate_name=""),
        HttpPeer("192.0.2.7", 1, tls=True, certificate_name="guest"),
    ],
)
def test_certificates_of_no_user_and_of_guest_from_elsewhere_are_refused(access: Access, peer: HttpPeer) -> None:
    assert refusal(certified(access), request(None, peer)) == 401


def test_the_certificate_of_guest_counts_on_this_machine(access: Access) -> None:
    here = HttpPeer("127.0.0.1", 1, tls=True, certificate_name="guest")
    assert identify(certified(access), request(None, here)).user == "guest"


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
        {"sec_fetch_site": "same-origin", "origin": "https://broker:15671"},
        {},
    ],
)
def test_a_browser_may_use_its_certificate_on_pages_of_this_server(access: Access, headers: dict[str, str]) -> None:
    assert identify(certified(access), request(None, ANNS, **CHROME, **headers)) == ALICE


FOREIGN = [
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"sec_fetch_site": "cross-site", "origin": "https://broker:15671"},
    {"origin": "https://evil.example"},
    {"origin": "https://broker:15671.evil.example"},
    {"origin": "null"},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_page_of_another_site_does_not_get_to_use_the_certificate(access: Access, headers: dict[str, str]) -> None:
    """The browser sends it along by itself, whatever page asks."""
    auth = certified(access)
    assert refusal(auth, request(None, ANNS, **CHROME, **headers)) == 403
    assert refusal(auth, changing(**CHROME, **headers)) == 403


def test_a_browser_that_does_not_say_which_page_asks_changes_nothing_by_certificate(access: Access) -> None:
    auth = certified(access)
    assert refusal(auth, changing(**CHROME)) == 403
    assert identify(auth, changing(**CHROME, origin="https://broker:15671")) == ALICE
    assert identify(auth, changing(user_agent="curl/8.5.0", host="broker:15671")) == ALICE
