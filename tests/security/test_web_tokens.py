"""JSON Web Tokens: who signs, for whom, until when, and what of it is believed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, RSAAlgorithm

from leveret.core.errors import InvalidArgument
from leveret.security import jwks, web_tokens
from leveret.security.identity import BadToken
from leveret.security.jwks import Jwks, parse_set
from leveret.security.web_tokens import Issuer, WebTokens

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
RSA_KEY = rsa.generate_private_key(65_537, 2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
SECRET = b"0123456789abcdef0123456789abcdef"
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
OCT_JWK = jwk("h", HMACAlgorithm.to_jwk(SECRET, as_dict=True))
ISSUER = Issuer(issuer="https://issuer.example", audience="leveret", keys="unused")


def token(key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "r", **changes: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers={"kid": kid} if kid else {})


def tokens(*keys: Keys, source: str = "keys.json") -> WebTokens:
    return WebTokens(ISSUER, Jwks(source, lambda _: json.dumps({"keys": keys}).encode()))


ALL = (RSA_JWK, EC_JWK, OCT_JWK)


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"), [(RSA_KEY, "RS256", "r"), (EC_KEY, "ES256", "e"), (SECRET, "HS256", "h")]
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
    "with scopes that mean nothing": lambda: token(scope="fly:high"),
    "signed by another key": lambda: token(rsa.generate_private_key(65_537, 2_048)),
    "signed by an unknown key": lambda: token(kid="unknown"),
    "without the name of its key": lambda: token(kid=None),
    "of an algorithm that is not the key's": lambda: token(SECRET, "HS256", "r"),
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
    assert keys.key("r", NOW_MS + jwks.RETRY_MS).algorithm_name == "RS256"
    keys.key("r", NOW_MS + jwks.RETRY_MS + jwks.REFRESH_MS)
    assert len(fetched) == 3


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
    assert Jwks(str(path)).key("r", NOW_MS).algorithm_name == "RS256"


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
    path.write_bytes(b" " * (jwks.SET_BYTES_MAX + 1))
    with pytest.raises(BadToken, match="over 1048576 bytes"):
        Jwks(str(path)).key("r", NOW_MS)


def test_keys_for_other_purposes_are_left_out() -> None:
    others = [{**RSA_JWK, "use": "enc"}, {**EC_JWK, "alg": "ES512"}, {"kty": "OKP", "kid": "o"}]
    assert parse_set(json.dumps({"keys": others}).encode(), jwks.PUBLIC) == {}


def test_an_issuer_and_an_audience_are_needed() -> None:
    with pytest.raises(InvalidArgument, match="give both"):
        WebTokens(Issuer(issuer="", audience="leveret", keys="x"))
