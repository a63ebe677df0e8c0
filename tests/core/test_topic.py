"""Topic patterns: the trie against the rules, the seeds' examples and a matcher by brute force."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.exchanges.topic import TopicExchange, words_of


@dataclass(frozen=True)
class Queue:
    name: str


def matched(patterns: Sequence[str], key: str) -> list[str]:
    exchange = TopicExchange("t", "topic")
    for pattern in patterns:
        exchange.bind(Queue(pattern), pattern)
    return [queue.name for queue in exchange.matches(key)]


def brute(pattern: Sequence[str], words: Sequence[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(brute(pattern[1:], words[taken:]) for taken in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and brute(pattern[1:], words[1:])


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("order.us.created", "order.us.created", True),
        ("order.*.created", "order.us.created", True),
        ("order.#", "order.us.created", True),
        ("#.created", "order.us.created", True),
        ("order.eu.created", "order.us.created", False),
        ("order.*", "order.us.created", False),
        ("orders.#", "orders", True),
        ("#.x", "x", True),
        ("#.b", "a.b.c.b", True),
        ("#.b", "a.b.c", False),
        ("#.b.#", "a.b.c", True),
        ("#", "", True),
        ("*", "", False),
        ("", "", True),
        ("", "a", False),
        ("*", "a", True),
        ("a.*.b", "a..b", True),
        ("a.b", "a..b", False),
        ("a.*", "a.", True),
        ("*.*", ".", True),
        ("#.#", "", True),
        ("*.#", "", False),
        ("a.#.*", "a", False),
        ("a.#.*", "a.b", True),
        ("a", "A", False),
        ("a*", "ab", False),
        ("*", "#", True),
        ("a", "*", False),
        ("a", "#", False),
    ],
)
def test_pattern(pattern: str, key: str, expected: bool) -> None:
    assert (matched([pattern], key) == [pattern]) is expected


def test_several_patterns_match_in_binding_order() -> None:
    patterns = ["#", "*.urgent", "orders.new", "orders.*"]
    assert matched(patterns, "orders.new") == ["#", "orders.new", "orders.*"]
    assert matched(patterns, "orders.urgent") == ["#", "*.urgent", "orders.*"]


WORDS = st.sampled_from(["a", "b", "", "*", "#"])
PATTERNS = st.lists(st.lists(WORDS, max_size=6).map(".".join), max_size=8, unique=True)
KEYS = st.lists(st.sampled_from(["a", "b", "c", "", "*", "#"]), max_size=7).map(".".join)


@given(PATTERNS, KEYS)
def test_the_trie_equals_brute_force(patterns: list[str], key: str) -> None:
    assert matched(patterns, key) == [each for each in patterns if brute(words_of(each), words_of(key))]


@given(PATTERNS, KEYS, st.data())
def test_removal_leaves_what_was_never_bound(patterns: list[str], key: str, data: st.DataObject) -> None:
    removed = data.draw(st.lists(st.sampled_from(patterns), unique=True)) if patterns else []
    kept = [pattern for pattern in patterns if pattern not in removed]
    exchange = TopicExchange("t", "topic")
    for pattern in patterns:
        exchange.bind(Queue(pattern), pattern)
    for pattern in removed:
        exchange.unbind(Queue(pattern), pattern)
    assert [queue.name for queue in exchange.matches(key)] == matched(kept, key)


def test_removal_prunes_the_trie() -> None:
    exchange = TopicExchange("t", "topic")
    exchange.bind(Queue("short"), "a.b")
    exchange.bind(Queue("long"), "a.b.#.*.c")
    exchange.unbind(Queue("long"), "a.b.#.*.c")
    assert exchange._root.children["a"].children["b"].children == {}
    exchange.unbind(Queue("short"), "a.b")
    assert exchange._root.children == {}


def test_many_hashes_take_no_exponential_time() -> None:
    pattern = ".".join(["#", "a"] * 60)
    assert matched([pattern], ".".join(["a"] * 120)) == [pattern]
    assert matched([pattern], ".".join(["a"] * 127 + ["b"])) == []
