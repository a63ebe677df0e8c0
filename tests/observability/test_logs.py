import io
import json
import logging
from collections.abc import Iterator

import pytest

from leveret.observability.logs import (
    AROUND,
    HIDDEN,
    LIMITED_S,
    VALUE_CHARACTERS_MAX,
    LimitedEvent,
    Log,
    start_logging,
    stop_logging,
)


@pytest.fixture
def text() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = start_logging("info", "text", stream)
    yield stream
    stop_logging(handler)


@pytest.fixture
def objects() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = start_logging("info", "json", stream)
    yield stream
    stop_logging(handler)


def test_a_line_for_people_has_time_level_event_and_fields(text: io.StringIO) -> None:
    Log("amqp").info("connection opened", peer="127.0.0.1:40000", user="guest", channels=2, vhost="my vhost", name=None)
    time, level, rest = text.getvalue().split(maxsplit=2)
    assert (len(time), time[-1], level) == (24, "Z", "INFO")
    assert rest == 'connection opened peer=127.0.0.1:40000 user=guest channels=2 vhost="my vhost"\n'


def test_a_line_for_programs_is_one_json_object(objects: io.StringIO) -> None:
    Log("amqp").warning("login refused", peer="::1", tls=False, delay_ms=1_000, reason=None)
    line = json.loads(objects.getvalue())
    time = line.pop("time")
    assert time.endswith("Z")
    assert line == {
        "level": "warning",
        "event": "login refused",
        "peer": "::1",
        "tls": False,
        "delay_ms": 1_000,
        "reason": None,
    }


@pytest.mark.parametrize(
    "sent", ["a\nERROR forged", "a\r\nb", "\x1b[2J", 'a" level="error', "a b=c", "\u2028", "\ud800"]
)
def test_what_a_client_sent_cannot_forge_a_line(text: io.StringIO, sent: str) -> None:
    Log("amqp").info("login refused", user=sent)
    (line,) = text.getvalue().splitlines()
    _, value = line.split("user=")
    assert json.loads(value) == sent
    assert line.isascii()
    assert line.isprintable()


def test_what_a_client_sent_cannot_fill_the_disk(text: io.StringIO) -> None:
    Log("amqp").info("login refused", user="x" * 100_000)
    _, value = text.getvalue().split("user=")
    assert len(value.rstrip()) == VALUE_CHARACTERS_MAX
    assert value.endswith("...\n")


@pytest.mark.parametrize("name", ["password", "default_password", "client_secret", "token", "response", "private_key"])
def test_secrets_are_not_written(text: io.StringIO, name: str) -> None:
    Log("amqp").info("anything", **{name: "hush"})
    assert "hush" not in text.getvalue()
    assert HIDDEN in text.getvalue()


def test_an_error_says_on_one_line_where_it_was_raised(text: io.StringIO) -> None:
    try:
        raise KeyError("broken")
    except KeyError as error:
        Log("server").error("handler failed", error)
    (line,) = text.getvalue().splitlines()
    assert "Traceback (most recent call last)" in line
    assert "test_an_error_says" in line
    assert "KeyError: 'broken'" in line


def test_less_than_the_level_is_not_written(text: io.StringIO) -> None:
    Log("amqp").debug("frame")
    assert text.getvalue() == ""


def test_an_announcement_is_written_whatever_the_level(objects: io.StringIO) -> None:
    logging.getLogger("leveret").setLevel("ERROR")
    Log("server").announce("ready", amqp="127.0.0.1:5672")
    line = json.loads(objects.getvalue())
    assert (line["level"], line["event"], line["amqp"]) == ("info", "ready", "127.0.0.1:5672")


def test_what_libraries_log_has_the_same_form(objects: io.StringIO) -> None:
    logging.getLogger("asyncio").warning("slow %s", "callback")
    assert json.loads(objects.getvalue())["event"] == "slow callback"


def test_a_field_cannot_take_the_place_of_the_event(objects: io.StringIO) -> None:
    Log("amqp").info("connection opened", time="never", level="fatal")
    line = json.loads(objects.getvalue())
    assert (line["level"], line["event"]) == ("info", "connection opened")
    assert line["time"] != "never"


def test_what_happens_around_an_event_is_part_of_it(objects: io.StringIO) -> None:
    outside = AROUND.set(lambda: {"request": "r1", "trace_id": "t1"})
    Log("http").info("login refused", peer="::1")
    AROUND.reset(outside)
    Log("http").info("login refused", peer="::1")
    first, second = map(json.loads, objects.getvalue().splitlines())
    assert (first["peer"], first["request"], first["trace_id"]) == ("::1", "r1", "t1")
    assert second.keys() == {"time", "level", "event", "peer"}


def test_an_event_that_clients_cause_at_will_is_a_line_a_second_with_the_number_of_others() -> None:
    now_s, written = [10.0], list[dict[str, object]]()
    event = LimitedEvent(written.append, lambda: now_s[0])
    for number in range(5):
        event.note(number=number)
    assert written == [{"number": 0}]
    now_s[0] += LIMITED_S
    event.note(number=5)
    assert written[1:] == [{"number": 5, "suppressed": 4}]
    event.note(number=6)
    event.flush()
    assert len(written) == 2
    now_s[0] += LIMITED_S
    LimitedEvent.flush_all()
    LimitedEvent.flush_all()
    assert written[2:] == [{"number": 6}]
    assert event.count == 7


def test_a_limited_event_has_its_level_and_fields(text: io.StringIO) -> None:
    event = Log("net").limited("connection refused", logging.ERROR, listener="amqp")
    for _ in range(3):
        event.note(peer="::1")
    (line,) = text.getvalue().splitlines()
    assert line.split(maxsplit=1)[1] == "ERROR   connection refused listener=amqp peer=::1"
