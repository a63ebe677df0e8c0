"""Commands on messages, called as functions against a real server."""

import io
import json
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from leveret.cli import consume, main, tail
from leveret.cli.publish import batches
from leveret.client.broker import connect
from leveret.client.message import RemoteMessage
from leveret.client.queue import RemoteQueue
from tests.server_process import ServerProcess

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def uses_server(asked: ServerProcess) -> None:
    """Every command here asks the server."""


def leveret(line: str) -> int:
    """Run one command line."""
    return main.main(shlex.split(line))


def objects(capsys: Captured) -> list[dict[str, Any]]:
    """What was printed, an object in each line."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def type_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Let a command read this from its standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def made(name: str, *settings: str) -> str:
    """A queue."""
    assert leveret(f"queues declare {name} {' '.join(settings)}") == 0
    return name


def test_a_message_is_published_looked_at_and_consumed(capsys: Captured) -> None:
    made("hares", "max_priority=10")
    assert leveret("publish hares 'a hare' --header ears=2 --header name=true-ish --priority 3 --content-type a/b") == 0
    assert leveret("peek hares --json") == 0
    assert capsys.readouterr().out.splitlines()[1] == "1 message sent"
    assert leveret("publish hares second --json") == 0
    assert json.loads(capsys.readouterr().out)["sent"] == 1
    assert leveret("consume hares --json --wait 0.1") == 0
    first, second = objects(capsys)
    assert first["headers"] == {"ears": 2, "name": "true-ish"}
    assert (first["body"], first["priority"], first["content_type"], second["body"]) == ("a hare", 3, "a/b", "second")
    assert leveret("queues show hares --json") == 0
    assert json.loads(capsys.readouterr().out)["acked"] == 2


def test_bodies_come_from_files_and_lines(capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made("lines")
    type_in(monkeypatch, b"one\n\ntwo\r\nthree")
    assert leveret("publish lines --lines -") == 0
    (tmp_path / "body").write_bytes(b"\xff\x00")
    assert leveret(f"publish lines --file {tmp_path / 'body'} --count 2") == 0
    type_in(monkeypatch, b"whole\ninput")
    assert leveret("publish lines") == 0
    capsys.readouterr()
    assert leveret("peek lines --json") == 0
    found = objects(capsys)
    assert [each.get("body", each.get("body_base64")) for each in found] == [
        "one",
        "two",
        "three",
        "/wA=",
        "/wA=",
        "whole\ninput",
    ]
    assert leveret("publish lines body --lines -") == 1
    assert "given twice" in capsys.readouterr().err


def test_batches_are_bounded_in_number_and_size() -> None:
    assert [len(batch) for batch in batches(iter([b"a"] * 5), 2)] == [2, 2, 1]
    assert [len(batch) for batch in batches(iter([bytes(3 << 20), bytes(3 << 20), b"a"]), 500)] == [1, 2]


def test_what_has_no_route_is_told(capsys: Captured) -> None:
    assert leveret("publish nowhere hello --exchange amq.topic") == 1
    assert capsys.readouterr().out == "1 message sent, 1 of them without a route\n"
    assert leveret("publish missing-queue hello") == 1
    assert "missing-queue" in capsys.readouterr().err


def test_programs_settle_messages_by_their_exit_code(capsys: Captured, tmp_path: Path) -> None:
    made("jobs", "dead_letter=jobs.dead", "max_deliveries=5", "backoff=none")
    for body in ("good", "bad", "again"):
        leveret(f"publish jobs {body} --header kind={body}")
    script = tmp_path / "work"
    script.write_text(
        f'read -r body\necho "$body $MESSAGE_HEADER_KIND $MESSAGE_QUEUE" >> {tmp_path}/seen\n'
        'case "$body" in good) exit 0;; bad) exit 65;; *) test "$MESSAGE_DELIVERIES" -gt 1;; esac\n'
    )
    assert leveret(f"consume jobs --exec 'sh {script}' --wait 0.1") == 1
    seen = (tmp_path / "seen").read_text().splitlines()
    assert seen == ["good good jobs", "bad bad jobs", "again again jobs", "again again jobs"]
    capsys.readouterr()
    assert leveret("peek jobs.dead --json") == 0
    assert [each["body"] for each in objects(capsys)] == ["bad"]
    assert leveret("queues show jobs --json") == 0
    assert json.loads(capsys.readouterr().out)["ready"] == 0


def test_a_message_is_kept_for_as_long_as_its_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume, "RENEWALS", 1_000)
    extend, extended = RemoteMessage.extend, tmp_path / "extended"

    def noted(message: RemoteMessage, lease_s: float) -> None:
        extend(message, lease_s)
        extended.write_text(str(lease_s))

    monkeypatch.setattr(RemoteMessage, "extend", noted)
    made("long")
    leveret("publish long x")
    program = f"until test -s {extended}; do sleep 0.01; done; cat >> {tmp_path}/seen"
    assert leveret(f"consume long --count 1 --exec '{program}'") == 0
    assert extended.read_text() == str(consume.LEASE_S)
    assert (tmp_path / "seen").read_text() == "x"


def test_what_is_not_handled_is_given_back_at_once(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    made("interrupted")
    leveret("publish interrupted x --count 3")

    def interrupt(message: object, as_json: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(consume, "print_message", interrupt)
    assert leveret("consume interrupted") == main.INTERRUPTED
    capsys.readouterr()
    assert leveret("queues show interrupted --json") == 0
    assert json.loads(capsys.readouterr().out)["ready"] == 3


def test_programs_do_not_see_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made("secretive")
    leveret("publish secretive x")
    monkeypatch.setenv("LEVERET_PROFILE_SEEN", "yes")
    assert leveret(f"consume secretive --count 1 --exec 'env > {tmp_path}/env'") == 0
    told = (tmp_path / "env").read_text()
    assert "LEVERET_URL" not in told
    assert "MESSAGE_ID=" in told


def test_dead_letters_are_previewed_and_moved_back(capsys: Captured) -> None:
    made("work", "dead_letter=work.dead", "max_deliveries=1")
    for body in ("timeout of a", "timeout of b", "broken"):
        leveret(f"publish work '{body}'")
    assert leveret("consume work --end reject --wait 0.1") == 0
    capsys.readouterr()
    assert leveret("redrive work.dead --preview --contains timeout") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == "2 would be moved"
    assert [line.split("  ")[-1] for line in shown[1:-1]] == ["timeout of a", "timeout of b"]
    assert leveret("redrive work.dead --contains timeout --rate 1000 --json") == 0
    assert json.loads(capsys.readouterr().out) == {"matched": 2, "moved": 2, "skipped": 0}
    assert leveret("redrive work.dead --to work") == 0
    assert capsys.readouterr().out == "1 moved, 0 skipped (their queue is gone or full)\n"


def test_scheduled_messages_are_listed_and_cancelled(capsys: Captured) -> None:
    made("later")
    leveret("publish later first --delay 1000")
    leveret("publish later second --delay 2000")
    capsys.readouterr()
    assert leveret("schedule list later --json") == 0
    ids = [each["id"] for each in objects(capsys)]
    assert leveret(f"schedule cancel later {ids[0]}") == 0
    assert leveret(f"schedule cancel later {' '.join(ids)}") == 1
    told = capsys.readouterr()
    assert told.out == "1 cancelled\n1 cancelled\n"
    assert ids[0] in told.err
    assert leveret("schedule cancel later") == 1
    assert "--all" in capsys.readouterr().err
    leveret("publish later third --delay 1000")
    assert leveret("schedule cancel later --all") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 cancelled"
    assert ids[1] not in told.err


def test_tail_prints_copies_and_leaves_nothing_behind(
    capsys: Captured, asked: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = tail.follow

    def publish_and_follow(copies: RemoteQueue, given: Namespace) -> None:
        assert leveret("publish a.b hi --exchange amq.topic") == 0
        follow(copies, given)

    monkeypatch.setattr(tail, "follow", publish_and_follow)
    assert leveret("tail --exchange amq.topic --key a.# --count 1 --json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["body"] == "hi"
    assert leveret("queues list --prefix leveret.tail --json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_tail_reads_streams_from_any_place(capsys: Captured, asked: ServerProcess) -> None:
    with connect(f"http://guest:guest@127.0.0.1:{asked.ports['http']}") as broker:
        broker.stream("events", partitions=2).send_many(["a", "b", "c", "d"])
    assert leveret("tail --stream events --from first --count 4 --json") == 0
    assert sorted(each["body"] for each in objects(capsys)) == ["a", "b", "c", "d"]
    assert leveret("tail --stream events --wait 0.1") == 0
    assert capsys.readouterr().out == ""
    assert leveret("tail --stream nothing") == 1
    assert leveret("tail --stream events --exchange amq.topic") == 1


def test_tail_of_a_queue_needs_bindings(capsys: Captured) -> None:
    made("unbound")
    assert leveret("tail unbound") == 1
    assert "bound to no exchange" in capsys.readouterr().err
    assert leveret("tail") == 1
    assert "--exchange" in capsys.readouterr().err


def test_queues_are_emptied_paused_and_deleted(capsys: Captured) -> None:
    made("short")
    leveret("publish short x --count 3")
    for line, told in {
        "queues pause short": "queue 'short' paused",
        "queues resume short": "queue 'short' resumed",
        "queues purge short": "3 messages removed from queue 'short'",
        "queues delete short": "queue 'short' deleted with 0 messages",
    }.items():
        capsys.readouterr()
        assert leveret(line) == 0
        assert capsys.readouterr().out == told + "\n"
    assert leveret("queues show short") == 1


def test_queues_with_messages_are_deleted_by_force_only(capsys: Captured) -> None:
    made("full")
    leveret("publish full x")
    assert leveret("queues delete full") == 1
    assert leveret("queues delete full --force") == 0


@pytest.mark.parametrize(
    "line",
    [
        "publish q x --count 0",
        "publish q x --rate 0",
        "publish q x --rate nan",
        "publish q x --priority 11",
        "publish q x --header ears",
        "peek q --limit 1001",
        "peek q --since yesterday",
        "queues declare q max_length",
    ],
)
def test_numbers_outside_of_their_limits_are_wrong_usage(line: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        leveret(line)
    assert ended.value.code == 2
    assert "leveret" in capsys.readouterr().err
