"""Notices that are really sent: to a web server and to a mail server on this machine, in clear and by TLS."""

import ssl
from email.message import EmailMessage
from pathlib import Path

import pytest

from leveret.observability.alerting import payloads
from leveret.observability.alerting.addresses import AddressRefused, allows, connect
from leveret.observability.alerting.engine import RESOLVED, Alert
from leveret.observability.alerting.notifications import Notification
from leveret.observability.alerting.transports import DeliveryFailed, Transports
from tests.observability.alerting.mail_server import alerts, notification
from tests.observability.alerting.sinks import MailSink, WebSink
from tests.server.certificates import Authority

WAYS = Transports("hare")
MAIL = {"kind": "email", "sender": "broker@example.org", "to": ["ops@example.org", "ada@example.org"]}


def mail(sink: MailSink, **fields: object) -> dict[str, object]:
    return {**MAIL, "host": "127.0.0.1", "port": sink.port, **fields}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def served(authority: Authority) -> ssl.SSLContext:
    identity = authority.issue("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.cert, identity.key)
    return context


def trusting(authority: Authority) -> Transports:
    return Transports("hare", tls=lambda: ssl.create_default_context(cafile=str(authority.cert)))


# Webhooks


def test_a_webhook_gets_the_body_that_is_documented() -> None:
    with WebSink() as sink:
        told = notification("orders", url=sink.url, authorization="Bearer open sesame")
        WAYS.send(told._replace(resolved=_ended("mail")))
        post = sink.next()
    assert post.path == "/hooks/s3cret?room=ops"
    assert post.headers["Authorization"] == "Bearer open sesame"
    assert post.headers["Content-Type"] == "application/json"
    facts = {"vhost": "/", "value": 12_345, "worst": 12_345, "since": "2023-11-14T22:13:20Z"}
    assert post.body == {
        "version": 1,
        "status": "firing",
        "receiver": "ops",
        "node": "hare",
        "sent_at": "2023-11-14T22:13:20Z",
        "rule": {
            "name": "deep",
            "figure": "waiting_max",
            "limit": 10_000,
            "unit": "messages",
            "severity": "critical",
            "says": "too many",
        },
        "alerts": [
            {"status": "firing", "queue": "orders", **facts},
            {"status": "resolved", "queue": "mail", **facts},
        ],
        "more": 0,
    }


def _ended(*queues: str) -> tuple[Alert, ...]:
    found = alerts(*queues)
    for alert in found:
        alert.state = RESOLVED
    return found


def test_a_chat_gets_text_in_which_names_mean_nothing() -> None:
    with WebSink() as sink:
        WAYS.send(notification("<!channel> & *co*\n", kind="slack", url=sink.url))
        text = sink.next().body["text"]
    assert "<" not in text
    assert "&lt;!channel&gt; &amp; *co*" in text
    assert len(text.splitlines()) == 3


def test_long_notices_are_cut_and_say_so() -> None:
    names = [f"q{number}" for number in range(payloads.LISTED_MAX + 5)]
    with WebSink() as sink:
        WAYS.send(notification(*names, url=sink.url))
        WAYS.send(notification(*names, kind="slack", url=sink.url))
        body, chat = sink.next().body, sink.next().body
    assert (len(body["alerts"]), body["more"]) == (payloads.LISTED_MAX, 5)
    assert chat["text"].endswith(f"and {len(names) - payloads.SHORT_MAX} more")


def test_a_webhook_by_tls_is_checked_against_the_authorities(authority: Authority) -> None:
    with WebSink(context=served(authority)) as sink:
        trusting(authority).send(notification(url=sink.url))
        assert sink.next().body["status"] == "firing"
        with pytest.raises(DeliveryFailed, match="certificate"):
            WAYS.send(notification(url=sink.url))


@pytest.mark.parametrize(("status", "again"), [(500, True), (503, True), (429, True), (400, False), (404, False)])
def test_what_a_server_refuses_is_tried_again_if_that_may_help(status: int, again: bool) -> None:
    with WebSink(status) as sink, pytest.raises(DeliveryFailed, match=str(status)) as failed:
        WAYS.send(notification(url=sink.url))
    assert failed.value.again is again


def test_nobody_is_led_elsewhere() -> None:
    with WebSink(302) as sink, pytest.raises(DeliveryFailed, match="302"):
        WAYS.send(notification(url=sink.url))


def test_a_server_that_is_not_there_is_named_without_its_secret() -> None:
    with pytest.raises(DeliveryFailed, match="cannot be reached") as failed:
        WAYS.send(notification(url="http://127.0.0.1:9/s3cret"))
    assert failed.value.again
    assert "s3cret" not in str(failed.value)


# Mail


def letter_text(letter: object) -> str:
    assert isinstance(letter, EmailMessage)
    text: str = letter.get_content()
    return text


def test_a_letter_says_what_is_wrong() -> None:
    with MailSink() as sink:
        WAYS.send(notification("orders", "naïve\r\nBcc: eve@example.org", **mail(sink, tls="none")))
        letter = sink.next()
    assert letter["Subject"].startswith("[FIRING 2] critical deep: ")
    assert (letter["From"], letter["To"]) == ("broker@example.org", "ops@example.org, ada@example.org")
    assert letter["Bcc"] is None
    assert "orders in /: 12,345 messages since 2023-11-14T22:13:20Z" in letter_text(letter)
    assert "limit: 10,000 messages" in letter_text(letter)


def test_letters_go_by_starttls_and_with_a_password(authority: Authority) -> None:
    with MailSink(served(authority), "pa55word") as sink:
        trusting(authority).send(notification(**mail(sink, user="leveret", password="pa55word")))
        sink.next()
        with pytest.raises(DeliveryFailed, match="535") as failed:
            trusting(authority).send(notification(**mail(sink, user="leveret", password="wrong")))
        assert "wrong" not in str(failed.value)
        assert not failed.value.again
    assert sink.encrypted == [True]


def test_a_mail_server_without_starttls_gets_no_letter() -> None:
    with MailSink() as sink, pytest.raises(DeliveryFailed, match="STARTTLS"):
        WAYS.send(notification(**mail(sink, user="leveret", password="pa55word")))
    assert sink.letters.empty()


def test_a_mail_server_that_is_not_to_be_trusted_gets_no_letter(authority: Authority) -> None:
    with MailSink(served(authority)) as sink, pytest.raises(DeliveryFailed, match="certificate"):
        WAYS.send(notification(**mail(sink)))
    assert sink.letters.empty()


def test_a_test_says_that_nothing_is_wrong() -> None:
    with MailSink() as sink:
        told: Notification = notification(**mail(sink, tls="none"))._replace(firing=(), test=True)
        WAYS.send(told)
        letter = sink.next()
    assert letter["Subject"] == "[TEST] Leveret can tell you about alerts"
    assert "Nothing is wrong" in letter_text(letter)


# Addresses


@pytest.mark.parametrize(
    ("address", "tls", "plain"),
    [
        ("127.0.0.1", True, True),
        ("::1", True, True),
        ("::ffff:127.0.0.1", True, True),
        ("192.0.2.1", True, False),
        ("10.1.2.3", True, False),
        ("2001:db8::1", True, False),
        ("169.254.169.254", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("fe80::1%eth0", False, False),
        ("224.0.0.1", False, False),
        ("0.0.0.0", False, False),
        ("::", False, False),
    ],
)
def test_what_may_be_connected_to(address: str, tls: bool, plain: bool) -> None:
    assert allows(address, True, False) is tls
    assert allows(address, False, False) is plain
    assert allows(address, False, True) is tls


def test_a_host_that_is_no_name_is_given_up() -> None:
    with pytest.raises(DeliveryFailed) as failed:
        WAYS.send(notification(url=f"https://{'x' * 70}.example/"))
    assert not failed.value.again


def test_a_name_is_looked_at_when_it_is_connected_to() -> None:
    with pytest.raises(AddressRefused, match="must not be connected to"):
        connect("0.0.0.0", 80, 1.0, True, False)
    with pytest.raises(DeliveryFailed, match="must not be connected to") as failed:
        Transports("hare").send(notification(url="https://169.254.169.254/latest/meta-data"))
    assert not failed.value.again
