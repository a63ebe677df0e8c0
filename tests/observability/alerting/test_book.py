"""Rules, receivers and silences: what is refused, what is kept, what is never shown again."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.core.errors import InvalidArgument, NotFound, PreconditionFailed, TooMany
from leveret.observability.alert_rules import RULES, STREAM_RULES
from leveret.observability.alerting import book as books
from leveret.observability.alerting.book import Book
from leveret.observability.alerting.receivers import HIDDEN, Receiver
from leveret.observability.alerting.rules import DEFAULTS, AlertRuleSettings
from leveret.observability.alerting.silences import SILENCE_MS_MAX, Silence

HOOK: dict[str, Any] = {
    "name": "ops",
    "kind": "webhook",
    "url": "https://example.org/s3cret",
    "authorization": "Bearer x",
}
MAIL: dict[str, Any] = {
    "name": "mail",
    "kind": "email",
    "host": "mail.example.org",
    "user": "leveret",
    "password": "pa55word",
    "sender": "broker@example.org",
    "to": ["ops@example.org"],
}
RULE: dict[str, Any] = {"name": "few", "figure": "waiting_max", "limit": 5}


@pytest.fixture
def book() -> Iterator[Book]:
    with leveret.open(clock=leveret.ManualClock()) as broker:
        yield Book(broker.runtime.core)


def silence(name: str, now_ms: int = 0) -> Silence:
    return Silence.begin({"queue": "orders*", "until_ms": now_ms + 1, "why": "we know"}, name, "ada", now_ms)


# Rules


def test_the_rules_of_the_table_are_there_with_their_limits(book: Book) -> None:
    known = {rule.name: (rule.figure, rule.limit, rule.severity) for rule in book.rules()}
    assert known == {rule.name: (rule.figure, rule.limit, rule.severity) for rule in (*RULES, *STREAM_RULES)}


def test_a_default_is_changed_and_comes_back(book: Book) -> None:
    book.put_rule({**book.rule("queue_depth").to_dict(), "limit": 7, "clear": 3, "enabled": False})
    assert (book.rule("queue_depth").limit, book.rule("queue_depth").enabled) == (7, False)
    book.delete_rule("queue_depth")
    assert book.rule("queue_depth") == DEFAULTS["queue_depth"]
    with pytest.raises(PreconditionFailed, match="disable it"):
        book.delete_rule("queue_depth")


def test_a_rule_covers_queues_by_patterns() -> None:
    about = AlertRuleSettings.from_dict({**RULE, "queue": "orders.*", "vhost": "sho?"})
    assert about.covers("shop", "orders.new")
    assert not about.covers("shop", "orders")
    assert not about.covers("/", "orders.new")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": ""}, "has no name"),
        ({"name": "x" * 256}, "255"),
        ({"name": 5}, "one line"),
        ({"figure": "mood"}, "figure"),
        ({"limit": -1}, "limit"),
        ({"limit": float("nan")}, "limit"),
        ({"limit": True}, "limit"),
        ({"limit": "5"}, "limit"),
        ({"clear": 6}, "clear"),
        ({"for_s": 10**9}, "for_s"),
        ({"for_s": 1.5}, "whole"),
        ({"severity": "awful"}, "severity"),
        ({"queue": ""}, "has no queue"),
        ({"queue": "q" * 256}, "255"),
        ({"says": "a\nb"}, "one line"),
        ({"says": "a" * 501}, "500"),
        ({"enabled": 1}, "enabled"),
        ({"colour": "red"}, "'colour'"),
    ],
)
def test_rules_that_make_no_sense_are_refused(book: Book, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        book.put_rule({**RULE, **wrong})


def test_there_are_limits_to_rules_receivers_and_silences(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "RULES_MAX", len(DEFAULTS) + 1)
    monkeypatch.setattr(books, "RECEIVERS_MAX", 1)
    monkeypatch.setattr(books, "SILENCES_MAX", 1)
    tries: list[tuple[Callable[[Any], object], object, object]] = [
        (book.put_rule, RULE, {**RULE, "name": "more"}),
        (book.put_receiver, HOOK, MAIL),
        (book.put_silence, silence("a"), silence("b")),
    ]
    for put, first, second in tries:
        put(first)
        put(first)
        with pytest.raises(TooMany, match="delete some"):
            put(second)


def test_what_is_not_there_cannot_be_deleted(book: Book) -> None:
    for delete in (book.delete_rule, book.delete_receiver, book.delete_silence):
        with pytest.raises(NotFound, match="list them"):
            delete("nothing")


# Receivers


def test_secrets_are_kept_and_not_shown(book: Book) -> None:
    for row in (HOOK, MAIL):
        receiver = book.put_receiver(row)
        for text in (str(receiver.shown()), repr(receiver), str(receiver.exported())):
            assert not any(secret in text for secret in ("s3cret", "Bearer", "pa55word"))
    assert book.receiver("ops").authorization == "Bearer x"
    assert book.receiver("ops").shown()["url"] == HIDDEN
    assert book.receiver("mail").shown()["password"] == HIDDEN


def test_secrets_that_are_left_out_or_hidden_stay(book: Book) -> None:
    book.put_receiver(HOOK)
    book.put_receiver({"name": "ops", "kind": "webhook", "severity_min": "critical"})
    assert (book.receiver("ops").url, book.receiver("ops").severity_min) == (HOOK["url"], "critical")
    shown = {name: value for name, value in book.receiver("ops").shown().items() if name != "place"}
    book.put_receiver({**shown, "severity_min": "info"})
    assert book.receiver("ops").authorization == "Bearer x"
    book.put_receiver({**HOOK, "authorization": ""})
    assert book.receiver("ops").authorization == ""


def test_secrets_do_not_go_to_another_place(book: Book) -> None:
    book.put_receiver(HOOK)
    book.put_receiver({"name": "ops", "kind": "webhook", "url": "https://elsewhere.example.org/"})
    assert book.receiver("ops").authorization == ""
    book.put_receiver(MAIL)
    book.put_receiver({**MAIL, "host": "elsewhere.example.org", "password": HIDDEN})
    assert book.receiver("mail").password == ""
    book.put_receiver({**HOOK, "name": "mail"})
    with pytest.raises(InvalidArgument, match="url"):
        book.put_receiver({"name": "new", "kind": "webhook"})


@pytest.mark.parametrize(
    ("base", "wrong", "says"),
    [
        (HOOK, {"kind": "pigeon"}, "kind"),
        (HOOK, {"url": "ftp://example.org/"}, "https"),
        (HOOK, {"url": "https://"}, "https"),
        (HOOK, {"url": "https://example.org:99999/"}, "cannot be read"),
        (HOOK, {"url": "https://ada:secret@example.org/"}, "authorization"),
        (HOOK, {"url": "https://example.org/" + "x" * 2000}, "2000"),
        (HOOK, {"url": "https://exämple.org/"}, "plain characters"),
        (HOOK, {"url": "https://example.org/a b"}, "plain characters"),
        (HOOK, {"url": "http://example.org/"}, "alerts_plain_remote"),
        (HOOK, {"authorization": "a\r\nHost: b"}, "one line"),
        (HOOK, {"authorization": "ä"}, "header"),
        (HOOK, {"rules": []}, "list"),
        (HOOK, {"rules": ["*"] * 51}, "50"),
        (HOOK, {"repeat_s": 1}, "repeat_s"),
        (HOOK, {"host": "example.org"}, "'host'"),
        (MAIL, {"host": "a b"}, "name or an address"),
        (MAIL, {"port": 0}, "port"),
        (MAIL, {"tls": "maybe"}, "tls"),
        (MAIL, {"tls": "none"}, "alerts_plain_remote"),
        (MAIL, {"to": ["ops@example.org\nBcc: x@example.org"]}, "one line"),
        (MAIL, {"to": ["ops"]}, "no address"),
        (MAIL, {"sender": "Ops <ops@example.org>"}, "no address"),
    ],
)
def test_receivers_that_cannot_be_told_are_refused(
    book: Book, base: dict[str, Any], wrong: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidArgument, match=says) as refused:
        book.put_receiver({**base, **wrong})
    assert "s3cret" not in str(refused.value)


def test_this_machine_and_what_is_allowed_may_be_told_in_clear() -> None:
    for url in ("http://127.0.0.1:80/", "http://localhost/", "http://[::1]/"):
        assert Receiver.from_dict({**HOOK, "url": url}).url == url
    assert Receiver.from_dict({**HOOK, "url": "http://example.org/"}, plain_remote=True).url == "http://example.org/"


# Silences


@pytest.mark.parametrize("until_ms", [999, 1_000, 1_001 + SILENCE_MS_MAX, "soon", None])
def test_a_silence_ends_within_a_year(until_ms: object) -> None:
    with pytest.raises(InvalidArgument, match="until_ms"):
        Silence.begin({"until_ms": until_ms, "why": "x"}, "a", "ada", 1_000)


def test_a_silence_says_why() -> None:
    with pytest.raises(InvalidArgument, match="why"):
        Silence.begin({"until_ms": 2_000}, "a", "ada", 1_000)


def test_a_silence_covers_until_it_ends(book: Book) -> None:
    book.put_silence(silence("a"))
    found = book.silence_of(("deep", "/", "orders.new"))
    assert found is not None
    assert (found.by, found.why) == ("ada", "we know")
    assert book.silence_of(("deep", "/", "mail")) is None
    assert book.over(0) == []
    assert [each.name for each in book.over(1)] == ["a"]
    book.expire(1)
    assert book.silences() == []


# Kept


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    def changed(book: Book) -> tuple[Any, ...]:
        return book.changed_rules(), book.receivers(), book.silences()

    with leveret.open(tmp_path, spare_bytes=0, disk_free_min_bytes=0) as broker:
        with broker.runtime as core:
            book = Book(core)
            book.put_rule({**RULE, "queue": "a*"})
            book.put_rule({**RULE, "queue": "b*", "vhost": "c*"})
            book.put_rule({**RULE, "name": "gone"})
            book.delete_rule("gone")
            book.put_receiver(HOOK)
            book.put_receiver(MAIL)
            book.put_silence(silence("a"))
            before = changed(book)
        broker.flush()
    with leveret.open(tmp_path, spare_bytes=0, disk_free_min_bytes=0) as broker:
        assert changed(Book(broker.runtime.core)) == before
        assert [rule.queue for rule in before[0]] == ["b*"]
