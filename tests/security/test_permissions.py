"""Permissions: patterns, topics, virtual hosts and the needs of every verb."""

import json
import re
from collections.abc import Mapping
from itertools import product
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import AccessRefused, InvalidArgument, NotFound, TooMany
from leveret.core.names import NAME_BYTES_MAX
from leveret.operations.registry import OPERATIONS, rule_of
from leveret.security import permissions as module
from leveret.security.authorisation import Role, authorise
from leveret.security.identity import Identity
from leveret.security.permissions import (
    EXPANDED_CHARS_MAX,
    PATTERN_CHARS_MAX,
    Access,
    Permission,
    Permissions,
    Resource,
    TopicPermission,
)

ACCESSES: tuple[Access, ...] = ("configure", "write", "read")
NAMES: dict[Role, str] = {"queue": "q", "exchange": "x", "source": "s", "destination": "d"}
DEAD: dict[Role, str] = {**NAMES, "dead_letter_exchange": "dead"}
DEAD_QUEUE: dict[Role, str] = {**NAMES, "dead_letter_queue": "graves"}
ALTERNATE: dict[Role, str] = {**NAMES, "alternate_exchange": "other"}

# By verb and names: which access to which name is needed, and nothing else. Written out a second time on purpose.
MATRIX: list[tuple[str, dict[Role, str], set[tuple[Access, str]]]] = [
    ("exchange.declare", NAMES, {("configure", "x")}),
    ("exchange.declare", ALTERNATE, {("configure", "x"), ("read", "x"), ("write", "other")}),
    ("exchange.declare-passive", NAMES, set()),
    ("exchange.delete", NAMES, {("configure", "x")}),
    ("exchange.bind", NAMES, {("write", "d"), ("read", "s")}),
    ("exchange.unbind", NAMES, {("write", "d"), ("read", "s")}),
    ("queue.declare", NAMES, {("configure", "q")}),
    ("queue.declare", DEAD, {("configure", "q"), ("read", "q"), ("write", "dead")}),
    ("queue.declare-passive", NAMES, set()),
    ("queue.delete", NAMES, {("configure", "q")}),
    ("queue.bind", NAMES, {("write", "q"), ("read", "x")}),
    ("queue.unbind", NAMES, {("write", "q"), ("read", "x")}),
    ("queue.purge", NAMES, {("read", "q")}),
    ("basic.publish", NAMES, {("write", "x")}),
    ("basic.get", NAMES, {("read", "q")}),
    ("basic.consume", NAMES, {("read", "q")}),
    ("basic.ack", NAMES, set()),
    ("basic.nack", NAMES, set()),
    ("basic.reject", NAMES, set()),
    ("basic.recover", NAMES, set()),
    ("basic.cancel", NAMES, set()),
    ("connection.open", NAMES, set()),
    ("exchange.look", NAMES, {("read", "x")}),
    ("queue.declare", DEAD_QUEUE, {("configure", "q"), ("read", "q"), ("write", "graves")}),
    ("queue.update", NAMES, {("configure", "q")}),
    ("queue.update", DEAD, {("configure", "q"), ("read", "q"), ("write", "dead")}),
    ("queue.update", DEAD_QUEUE, {("configure", "q"), ("read", "q"), ("write", "graves")}),
    ("queue.look", NAMES, {("read", "q")}),
    ("queue.pause", NAMES, {("configure", "q")}),
    ("queue.grant", NAMES, {("configure", "q")}),
    ("queue.tag", NAMES, {("configure", "q")}),
    ("queue.send", NAMES, {("write", "q")}),
    ("queue.settle", NAMES, {("read", "q")}),
    ("queue.browse", NAMES, {("read", "q")}),
    ("queue.discard", NAMES, {("configure", "q")}),
    ("queue.redrive", NAMES, {("read", "q")}),
    ("queue.redrive", {**NAMES, "destination_queue": "other"}, {("read", "q"), ("write", "other")}),
    ("queue.reserve", NAMES, {("read", "q")}),
    ("stream.append", NAMES, {("write", "q")}),
    ("stream.read", NAMES, {("read", "q")}),
    ("group.join", NAMES, {("read", "q")}),
    ("group.change", NAMES, {("configure", "q")}),
    ("ingest.stage", NAMES, set()),
    ("ingest.list", NAMES, set()),
    ("ingest.forget", NAMES, set()),
    ("exchange.list", NAMES, set()),
    ("queue.list", NAMES, set()),
    ("stream.list", NAMES, set()),
    ("queue.get", NAMES, {("read", "q")}),
    ("queue.list-moves", NAMES, {("read", "q")}),
    ("queue.list-moves", {**NAMES, "destination_queue": "other"}, {("read", "q"), ("write", "other")}),
]
TOPIC_MATRIX: list[tuple[str, Literal["write", "read"], str]] = [
    ("basic.publish", "write", "x"),
    ("queue.bind", "read", "x"),
    ("queue.unbind", "read", "x"),
    ("exchange.bind", "read", "s"),
    ("exchange.unbind", "read", "s"),
]
GRANTS = [frozenset(pair for pair, on in zip(ACCESSES, bits, strict=True) if on) for bits in product((0, 1), repeat=3)]


def of_ada(patterns: Mapping[Any, Any]) -> Permission:
    """A permission of ada in /."""
    return Permission("ada", "/", **patterns)


def granted(accesses: frozenset[Access], pattern: str = ".*") -> Permissions:
    """Permissions of ada in / with one pattern for these accesses."""
    permissions = Permissions()
    permissions.put(of_ada(dict.fromkeys(accesses, pattern)))
    return permissions


def allowed(permissions: Permissions, verb: str, names: dict[Role, str], key: str | None = None) -> bool:
    """Whether ada may."""
    try:
        authorise(permissions, Identity("ada"), rule_of(verb), "/", names, () if key is None else (key,))
    except AccessRefused:
        return False
    return True


def test_the_matrices_know_every_verb() -> None:
    by_rights = {
        name
        for name, each in OPERATIONS.items()
        if each.rule.tag is None and each.rule.login and not each.rule.any_right
    }
    assert {verb for verb, _, _ in MATRIX} == by_rights
    assert {verb for verb, _, _ in TOPIC_MATRIX} == {name for name, each in OPERATIONS.items() if each.rule.keys}


@pytest.mark.parametrize("accesses", GRANTS, ids=lambda accesses: "+".join(sorted(accesses)) or "none")
@pytest.mark.parametrize(("verb", "names", "needs"), MATRIX)
def test_every_verb_with_every_set_of_accesses(
    verb: str, names: dict[Role, str], needs: set[tuple[Access, str]], accesses: frozenset[Access]
) -> None:
    expected = {access for access, _ in needs} <= accesses
    assert allowed(granted(accesses), verb, names) == expected


@pytest.mark.parametrize(("verb", "names", "needs"), MATRIX)
def test_each_verb_asks_for_the_right_name(verb: str, names: dict[Role, str], needs: set[tuple[Access, str]]) -> None:
    exact = {access: "^(" + "|".join(name for each, name in needs if each == access) + ")$" for access, _ in needs}
    permissions = Permissions()
    permissions.put(of_ada(exact))
    assert allowed(permissions, verb, names)
    for access, name in needs:
        permissions.put(of_ada({**exact, access: f"^(?!{name}$)"}))
        assert not allowed(permissions, verb, names), f"{access} on {name} was not asked for"


@pytest.mark.parametrize(("verb", "names", "needs"), MATRIX)
def test_no_verb_works_in_a_vhost_without_an_entry(
    verb: str, names: dict[Role, str], needs: set[tuple[Access, str]]
) -> None:
    with pytest.raises(AccessRefused, match="access to vhost 'other' refused for user 'ada'"):
        authorise(granted(frozenset(ACCESSES)), Identity("ada"), rule_of(verb), "other", names)


@pytest.mark.parametrize(("verb", "access", "exchange"), TOPIC_MATRIX)
def test_keys_are_checked_where_the_exchange_has_an_entry(
    verb: str, access: Literal["write", "read"], exchange: str
) -> None:
    permissions = granted(frozenset(ACCESSES))
    assert allowed(permissions, verb, NAMES, "any.key"), "without an entry every key is allowed"
    mine: dict[str, Any] = {access: "^mine\\."}
    permissions.put_topic(TopicPermission("ada", "/", exchange, **mine))
    assert allowed(permissions, verb, NAMES, "mine.key")
    assert not allowed(permissions, verb, NAMES, "any.mine.key")
    assert allowed(permissions, verb, NAMES, None), "it is not a topic exchange"


def test_an_allowed_key_does_not_open_a_refused_exchange() -> None:
    permissions = granted(frozenset(("read",)))
    permissions.put_topic(TopicPermission("ada", "/", "x", write=".*"))
    assert not allowed(permissions, "basic.publish", NAMES, "key")


def test_unknown_verbs_are_refused_to_everybody() -> None:
    with pytest.raises(AccessRefused, match="not in the table"):
        authorise(granted(frozenset(ACCESSES)), Identity("ada"), rule_of("queue.burn"), "/", NAMES)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("order", "my-orders", True),
        ("^order", "my-orders", False),
        ("^orders$", "orders", True),
        ("^orders$", "orders2", False),
        (".*", "", True),
        (".*", "anything", True),
        ("", "q", False),
        ("", "", False),
        ("^$", "q", False),
        ("^$", "", False),
        ("^orders$", "orders\n", False),
        (".*", "orders\n", True),
        ("^(amq\\.gen.*|amq\\.default)$", "amq.gen-1", True),
    ],
)
def test_patterns_are_searched_and_empty_ones_match_nothing(pattern: str, name: str, expected: bool) -> None:
    assert Permission("ada", "/", read=pattern).allows("read", name) == expected


@given(name=st.text(max_size=60), other=st.text(max_size=60))
def test_an_anchored_name_allows_that_name_only(name: str, other: str) -> None:
    permission = Permission("ada", "/", read=f"^{re.escape(name)}$")
    assert permission.allows("read", name) == (name != "")
    assert not permission.allows("read", other) or other == name
    assert not permission.allows("write", name)


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize(("user", "vhost"), [("eve", "/"), ("ada", "other"), ("", "")])
def test_who_has_no_entry_has_no_access(user: str, vhost: str, access: Access) -> None:
    with pytest.raises(AccessRefused, match=f"{access} access to queue 'q'"):
        granted(frozenset(ACCESSES)).check(user, vhost, Resource("queue", "q"), access)


def test_the_exchange_without_a_name_is_called_amq_default() -> None:
    permissions = granted(frozenset(("write",)), "^amq\\.default$")
    permissions.check("ada", "/", Resource("exchange", ""), "write")
    with pytest.raises(AccessRefused, match="write access to queue '' in vhost '/' refused for user 'ada'"):
        permissions.check("ada", "/", Resource("queue", ""), "write")


def test_variables_in_topic_patterns_are_names() -> None:
    permission = TopicPermission("ada", "shop", "x", write="^{username}\\.{vhost}\\.", read="^{client_id}$")
    assert permission.allows("write", "ada.shop.orders")
    assert not permission.allows("write", "eve.shop.orders")
    assert not permission.allows("read", "ada")


def test_an_escaped_brace_is_no_variable() -> None:
    permission = TopicPermission("tom", "/", "x", write="^\\{username}$")
    assert permission.allows("write", "{username}")
    assert not permission.allows("write", "\tom")


any_name = st.text(min_size=1, max_size=30) | st.text(st.sampled_from(".*+?[](){}|\\^$-vhostusername"), min_size=1)


@given(user=any_name, vhost=any_name, other=any_name)
def test_names_never_act_as_patterns(user: str, vhost: str, other: str) -> None:
    permission = TopicPermission(user[:30], vhost[:30], "x", write="^{username}:{vhost}:k$", read="^[{username}]$")
    assert permission.allows("write", f"{user[:30]}:{vhost[:30]}:k")
    assert not permission.allows("write", f"{other}:{vhost[:30]}:k") or other == user[:30]
    assert all(permission.allows("read", letter) for letter in user[:30] if letter != "\n")


@given(st.text(max_size=40))
def test_every_pattern_is_compiled_or_refused(pattern: str) -> None:
    try:
        permission = Permission("ada", "/", read=pattern)
    except InvalidArgument:
        return
    assert Permission.from_dict(json.loads(json.dumps(permission.to_dict()))) == permission


def test_a_topic_permission_survives_the_journal() -> None:
    permission = TopicPermission("ada", "/", "x", write="^{username}", read="")
    assert TopicPermission.from_dict(json.loads(json.dumps(permission.to_dict()))) == permission


@pytest.mark.parametrize("pattern", ["(", "*", "[[:nope:]]+", "(?!a)", "a++"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="the pattern"):
        Permission("ada", "/", configure=pattern)
    with pytest.raises(InvalidArgument, match="the pattern"):
        TopicPermission("ada", "/", "x", write=pattern)


def test_a_pattern_is_text() -> None:
    given: Any = None
    with pytest.raises(InvalidArgument, match="as a string"):
        Permission("ada", "/", read=given)
    with pytest.raises(InvalidArgument, match="as a string"):
        TopicPermission("ada", "/", "x", read=given)


def test_a_stored_pattern_that_cannot_be_used_allows_nothing() -> None:
    stored = {"user": "ada", "vhost": "/", "configure": ".*", "write": "(?<!a)b", "read": "^$"}
    permission = Permission.from_dict(stored)
    assert permission.allows("configure", "b")
    assert not permission.allows("write", "b")
    assert not permission.allows("read", "b")
    assert permission.to_dict() == stored
    assert "lookbehind" in permission.shown()["problem"]
    topic = TopicPermission.from_dict({"user": "ada", "vhost": "/", "exchange": "x", "write": "({username})\\1"})
    assert not topic.allows("write", "adaada")
    assert "reference" in topic.shown()["problem"]


def test_the_length_of_a_pattern_is_limited() -> None:
    Permission("ada", "/", read="x" * PATTERN_CHARS_MAX)
    with pytest.raises(InvalidArgument, match="shorten it"):
        Permission("ada", "/", read="x" * (PATTERN_CHARS_MAX + 1))
    with pytest.raises(InvalidArgument, match="shorten it"):
        TopicPermission("ada", "/", "x", read="x" * (PATTERN_CHARS_MAX + 1))


def test_the_length_of_a_pattern_with_names_in_it_is_limited() -> None:
    with pytest.raises(InvalidArgument, match=f"the limit is {EXPANDED_CHARS_MAX}"):
        TopicPermission("u" * NAME_BYTES_MAX, "/", "x", read="{username}" * 20)


@pytest.mark.parametrize(("user", "vhost"), [("u" * (NAME_BYTES_MAX + 1), "/"), ("ada", "v" * (NAME_BYTES_MAX + 1))])
def test_the_length_of_names_is_limited(user: str, vhost: str) -> None:
    with pytest.raises(InvalidArgument, match="shorten it"):
        Permission(user, vhost)
    with pytest.raises(InvalidArgument, match="shorten it"):
        TopicPermission(user, vhost, "x")


def test_the_number_of_permissions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERMISSIONS_MAX", 1)
    permissions = granted(frozenset())
    permissions.put(Permission("ada", "/", read=".*"))
    with pytest.raises(TooMany, match="remove some"):
        permissions.put(Permission("eve", "/"))


def test_the_number_of_topic_permissions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERMISSIONS_MAX", 1)
    permissions = Permissions()
    permissions.put_topic(TopicPermission("ada", "/", "x"))
    permissions.put_topic(TopicPermission("ada", "/", "x", write=".*"))
    with pytest.raises(TooMany, match="remove some"):
        permissions.put_topic(TopicPermission("ada", "/", "y"))


def test_an_entry_that_allows_nothing_still_opens_the_vhost() -> None:
    permissions = granted(frozenset())
    assert permissions.may_enter("ada", "/")
    assert not permissions.may_enter("ada", "other")
    assert not permissions.may_enter("eve", "/")


def test_dropped_permissions_are_gone() -> None:
    permissions = granted(frozenset(ACCESSES))
    assert permissions.drop("ada", "/").read == ".*"
    assert not permissions.may_enter("ada", "/")
    with pytest.raises(NotFound, match="nothing to clear"):
        permissions.drop("ada", "/")


@pytest.mark.parametrize(("exchange", "left"), [("x", ["y"]), (None, []), ("z", ["x", "y"])])
def test_topic_permissions_are_dropped_one_by_one_or_all(exchange: str | None, left: list[str]) -> None:
    permissions = Permissions()
    for each in ("x", "y"):
        permissions.put_topic(TopicPermission("ada", "/", each))
    permissions.put_topic(TopicPermission("eve", "/", "x"))
    dropped = permissions.drop_topic("ada", "/", exchange)
    assert [row.exchange for row in permissions.topics() if row.user == "ada"] == left
    assert len(dropped) == 2 - len(left)
    assert [row.exchange for row in permissions.topics() if row.user == "eve"] == ["x"]


def crowd() -> Permissions:
    """Two users in two virtual hosts, with topics."""
    permissions = Permissions()
    for user, vhost in product(("ada", "eve"), ("/", "shop")):
        permissions.put(Permission(user, vhost))
        permissions.put_topic(TopicPermission(user, vhost, "x"))
    return permissions


def test_a_new_user_does_not_inherit_from_one_who_was_deleted() -> None:
    permissions = crowd()
    permissions.drop_user("ada")
    assert {row.user for row in permissions} == {row.user for row in permissions.topics()} == {"eve"}


def test_a_new_vhost_does_not_inherit_from_one_that_was_deleted() -> None:
    permissions = crowd()
    permissions.drop_vhost("shop")
    assert {row.vhost for row in permissions} == {row.vhost for row in permissions.topics()} == {"/"}
