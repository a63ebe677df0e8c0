"""JSON Web Tokens: who signs, for whom, until when, and what of it is believed."""

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, OKPAlgorithm, RSAAlgorithm

from leveret.core.errors import InvalidArgument
from leveret.security import fetch as fetching
from leveret.security import jwks, web_tokens
from leveret.security.identity import BadToken
from leveret.security.jwks import Jwks, parse_set
from leveret.security.web_tokens import ClaimRules, Issuer, WebTokens
from tests.waiting import PATIENCE_S

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
RSA_KEY = rsa.generate_private_key(65_537, 2_048)
OTHER = rsa.generate_private_key(65_537, 2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
EC384_KEY = ec.generate_private_key(ec.SECP384R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
SECRET = b"0123456789abcdef0123456789abcdef" + b"0123456789abcdef0123456789abcdef"
CLAIMS: dict[str, Any] = {
    "iss": "https://issuer.example",
    "aud": "leveret",
    "sub": "alice",
    "exp": NOW_S + 60,
    "scope": "write:orders read:orders.*",
}
Keys = dict[str, Any]


def jwk(kid: str, made: dict[str, Any]) -> Keys:
    return {**made, "kid": kid}


RSA_JWK = jwk("r", RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True))
EC_JWK = jwk("e", ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True))
EC384_JWK = jwk("e3", ECAlgorithm.to_jwk(EC384_KEY.public_key(), as_dict=True))
ED_JWK = jwk("ed", OKPAlgorithm.to_jwk(ED_KEY.public_key(), as_dict=True))
OCT_JWK = jwk("h", HMACAlgorithm.to_jwk(SECRET, as_dict=True))
ISSUER = Issuer(issuer="https://issuer.example")


def token(
    key: Any = RSA_KEY,
    algorithm: str = "RS256",
    kid: str | None = "r",
    header: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers={**({"kid": kid} if kid else {}), **(header or {})})


def forged(secret: bytes, header: dict[str, Any]) -> str:
    """A token that no library would sign: its secret is not one."""
    parts = [urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (header, CLAIMS)]
    signature = hmac.digest(secret, b".".join(parts), "sha256")
    return b".".join((*parts, urlsafe_b64encode(signature).rstrip(b"="))).decode()


def public(key: rsa.RSAPrivateKey) -> dict[str, Any]:
    made: dict[str, Any] = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return made


def tokens(*keys: Keys, source: str = "keys.json") -> WebTokens:
    return WebTokens(ISSUER, Jwks(source, lambda _: json.dumps({"keys": keys}).encode()))


ALL = (RSA_JWK, EC_JWK, EC384_JWK, ED_JWK, OCT_JWK)


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [
        *((RSA_KEY, algorithm, "r") for algorithm in jwks.RSA),
        (EC_KEY, "ES256", "e"),
        (EC384_KEY, "ES384", "e3"),
        (ED_KEY, "EdDSA", "ed"),
        *((SECRET, algorithm, "h") for algorithm in ("HS256", "HS384", "HS512")),
    ],
)
def test_a_good_token_names_its_user_and_scopes(key: Any, algorithm: str, kid: str) -> None:
    identity = tokens(*ALL).verify(token(key, algorithm, kid), NOW_MS)
    assert (identity.user, identity.scopes) == ("alice", ("write:orders", "read:orders.*"))
    assert not identity.local
    assert not identity.tags


def test_tags_need_the_scope_to_manage() -> None:
    assert tokens(RSA_JWK).verify(token(scope="manage", tags=["administrator", "x"]), NOW_MS).tags == {"administrator"}
    assert tokens(RSA_JWK).verify(token(tags=["administrator"]), NOW_MS).tags == frozenset()


BAD: dict[str, Callable[[], str]] = {
    "of another issuer": lambda: token(iss="https://other.example"),
    "for another audience": lambda: token(aud="other"),
    "without audience": lambda: token(aud=None),
    "without issuer": lambda: token(iss=None),
    "without subject": lambda: token(sub=None),
    "without end": lambda: token(exp=None),
    "that has ended": lambda: token(exp=NOW_S - 31),
    "of the future": lambda: token(nbf=NOW_S + 31),
    "with an end that is no number": lambda: token(exp="never"),
    "with an empty user": lambda: token(sub=""),
    "with a user that is no name": lambda: token(sub="x" * 300),
    "signed by another key": lambda: token(rsa.generate_private_key(65_537, 2_048)),
    "signed by an unknown key": lambda: token(kid="unknown"),
    "without the name of its key": lambda: token(kid=None),
    "of an algorithm that is not the key's": lambda: token(SECRET, "HS256", "r"),
    "whose secret is the public key": lambda: forged(RSA_JWK["n"].encode(), {"alg": "HS256", "kid": "r"}),
    "of another curve": lambda: token(ec.generate_private_key(ec.SECP384R1()), "ES384", "e"),
    "of another kind of key": lambda: token(EC_KEY, "ES256", "r"),
    "that is no access token": lambda: token(header={"typ": "logout+jwt"}),
    "that is an ID token": lambda: token(typ="ID"),
    "that is a refresh token": lambda: token(typ="Refresh"),
    "with extensions": lambda: token(header={"crit": ["b64"], "b64": True}),
    "of tomorrow": lambda: token(iat=NOW_S + 31),
    "with an end that is not a number at all": lambda: token(exp=float("nan")),
    "with a begin that is no time": lambda: token(nbf=float("-inf")),
    "with a key of its own": lambda: token(OTHER, kid=None, header={"jwk": jwk("x", public(OTHER))}),
    "without signature": lambda: token("", "none", "r"),
    "that is none": lambda: "abc",
    "that is three words": lambda: "a.b.c",
    "that is too long": lambda: "a" * 20_000,
}


@pytest.mark.parametrize("name", BAD)
def test_a_token_is_refused(name: str) -> None:
    with pytest.raises(BadToken):
        tokens(*ALL).verify(BAD[name](), NOW_MS)


def test_a_tampered_token_is_refused() -> None:
    head, body, signature = token().split(".")
    other = token(sub="mallory").split(".")[1]
    assert body != other
    with pytest.raises(BadToken):
        tokens(*ALL).verify(f"{head}.{other}.{signature}", NOW_MS)


def test_an_algorithm_that_a_key_names_is_the_only_one() -> None:
    named = tokens({**RSA_JWK, "alg": "RS256"})
    assert named.verify(token(), NOW_MS).user == "alice"
    with pytest.raises(BadToken, match="alg"):
        named.verify(token(algorithm="PS256"), NOW_MS)


def test_types_of_access_tokens() -> None:
    for header in ({"typ": "at+jwt"}, {"typ": "JWT"}, {"typ": "application/at+jwt"}):
        assert tokens(*ALL).verify(token(header=header), NOW_MS).user == "alice"
    assert tokens(*ALL).verify(token(typ="Bearer"), NOW_MS).expires_ms == NOW_MS + 90_000


def test_clocks_may_differ_a_little() -> None:
    assert tokens(*ALL).verify(token(exp=NOW_S - 29), NOW_MS).user == "alice"
    assert tokens(*ALL).verify(token(nbf=NOW_S + 29), NOW_MS).user == "alice"


def test_a_token_without_the_name_of_its_key_means_the_only_one() -> None:
    assert tokens(RSA_JWK).verify(token(kid=None), NOW_MS).user == "alice"


def test_a_checked_token_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    checked, good, short = tokens(RSA_JWK), token(), token(exp=NOW_S - 25)
    assert checked.recall(good, NOW_MS) is None
    identity = checked.verify(good, NOW_MS)
    assert checked.recall(good, NOW_MS + 59_999) == identity
    assert checked.recall(good, NOW_MS + 60_000) is None
    checked.verify(short, NOW_MS)
    assert checked.recall(short, NOW_MS + 5_000) is None
    monkeypatch.setattr(web_tokens, "REMEMBERED_MAX", 1)
    checked.verify(token(sub="bob"), NOW_MS)
    checked.verify(token(sub="carol"), NOW_MS)
    assert checked.recall(good, NOW_MS) is None


def test_keys_are_read_again_now_and_then_and_for_new_names() -> None:
    served: list[Keys] = [EC_JWK]
    fetched: list[str] = []

    def fetch(source: str) -> bytes:
        fetched.append(source)
        return json.dumps({"keys": served}).encode()

    keys = Jwks("https://issuer.example/keys", fetch)
    keys.key("e", NOW_MS)
    keys.key("e", NOW_MS + jwks.REFRESH_MS - 1)
    assert len(fetched) == 1
    served.append(RSA_JWK)
    for later_ms in (0, 1, 2):
        with pytest.raises(BadToken):
            Jwks.key(keys, "made-up", NOW_MS + jwks.RETRY_MS + later_ms)
    assert len(fetched) == 2
    assert "RS256" in keys.key("r", NOW_MS + jwks.RETRY_MS).algorithms
    keys.key("r", NOW_MS + jwks.RETRY_MS + jwks.REFRESH_MS)
    assert len(fetched) == 3


def test_tokens_whose_key_is_known_do_not_wait_for_a_new_one() -> None:
    asked, answered = Event(), Event()
    sets = [json.dumps({"keys": [RSA_JWK]}).encode(), json.dumps({"keys": [RSA_JWK, EC_JWK]}).encode()]

    def fetch(_: str) -> bytes:
        if len(sets) == 1:
            asked.set()
            assert answered.wait(PATIENCE_S)
        return sets.pop(0)

    keys, later_ms = Jwks("https://issuer.example/keys", fetch), NOW_MS + jwks.REFRESH_MS
    assert keys.key("r", NOW_MS)
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(keys.key, "e", later_ms) for _ in range(2)]
        assert asked.wait(PATIENCE_S)
        assert keys.key("r", later_ms)
        assert not any(each.done() for each in waiting)
        answered.set()
        assert all(each.result(PATIENCE_S).algorithms == ("ES256",) for each in waiting)
    assert not sets


def test_logins_that_came_at_the_same_time_ask_once() -> None:
    fetched: list[str] = []

    def fetch(source: str) -> bytes:
        fetched.append(source)
        return json.dumps({"keys": [RSA_JWK]}).encode()

    keys = Jwks("https://issuer.example/keys", fetch)
    for now_ms in (NOW_MS, NOW_MS - 1, NOW_MS - 2):
        with pytest.raises(BadToken):
            keys.key("made-up", now_ms)
    assert len(fetched) == 1
    assert keys.key("r", NOW_MS - jwks.RETRY_MS - 1)
    assert len(fetched) == 2


def test_old_keys_are_better_than_none() -> None:
    answers = [json.dumps({"keys": [RSA_JWK]}).encode(), b"<html>"]
    keys = Jwks("https://issuer.example/keys", lambda _: answers.pop(0))
    keys.key("r", NOW_MS)
    assert keys.key("r", NOW_MS + jwks.REFRESH_MS)


def test_without_keys_no_token_is_good(tmp_path: Path) -> None:
    with pytest.raises(BadToken, match="not there"):
        Jwks(str(tmp_path / "missing.json")).key("r", NOW_MS)


def test_keys_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [RSA_JWK]}))
    assert "RS256" in Jwks(str(path)).key("r", NOW_MS).algorithms


def test_a_secret_is_not_taken_from_a_url() -> None:
    with pytest.raises(BadToken):
        tokens(OCT_JWK, source="https://issuer.example/keys").verify(token(SECRET, "HS256", "h"), NOW_MS)


@pytest.mark.parametrize("url", ["http://issuer.example/keys", "ftp://issuer.example/keys", "file:///etc/passwd"])
def test_keys_come_by_https_only(url: str) -> None:
    with pytest.raises(InvalidArgument, match="https"):
        Jwks(url)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"keys": [1]}', b'{"keys": [{"kty": "RSA", "n": "x"}]}', b"\xff"]
)
def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument, match="no JWK set"):
        parse_set(data, jwks.PUBLIC)


def test_the_size_of_a_set_is_limited(tmp_path: Path) -> None:
    many = [{**RSA_JWK, "kid": str(number)} for number in range(150)]
    assert len(parse_set(json.dumps({"keys": many}).encode(), jwks.PUBLIC)) == jwks.KEYS_MAX
    path = tmp_path / "keys.json"
    path.write_bytes(b" " * (fetching.ANSWER_BYTES_MAX + 1))
    with pytest.raises(BadToken, match="over 1048576 bytes"):
        Jwks(str(path)).key("r", NOW_MS)


def test_keys_for_other_purposes_are_left_out() -> None:
    others = [
        {**RSA_JWK, "use": "enc"},
        {**EC_JWK, "alg": "ES512"},
        {**RSA_JWK, "alg": "HS256"},
        {"kty": "OKP", "kid": "o"},
    ]
    small = public(rsa.generate_private_key(65_537, 1_024))
    others.append({**small, "kid": "small"})
    assert parse_set(json.dumps({"keys": others}).encode(), jwks.PUBLIC) == {}


def test_an_issuer_and_an_audience_are_needed() -> None:
    for rules in (Issuer(issuer=""), Issuer(issuer="me", rules=ClaimRules(resource_server_id=""))):
        with pytest.raises(InvalidArgument, match="give both"):
            WebTokens(rules, Jwks("x"))
