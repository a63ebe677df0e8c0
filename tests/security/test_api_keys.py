"""API keys: made, proved, rotated, ended, and kept."""

from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.core.errors import AccessRefused, InvalidArgument, NotFound, TooMany
from leveret.operations.registry import rule_of
from leveret.security import keys
from leveret.security.access import Access
from leveret.security.authorisation import check_tag
from leveret.security.identity import Identity, tags_within
from leveret.security.passwords import Cost
from leveret.security.permissions import Access as Verb
from leveret.security.permissions import Resource
from leveret.security.scopes import parse_scopes, scope_of

SMALL: dict[str, Any] = {"spare_bytes": 0, "disk_free_min_bytes": 0}
CHEAP = Cost(n=2, r=1, p=1)
NOW_MS = 1_000_000


@pytest.fixture
def access() -> Access:
    with leveret.open() as broker, broker.runtime as core:
        return Access(core, cost=CHEAP)


def test_a_token_proves_its_key(access: Access) -> None:
    key, token = access.api_keys.add("guest", ["write:orders"], NOW_MS, label="shop")
    assert token.startswith(f"lvk_{key.number}_")
    assert access.api_keys.find(token, NOW_MS) == key
    assert list(access.api_keys) == [key]


@pytest.mark.parametrize("change", [lambda token: token[:-1], lambda token: token + "A", lambda token: "", str.upper])
def test_a_changed_token_proves_nothing(access: Access, change: Any) -> None:
    _, token = access.api_keys.add("guest", [], NOW_MS)
    assert access.api_keys.find(change(token), NOW_MS) is None


def test_the_secret_of_one_key_is_not_that_of_another(access: Access) -> None:
    (first, _), (_, second) = (access.api_keys.add("guest", [], NOW_MS) for _ in range(2))
    assert access.api_keys.find(f"lvk_{first.number}_{second.split('_', 2)[2]}", NOW_MS) is None


def test_the_secret_is_neither_kept_nor_shown(access: Access) -> None:
    key, token = access.api_keys.add("guest", [], NOW_MS)
    secret = token.split("_", 2)[2]
    assert secret not in str(key.to_dict())
    assert key.stored[0].sha256 not in repr(key)


def test_a_key_ends_when_it_was_said(access: Access) -> None:
    _, token = access.api_keys.add("guest", [], NOW_MS, lifetime_ms=100)
    assert access.api_keys.find(token, NOW_MS + 99)
    assert access.api_keys.find(token, NOW_MS + 100) is None


def test_after_a_rotation_the_old_token_is_good_for_the_overlap_only(access: Access) -> None:
    key, old = access.api_keys.add("guest", ["write:a"], NOW_MS)
    rotated, new = access.api_keys.rotate(key.number, NOW_MS, overlap_ms=100)
    assert rotated.scopes == key.scopes
    assert access.api_keys.find(new, NOW_MS) == access.api_keys.find(old, NOW_MS + 99) == rotated
    assert access.api_keys.find(old, NOW_MS + 100) is None
    _, newest = access.api_keys.rotate(key.number, NOW_MS)
    assert access.api_keys.find(new, NOW_MS) is None
    assert access.api_keys.find(newest, NOW_MS)


def test_a_deleted_key_and_those_of_a_deleted_user_are_gone(access: Access) -> None:
    key, token = access.api_keys.add("guest", [], NOW_MS)
    _, other = access.api_keys.add("guest", [], NOW_MS)
    access.api_keys.delete(key.number)
    assert access.api_keys.find(token, NOW_MS) is None
    access.delete_user("guest", force=True)
    assert access.api_keys.find(other, NOW_MS) is None
    with pytest.raises(NotFound, match="no API key"):
        access.api_keys.get(key.number)


def test_keys_survive_a_restart(tmp_path: Path) -> None:
    with leveret.open(str(tmp_path), **SMALL) as broker:
        with broker.runtime as core:
            keys = Access(core, cost=CHEAP).api_keys
            key, token = keys.add("guest", ["read:*"], NOW_MS, lifetime_ms=10**9)
            _, gone = keys.add("guest", [], NOW_MS)
            keys.delete(gone.split("_")[1])
        broker.flush()
    with leveret.open(str(tmp_path), **SMALL) as broker, broker.runtime as core:
        keys = Access(core, cost=CHEAP).api_keys
        assert keys.find(token, NOW_MS) == key
        assert len(keys) == 1


def test_limits(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "KEYS_MAX", 1)
    with pytest.raises(InvalidArgument, match="label"):
        access.api_keys.add("guest", [], NOW_MS, label="x" * 256)
    with pytest.raises(InvalidArgument, match="lifetime"):
        access.api_keys.add("guest", [], NOW_MS, lifetime_ms=0)
    access.api_keys.add("guest", [], NOW_MS)
    with pytest.raises(TooMany, match="delete some"):
        access.api_keys.add("guest", [], NOW_MS)


@pytest.mark.parametrize(
    "scopes", [["write"], ["write:"], ["fly:orders"], [":x"], [1], 7, ["write:" + "x" * 300], ["read:a"] * 101]
)
def test_scopes_that_mean_nothing_are_refused(scopes: object) -> None:
    with pytest.raises(InvalidArgument):
        parse_scopes(scopes)


@pytest.mark.parametrize(
    ("scope", "verb", "name", "allowed"),
    [
        ("write:orders", "write", "orders", True),
        ("write:orders", "write", "orders2", False),
        ("write:orders", "read", "orders", False),
        ("write:orders.*", "write", "orders.eu.new", True),
        ("write:orders.*", "write", "orders", False),
        ("read:*.eu.*", "read", "a.eu.b", True),
        ("read:*.eu.*", "read", "a.us.b", False),
        ("read:a*b*a", "read", "aba", True),
        ("read:a*a", "read", "a", False),
        ("read:a*ab", "read", "aab", True),
        ("read:orders?", "read", "ordersx", False),
        ("*:orders", "configure", "orders", True),
        ("*:*", "write", "any\nthing", True),
        ("manage", "write", "orders", False),
    ],
)
def test_what_a_scope_covers(scope: str, verb: Verb, name: str, allowed: bool) -> None:
    (parsed,) = parse_scopes(scope)
    assert scope_of(parsed).covers(verb, name, "/", everywhere=False) is allowed


def test_a_pattern_of_many_stars_is_not_slow() -> None:
    assert not scope_of("read:" + "a*" * 140 + "c").covers("read", "a" * 255 + "b", "/", everywhere=False)


def test_a_token_allows_what_both_its_scopes_and_its_user_do(access: Access) -> None:
    orders, other = Resource("queue", "orders"), Resource("queue", "other")
    access.set_permission("guest", "/", "", "orders", ".*")
    token = Identity("guest", scopes=("*:orders",))
    token.check(access.permissions, "/", orders, "write")
    for resource, verb in ((other, "read"), (orders, "configure")):
        with pytest.raises(AccessRefused):
            token.check(access.permissions, "/", resource, verb)  # type: ignore[arg-type]


def test_a_foreign_user_has_the_scopes_and_nothing_else(access: Access) -> None:
    token = Identity("stranger", scopes=("write:orders",), local=False)
    token.check(access.permissions, "/", Resource("queue", "orders"), "write")
    for vhost, verb in (("/", "read"), ("other", "write")):
        with pytest.raises(AccessRefused):
            token.check(access.permissions, vhost, Resource("queue", "orders"), verb)  # type: ignore[arg-type]


def test_tags_need_the_scope_to_manage() -> None:
    tags = frozenset({"administrator"})
    assert tags_within(tags, ("*:*",)) == frozenset()
    check_tag(Identity("a", tags_within(tags, ("manage",))), rule_of("console.use"))
    with pytest.raises(AccessRefused, match="none of the tags"):
        check_tag(Identity("a"), rule_of("operator.run"))
