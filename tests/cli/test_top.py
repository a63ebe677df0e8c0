"""The live view: screens as text, what keys do, and one look at a real server."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from typing import Any

import pytest

from leveret.cli import main
from leveret.cli.top.command import next_s, split
from leveret.cli.top.screen import graph, queue_rows, screen
from leveret.cli.top.view import COLUMNS, INTERVALS_S, TopFacts, TopView, pressed
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

NODE: dict[str, Any] = {
    "name": "leveret@host",
    "running": True,
    "uptime": 7_200_000,
    "mem_used": 512 << 20,
    "mem_limit": 1 << 30,
    "mem_alarm": False,
    "disk_free": 10 << 30,
    "disk_free_limit": 50 << 20,
    "disk_free_alarm": False,
}


def rates(publish: float) -> dict[str, Any]:
    """What the server says about the messages of a queue."""
    return {"publish_details": {"rate": publish}, "deliver_get_details": {"rate": 5.0}, "ack_details": {"rate": 4.0}}


def queue(name: str, ready: int) -> dict[str, Any]:
    """A row of the server."""
    return {
        "name": name,
        "vhost": "/",
        "state": "running",
        "consumers": 2,
        "messages": ready + 1,
        "messages_ready": ready,
        "messages_unacknowledged": 1,
        "message_stats": rates(1234.5),
    }


def facts(*queues: dict[str, Any], **node: Any) -> TopFacts:
    """One look at a busy server."""
    overview = {
        "product_version": "1.2",
        "queue_totals": {"messages": 1_500_000, "messages_ready": 1_400_000, "messages_unacknowledged": 100_000},
        "object_totals": {"connections": 3, "channels": 4, "consumers": 5, "queues": 6, "exchanges": 7},
        "message_stats": rates(20_000.0),
    }
    return TopFacts(overview, [{**NODE, **node}], None, list(queues), len(queues), [])


def cluster(*nodes: dict[str, Any], **states: int) -> TopFacts:
    """One look at a cluster: so many shards in each state."""
    shards = [{"state": state} for state, count in states.items() for _ in range(count)]
    look = facts(queue("orders", 5))
    overview = {**look.overview, "cluster_name": "shop"}
    return replace(look, overview=overview, nodes=list(nodes), cluster={"shards": shards})


def shown(
    look: TopFacts | None, view: TopView | None = None, columns: int = 100, rows: int = 14, trouble: str = ""
) -> list[str]:
    """The screen, without spaces at the ends."""
    lines = screen(look, view or TopView(), [1.0, 4.0, 8.0], trouble, "12:00:00", columns, rows)
    assert len(lines) <= rows
    assert all(len(line) <= columns for line in lines)
    return [line.rstrip() for line in lines]


def test_a_cluster_of_which_some_is_missing() -> None:
    full = {**NODE, "name": "b", "mem_used": 1 << 30, "mem_alarm": True}
    short = {**NODE, "name": "c", "disk_free": 60 << 20}
    lines = shown(cluster({"name": "a", "running": False}, full, short, active=29, taking=1, vacant=2))
    assert lines[0].startswith("leveret 1.2  shop  2 of 3 nodes, 29 of 32 shards  ")
    assert lines[4:6] == [
        "memory    [############] 1.0 GiB of 1.0 GiB at b    disk 60.0 MiB free, at least 50.0 MiB at c",
        "alarms    a is DOWN; MEMORY at b: publishers wait; 2 shards WITHOUT AN OWNER",
    ]


def test_a_busy_server_on_one_screen() -> None:
    assert shown(facts(queue("orders", 1_000_000), queue("mails", 12))) == [
        "leveret 1.2  leveret@host  up 2 h" + " " * 48 + "12:00:00  every 2 s",
        "messages  1.5M: ready 1.4M, unacked 100k    publish 20.0k/s  deliver 5/s  ack 4/s",
        "publishes ▂▅█",
        "clients   3 connections, 4 channels, 5 consumers    6 queues, 7 exchanges",
        "memory    [######......] 512 MiB of 1.0 GiB    disk 10.0 GiB free, at least 50.0 MiB",
        "alarms    none",
        "",
        "QUEUE                         READYv  UNACKED    TOTAL     IN/S    OUT/S    ACK/S CONSUMERS    STATE",
        "orders                          1.0M        1     1.0M     1.2k        5        4         2  running",
        "mails                             12        1       13     1.2k        5        4         2  running",
        "",
        "",
        "",
        "q quit  ←→ sort  r reverse  ↑↓ scroll  / filter  space pause  +- speed  h help",
    ]


def test_alarms_and_troubles_are_told() -> None:
    assert "alarms    MEMORY AND DISK: publishers wait" in shown(facts(mem_alarm=True, disk_free_alarm=True))
    assert "alarms    the server is gone" in shown(facts(), trouble="the server is gone")
    assert shown(None, trouble="nobody there")[0] == "nobody there"
    assert shown(None)[0] == "asking the server ..."


def test_firing_alerts_are_alarms_and_states_of_their_queues() -> None:
    def alert(rule: str, queue: str) -> dict[str, Any]:
        return {"rule": rule, "vhost": "/", "queue": queue}

    look = facts(queue("orders", 5), queue("mails", 12))
    lines = shown(replace(look, firing=[alert("deep", "orders"), alert("idle", "b"), alert("idle", "c")]))
    assert "alarms    deep FIRING: orders; idle FIRING: 2 queues" in lines
    assert lines[8].split()[-1] == "deep"
    assert lines[9].split()[-1] == "running"


def test_a_narrow_window_has_fewer_columns_and_a_small_one_says_so() -> None:
    assert shown(facts(queue("orders", 5)), columns=45)[7].split() == ["QUEUE", "READYv", "UNACKED", "TOTAL"]
    assert shown(facts(), columns=30) == ["make the window larger than 4…"]
    assert len(shown(facts(), rows=11)) == 1


def test_names_cannot_move_the_cursor() -> None:
    text = "\n".join(shown(facts(queue("evil\x1b[2Jqueue" + "x" * 200, 1), name="a\rb")))
    assert "\x1b" not in text
    assert "\r" not in text
    assert "evil\\x1b[2Jqueue" in text


def test_a_queue_without_rates_has_none() -> None:
    row = {**queue("new", 1), "message_stats": {}}
    assert shown(facts(row))[8].split()[4:7] == ["0", "0", "0"]


def test_more_queues_than_rows_are_cut() -> None:
    lines = shown(facts(*(queue(f"q{index}", index) for index in range(50))), rows=20)
    assert sum(line.startswith("q") and "running" in line for line in lines) == queue_rows(20)


def press(view: TopView, *keys: str) -> TopView:
    """The view after some keys, with ten queues on a screen and 25 in all."""
    for key in keys:
        view = pressed(view, key, 10, 25)
    return view


def test_keys_sort_and_scroll() -> None:
    assert COLUMNS[press(TopView(), "right", "right").sort].title == "TOTAL"
    assert press(TopView(), "left") == TopView(sort=0, reverse=False)
    assert press(TopView(), "left", "left").sort == len(COLUMNS) - 1
    assert press(TopView(), "r").reverse is False
    assert press(TopView(), "down").first == 10
    assert press(TopView(), "down", "page down", "down").first == 20
    assert press(TopView(), "down", "up", "up").first == 0
    assert press(TopView(first=20), "home").first == 0


def test_keys_filter_pause_and_end() -> None:
    assert shown(facts(), press(TopView(), "/", "a", "b"))[-1] == "filter: ab_"
    assert press(TopView(first=10), "/", *"abx", "\x7f", "\r") == TopView(filter="ab")
    assert press(TopView(filter="old"), "/", "x", "\x1b") == TopView(filter="old")
    assert press(TopView(), "/", "up", "\x00").typed == ""
    assert len(press(TopView(), "/", *("a" * 200)).typed or "") == 100
    assert "paused" in shown(facts(), press(TopView(), " "))[0]
    assert press(TopView(), "q").ended
    assert press(TopView(), "\x03").ended
    assert press(TopView(), "unknown") == TopView()
    assert press(TopView(), *("-" * 20)).interval == len(INTERVALS_S) - 1
    assert press(TopView(), *("+" * 20)).interval == 0
    assert shown(facts(), press(TopView(), "h"))[0] == "leveret top"


def test_bytes_of_a_terminal_become_keys() -> None:
    assert split("q\x1b[A\x1bOD\x1b[5~x") == ["q", "up", "left", "page up", "x"]
    assert split("\x1b[15;2~r\x1b[<0;1;2M") == ["r"]
    assert split("\x1b") == ["\x1b"]


def test_a_graph_is_as_high_as_its_highest() -> None:
    assert graph([0.0, 5.0, 10.0], 10) == "▁▅█"
    assert graph([0.0, 0.0], 10) == "▁▁"
    assert graph([1.0] * 100, 3) == "███"
    assert graph([1.0], 0) == ""


def test_a_server_that_answers_slowly_is_asked_less_often() -> None:
    assert next_s(100.0, 100.1, 2.0) == 102.0
    assert next_s(100.0, 103.0, 2.0) == 112.0
    assert next_s(100.0, 110.0, 2.0) == 120.0


def test_one_look_at_a_real_server(asked: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["queues", "declare", "watched"]) == 0
    assert main.main(["publish", "watched", "x", "--count", "7"]) == 0
    capsys.readouterr()
    assert main.main(["top", "--json", "--filter", "watched"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["queues"]
    assert row["messages_ready"] == 7
    assert main.main(["top", "--once", "--sort", "queue", "--vhost", "/"]) == 0
    assert "watched" in capsys.readouterr().out


def test_the_live_view_in_a_terminal(asked: ServerProcess) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(ours)
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environ["PYTHONPATH"] = ":".join(sys.path)
    command = [sys.executable, "-m", "leveret", "top"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)  # so that reading fails when the process ends early
    try:
        seen = b""
        while b"QUEUE" not in seen:
            seen += os.read(ours, 65536)
        os.write(ours, b"q")
        while b"\x1b[?1049l" not in seen:
            seen += os.read(ours, 65536)
        assert process.wait(PATIENCE_S) == 0
        assert termios.tcgetattr(ours) == before
    finally:
        process.kill()
        process.wait()
        os.close(ours)
