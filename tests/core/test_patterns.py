"""Patterns from outside: the syntax of RabbitMQ as far as it is linear, a clear refusal of the rest, limits."""

import re
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import InvalidArgument
from leveret.core.patterns import (
    COMPILED_MAX,
    PROGRAM_MAX,
    check_glob,
    checked,
    escape,
    glob_matches,
    like,
    pattern,
    problem_of,
    wildcard_matches,
)

NAMES = ["".join(letters) for count in range(5) for letters in product("amq.", repeat=count)]
NAMES += ["amq.direct", "AMQ.topic", "orders.eu", "orders.us", "orders.", "xamq.", "é", "orders.é", "a)x"]
SAME_AS_PYTHON = [
    "",
    "a",
    "^a",
    "q$",
    "^$",
    "^(amq|orders).*$",
    "(?i)^AMQ",
    "[^a-m]+$",
    r"a{2,3}|\.$",
    r"\d|\.\.",
    "^.$",
    ".*",
    r"^orders\.",
    r"^amq\..*",
    r"^amq\.$",
    r"^orders\.é",
    # Lookaheads after the start
    r"^(?!amq\.).*",
    r"^(?!amq\.)",
    r"(?i)^(?!AMQ\.).*$",
    r"^(?!amq\.|or)(?!\.).+",
    r"^orders\.(?!eu)",
    r"^orders\.(?=u).*$",
    r"^(?=.*a)(?!.*m).*$",
    r"^(?![a-c)]x)(a|m|o)",
    r"^(?!(a|m)\.)(?:a|m)",
    r"^(?!)a",
    r"^((?!am).)*$",
    r"^(?:(?!am|q[.)]).)+$",
]


@pytest.mark.parametrize("text", SAME_AS_PYTHON)
def test_a_pattern_means_what_it_means_elsewhere(text: str) -> None:
    found, expected = pattern(text), re.compile(text)
    assert [name for name in NAMES if found.matches(name)] == [name for name in NAMES if expected.search(name)]


ATOMS = st.sampled_from(["a", "b", ".", r"\.", "[ab]", "[^a]", r"\d", "(?:a|bb)", "(b.)", "é"])
REPEATS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "*?"])
PARTS = st.lists(st.tuples(ATOMS, REPEATS).map("".join), max_size=5).map("".join)
TEXTS = st.builds("{}{}|{}{}".format, st.sampled_from(["", "^"]), PARTS, PARTS, st.sampled_from(["", "$"]))
LOOKS = st.builds("^{}(?{}{}){}".format, st.sampled_from(["", "a", r"b\."]), st.sampled_from("!="), PARTS, PARTS)


@given(TEXTS | PARTS | LOOKS, st.lists(st.text("ab.1é", max_size=12), max_size=10))
def test_any_pattern_means_what_it_means_elsewhere(text: str, names: list[str]) -> None:
    found, expected = pattern(text), re.compile(text)
    for name in names:
        assert found.matches(name) == (expected.search(name) is not None), name


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("^orders$", "orders\n", False),
        (r"^orders\z", "orders\n", False),
        ("orders", "orders\n", True),
        ("^.*$", "a\nb", False),
        ("^[[:alpha:]]+$", "abc", True),
        ("^[[:alpha:]]+$", "ab1", False),
        (r"^\Qa.b\E$", "a.b", True),
        (r"^\Qa.b\E$", "axb", False),
        ("^.$", "é", True),
        ("(?i)^É$", "é", True),
        (r"^\w$", "é", False),
        (r"^\x{e9}$", "é", True),
        # Bytes that are no UTF-8
        ("^a..$", "a\udcff\udcfe", True),
        ("^a\\..*$", "a.\udcff", True),
        ("^a$", "a\udcff", False),
        (r"^a\?$", "a\udcff", False),
        (r"^(?!a)", "a\udcff", False),
        ("^é", "é\udcff", True),
    ],
)
def test_lines_classes_and_characters(text: str, name: str, expected: bool) -> None:
    assert pattern(text).matches(name) is expected


def test_case_may_be_ignored() -> None:
    assert pattern("^ORDERS|É$", ignore_case=True).matches("orders")
    assert pattern("^ORDERS|É$", ignore_case=True).matches("é")
    assert not pattern("^ORDERS").matches("orders")


EXPONENTIAL = ["^p.(a+)+$", "(x+x+)+y", "(a|a)*b", ".?" * 20 + "a" * 20 + "!", "(.*a){20}b", "^(a?){250}a{250}!"]


@pytest.mark.parametrize("text", EXPONENTIAL)
def test_time_does_not_grow_exponentially(text: str) -> None:
    """An engine that backtracks takes longer for one of these than the test may run."""
    for name in ("p" + "a" * 253 + "c", "x" * 255, "a" * 255):
        assert not pattern(text).matches(name)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", r"missing \)"),
        ("[a", r"missing \]"),
        ("*a", "no argument for repetition"),
        ("[[:nope:]]", "invalid character class"),
        ("(?!a)b", r"negative lookahead, which can stand after the start only, as in \^\(\?!amq"),
        ("^a.(?!b)", "negative lookahead"),
        ("^(a(?!b))", "negative lookahead"),
        ("^ab?(?!c)", "negative lookahead"),
        ("^(?!a(?!b))c", "negative lookahead"),
        ("(?m)^(?!a)b", "negative lookahead"),
        ("^((?!a$).)*$", "negative lookahead"),
        ("^((?!a*).)*$", "negative lookahead"),
        ("^((?!a).)*", "negative lookahead"),
        ("^(?!a", "negative lookahead"),
        ("^(?!a)b|c", "alternatives after a lookahead; put them into a group"),
        ("a(?=b)", "lookahead, which can stand after the start only"),
        ("(?<=a)b", "lookbehind; write what comes before"),
        ("(?<!a)b", "lookbehind"),
        (r"(a)\1", "reference to a group; write the alternatives out"),
        (r"(?P<n>a)(?P=n)", "reference to a group"),
        ("a++", "possessive repetition; leave its second sign out"),
        ("a*+b", "possessive"),
        ("(?>a)", r"atomic group; write \(\?:...\)"),
        ("(?#x)a", "comment; leave it out"),
        ("(?x) a", "flag x"),
        ("(?R)", "recursion"),
        (r"a\Z", r"\\Z; write \$"),
        (r"\u20ac", r"write the character, or \\x\{20AC\}"),
        (r"\h", r"write \[ \\t\]"),
        ("(a{1000}){1000}", "repeats more than 1,000 times in all"),
        ("a{1001}", "repeats more than 1,000 times in all"),
        (r"\pL{10}", f"more than {PROGRAM_MAX} steps"),
        ("a" * (PROGRAM_MAX + 1), f"more than {PROGRAM_MAX} steps"),
        (r"^" + r"(?!\pL)" * 10, f"more than {PROGRAM_MAX} steps"),
        ("a\ud800", "not valid Unicode"),
    ],
)
def test_what_cannot_be_used_is_refused_and_why(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        pattern(text)
    assert problem_of(text) is not None


@given(st.text(max_size=30) | st.text("()[]{}?!=^$.*+|\\ab:<>PQE1", max_size=30))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    problem = problem_of(text)
    if problem is None:
        pattern(text).matches("amq.orders")
    else:
        assert len(problem) < 1_000


def test_a_pattern_is_text_of_bounded_length() -> None:
    assert checked("it", "a", 1) == "a"
    with pytest.raises(InvalidArgument, match="it has 2 characters, the limit is 1: shorten it"):
        checked("it", "aa", 1)
    with pytest.raises(InvalidArgument, match="as a string"):
        checked("it", None, 1)
    assert problem_of(None) == "the pattern is not a string"
    assert problem_of(".*") is None


def test_compiled_patterns_do_not_stay_for_ever() -> None:
    for number in range(COMPILED_MAX + 10):
        pattern(f"^{number}$")
    assert pattern.cache_info().currsize == COMPILED_MAX


@given(st.text())
def test_what_is_escaped_stands_for_itself(text: str) -> None:
    found = pattern(f"^{escape(text)}$")
    assert found.matches(text)
    assert not found.matches(text + "x")


# Wildcards

WILD = st.text("ab*?", max_size=8)
GLOBS = st.text("ab*?[]!^-\\.", max_size=8)
WILD_NAMES = st.text("ab*?[]!^-\\.\n", max_size=6)


@given(WILD, WILD_NAMES)
def test_wildcards(text: str, name: str) -> None:
    assert like(text, name) == fnmatchcase(name, text)
    if "?" not in text:
        assert wildcard_matches(text, name) == fnmatchcase(name, text)


@given(GLOBS, WILD_NAMES)
def test_globs(text: str, name: str) -> None:
    try:
        check_glob(text)
    except InvalidArgument:
        assert not glob_matches(text, name)
    else:
        assert glob_matches(text, name) == fnmatchcase(name, text)


@pytest.mark.parametrize("text", ["*a" * 127 + "*b", "*?" * 127 + "b", "*a?" * 85 + "b", "*[ab]" * 40 + "c"])
def test_the_time_of_wildcards_does_not_grow_exponentially(text: str) -> None:
    matches: Any = glob_matches
    assert not matches(text, "a" * 255)


def test_the_brackets_of_a_wildcard_are_brackets() -> None:
    assert like("a[b]?", "a[b]c")
    assert not like("a[b]", "ab")
    assert wildcard_matches("a?*", "a?b")
    assert not wildcard_matches("a?*", "abc")
