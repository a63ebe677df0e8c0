"""Scopes in both syntaxes, and claims of tokens that become an Identity."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import AccessRefused, InvalidArgument
from leveret.security import web_tokens as module
from leveret.security.identity import BadToken, Identity
from leveret.security.permissions import Access, Permissions, Resource
from leveret.security.scopes import SCOPES_BYTES_MAX, SCOPES_MAX, qualified, scope_of
from leveret.security.web_tokens import ClaimRules, parse_aliases

NOBODY = Permissions()
NOW_MS = 1_700_000_000_000


def identity(scope: Any = "", rules: ClaimRules | None = None, **claims: Any) -> Identity:
    return (rules or ClaimRules()).identity({"sub": "ada", "scope": scope, **claims}, NOW_MS)


def allows(who: Identity, access: Access, name: str, vhost: str = "/", kind: Any = "queue") -> bool:
    try:
        who.check(NOBODY, vhost, Resource(kind, name), access)
    except AccessRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("scope", "access", "vhost", "name", "allowed"),
    [
        ("read:*/*", "read", "/", "orders", True),
        ("read:*/*", "read", "shop", "orders", True),
        ("read:*/*", "write", "/", "orders", False),
        ("read:%2F/orders", "read", "/", "orders", True),
        ("read:%2F/orders", "read", "shop", "orders", False),
        ("read:%2f/orders", "read", "/", "orders", True),
        ("read:shop*/or*rs", "read", "shop-eu", "orders", True),
        ("read:shop*/or*rs", "read", "my-shop", "orders", False),
        ("read:shop/a%2Ab", "read", "shop", "a*b", True),
        ("read:shop/a%2Ab", "read", "shop", "axb", False),
        ("read:shop/%25", "read", "shop", "%", True),
        ("read:shop/a%2Fb", "read", "shop", "a/b", True),
        ("read:{vhost}/q-{vhost}-*", "read", "shop", "q-shop-1", True),
        ("read:{vhost}/q-{vhost}-*", "read", "shop", "q-other-1", False),
        ("read:*/{vhost}", "read", "a*", "a*", True),
        ("read:*/{vhost}", "read", "a*", "ab", False),
        ("read:*/*/key", "read", "/", "orders", True),
        ("read:.*/.*", "read", "shop", "orders", False),
    ],
)
def test_scopes_of_rabbitmq(scope: str, access: Access, vhost: str, name: str, allowed: bool) -> None:
    assert allows(identity(f"leveret.{scope}"), access, name, vhost) is allowed
    who = identity(f"leveret.{scope}")
    assert who.may_enter(NOBODY, vhost) or not allowed


@pytest.mark.parametrize("scope", ["read", "read:", "read:a", "read:a/b/c/d", "fly:*/*", "*:*/*", "tag:", ":a/b"])
def test_what_is_no_scope_of_rabbitmq_means_nothing(scope: str) -> None:
    who = identity(f"leveret.{scope}")
    assert who.scopes == ()
    assert not who.may_enter(NOBODY, "/")


def test_scopes_without_the_prefix_are_ours_and_for_one_virtual_host() -> None:
    who = identity("write:orders.* read:a/b openid profile other.read:*/* leveretread:*/*")
    assert who.scopes == ("write:orders.*", "read:a/b")
    assert allows(who, "write", "orders.new")
    assert allows(who, "read", "a/b")
    assert not allows(who, "read", "b", "a")
    assert not allows(who, "write", "orders.new", "shop")


def test_an_identity_without_scopes_that_is_not_stored_may_do_nothing() -> None:
    for scopes in (None, ()):
        who = Identity("ada", scopes=scopes, local=False)
        assert not allows(who, "read", "q")
        assert not who.may_enter(NOBODY, "/")
        with pytest.raises(AccessRefused, match="topic"):
            who.check_topic(NOBODY, "/", "amq.topic", "key", "write")


def test_the_default_exchange_is_called_amq_default() -> None:
    assert allows(identity("leveret.write:%2F/amq.default"), "write", "", kind="exchange")
    assert not allows(identity("leveret.write:%2F/"), "write", "", kind="exchange")


def test_routing_keys_of_topic_exchanges() -> None:
    who = identity("leveret.write:*/logs/eu.{sub}.* leveret.write:*/plain")
    who.check_topic(NOBODY, "/", "logs", "eu.ada.x", "write")
    for exchange, key in (("logs", "us"), ("plain", "eu.ada.x"), ("logs", "eu.*.x")):
        with pytest.raises(AccessRefused, match=f"write access to topic '.*' in exchange '{exchange}'"):
            who.check_topic(NOBODY, "/", exchange, key, "write")
    identity("write:plain").check_topic(NOBODY, "/", "plain", "any", "write")


def test_a_value_of_a_claim_is_no_pattern() -> None:
    who = identity("leveret.read:*/{sub}", sub="*")
    assert allows(Identity("ada", scopes=who.scopes, local=False), "read", "*")
    assert not allows(Identity("ada", scopes=who.scopes, local=False), "read", "orders")
    assert identity("leveret.read:*/{groups}", groups=["a"]).scopes == ("@read:*/{groups}",)


def test_tags() -> None:
    assert identity("leveret.tag:administrator leveret.tag:nonsense tag:monitoring").tags == {"administrator"}
    assert identity("leveret.tag:monitoring manage", tags=["policymaker"]).tags == {"monitoring", "policymaker"}
    assert identity("", tags=["administrator"]).tags == frozenset()


def test_another_prefix_and_none() -> None:
    api = ClaimRules(scope_prefix="api://")
    assert identity("api://read:*/* leveret.read:*/*", api).scopes == ("@read:*/*",)
    assert identity("read:a/b", ClaimRules(scope_prefix="")).scopes == ("@read:a/b",)


def test_roles_and_aliases() -> None:
    aliases = parse_aliases("admin=leveret.tag:administrator leveret.read:*/*; ops = write:logs ;")
    keys = ("realm_access.roles", "permissions", "resource_access", "groups.name")
    rules = ClaimRules(scope_aliases=aliases, additional_scopes_keys=keys)
    who = identity(
        "ops",
        rules,
        realm_access={"roles": ["admin", "offline_access"]},
        permissions="leveret.write:%2F/a",
        resource_access={"leveret": ["configure:%2F/b"], "account": ["read:%2F/c"]},
        groups=[{"name": "read:d"}, {"other": 1}, 7],
    )
    assert set(who.scopes or ()) == {"@read:*/*", "write:logs", "@write:%2F/a", "@configure:%2F/b", "read:d"}
    assert who.tags == {"administrator"}


@pytest.mark.parametrize("given", ["admin", "=x", "admin=", "a=b;c"])
def test_aliases_that_are_none_are_refused(given: str) -> None:
    with pytest.raises(InvalidArgument, match="oauth_scope_aliases"):
        parse_aliases(given)


def test_the_name_of_the_user() -> None:
    assert identity(client_id="robot").user == "ada"
    assert identity(sub=None, client_id="robot").user == "robot"
    preferred = ClaimRules(username_claims=("preferred_username", "email"))
    assert identity("", preferred, preferred_username="", email="ada@example.org").user == "ada@example.org"
    assert identity("", preferred, preferred_username=7).user == "ada"
    for wrong in ({"sub": None}, {"sub": ""}, {"sub": "x" * 256}):
        with pytest.raises(BadToken, match="cannot be used"):
            identity(**wrong)


@pytest.mark.parametrize("scope", [7, None, {"a": 1}, ["read:a", 7], [["read:a"]]])
def test_scopes_of_another_type_mean_nothing(scope: Any) -> None:
    assert identity(scope).scopes == ()


def test_the_number_of_scopes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert identity(["read:a"] * 1_000).scopes == ("read:a",)
    with pytest.raises(BadToken, match=f"at most {SCOPES_MAX} scopes"):
        identity([f"read:{number}" for number in range(SCOPES_MAX + 1)])
    with pytest.raises(BadToken, match=f"over {SCOPES_BYTES_MAX} bytes"):
        identity([f"read:{number}{'x' * 200}" for number in range(50)])
    assert identity("read:" + "x" * 300).scopes == ()
    monkeypatch.setattr(module, "WORDS_MAX", 10)
    with pytest.raises(BadToken, match="at most 10 scopes and roles"):
        identity(["openid"] * 11)


@given(st.text(max_size=60), st.text(max_size=20), st.text(max_size=20))
def test_any_scope_is_understood_or_ignored(scope: str, vhost: str, name: str) -> None:
    form = qualified(scope)
    if form is not None:
        scope_of(form).covers_key("read", name, name, vhost, everywhere=False)
    identity([f"leveret.{scope}", scope])


def test_identities_pass_between_nodes_as_they_are() -> None:
    who = identity("leveret.read:*/* write:a leveret.tag:monitoring")
    assert Identity.from_list(who.to_list()) == who
    assert Identity.from_list(Identity("guest", frozenset({"administrator"})).to_list()).scopes is None
    assert not who.has_expired(NOW_MS - 1)
    assert who.has_expired(NOW_MS)
