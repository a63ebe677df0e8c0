"""The load generator: its own parts, and short runs against a real server."""

import json
import socket
import struct
import threading
import time
from collections import deque

import pytest

from leveret.cli import main
from leveret.cli.bench import amqp as wire
from leveret.cli.bench import plan
from leveret.cli.bench.amqp import BenchFrame, BenchLogin, Frames, login_of, settle
from leveret.cli.bench.plan import Measured, Plan, Race, age_s, quantile, stamp
from leveret.cli.connection import is_here
from leveret.core.errors import Unreachable
from tests.cli.conftest import access_key
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

Captured = pytest.CaptureFixture[str]
PLAN = Plan("amqp://localhost", "q", 100, 5.0, 10, 500, None, None, None)


@pytest.fixture(autouse=True)
def patient_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost because it comes late."""
    monkeypatch.setattr(plan, "QUIET_S", PATIENCE_S)


def bench(capsys: Captured, url: str, *words: str) -> dict[str, object]:
    """What a run gives; its count ends it."""
    capsys.readouterr()
    assert main.main(["bench", url, "--json", "--seconds", str(PATIENCE_S), *words]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_amqp_is_measured_and_leaves_nothing_behind(asked: ServerProcess, capsys: Captured) -> None:
    found = bench(capsys, f"amqp://guest:guest@127.0.0.1:{asked.port}", "--count", "2000", "--queue-type", "quorum")
    assert found["lost"] == 0
    for side in ("published", "consumed"):
        told = found[side]
        assert isinstance(told, dict)
        assert told["messages"] == 2000
        latencies = list(told["latency_ms"].values())
        assert latencies == sorted(latencies)
        assert latencies[0] > 0
    assert "guest" not in str(found["endpoint"])
    assert main.main(["queues", "list", "--prefix", "leveret-bench", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_sqs_is_measured(asked: ServerProcess, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{asked.ports['sqs']}"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert main.main(["bench", url]) == 1
    assert "AWS_ACCESS_KEY_ID" in capsys.readouterr().err
    for name, value in access_key(asked).items():
        monkeypatch.setenv(name, value)
    found = bench(capsys, url, "--count", "55")
    assert isinstance(found["consumed"], dict)
    assert (found["consumed"]["messages"], found["lost"]) == (55, 0)


def test_a_table_for_people_says_what_the_program_itself_can_do(asked: ServerProcess, capsys: Captured) -> None:
    words = ["--count", "5", "--rate", "1000", "--seconds", str(PATIENCE_S)]
    assert main.main(["bench", f"amqp://127.0.0.1:{asked.port}", *words]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[1].startswith("confirmed   5 ")
    assert "this program itself could do" in told


def test_wrong_passwords_and_places_are_told(asked: ServerProcess, capsys: Captured) -> None:
    assert main.main(["bench", f"amqp://guest:wrong@127.0.0.1:{asked.port}"]) == 1
    told = capsys.readouterr().err
    assert "check the URL, the user and the password" in told
    assert "wrong@" not in told
    assert main.main(["bench", f"amqp://127.0.0.1:{asked.port}/nowhere"]) == 1
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["amqp://mq.example", "https://8.8.8.8", "amqp://127.0.0.1.example"])
def test_other_machines_are_left_alone_unless_it_is_meant(url: str, capsys: Captured) -> None:
    assert main.main(["bench", url]) == 1
    assert "--yes" in capsys.readouterr().err


def test_other_protocols_are_refused(capsys: Captured) -> None:
    assert main.main(["bench", "mqtt://localhost"]) == 1
    assert "amqp" in capsys.readouterr().err


def test_a_server_that_hangs_up_ends_it(capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            listening.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert main.main(["bench", f"amqp://127.0.0.1:{listening.getsockname()[1]}"]) == 1
        thread.join()
    assert capsys.readouterr().err.startswith("leveret: ")


def test_hosts_of_this_machine_are_known_by_their_names() -> None:
    assert [is_here(host) for host in ("localhost", "127.9.9.9", "::1", "10.0.0.1", "x")] == [True] * 3 + [False] * 2


def test_a_url_says_where_and_who() -> None:
    assert login_of("amqps://a%40b:c@h/%2Fv") == BenchLogin("h", 5671, True, "a@b", "c", "/v")
    assert login_of("amqp://h:1") == BenchLogin("h", 1, False, "guest", "guest", "/")


def test_frames_are_cut_wherever_reads_end() -> None:
    data = wire.method(1, wire.DELIVER, b"abc") + wire.frame(wire.BODY, 1, b"body") + wire.method(0, wire.OPEN_OK)
    whole = list(Frames().feed(data))
    assert [each.method for each in whole] == [wire.DELIVER, (0, 0), wire.OPEN_OK]
    for size in range(1, len(data)):
        frames = Frames()
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert [each for piece in pieces for each in frames.feed(piece)] == whole


def ack(tag: int, multiple: bool, which: tuple[int, int] = wire.ACK) -> BenchFrame:
    """A confirm of a server."""
    return BenchFrame(wire.METHOD, struct.pack(">HHQB", *which, tag, multiple))


def test_confirms_settle_one_or_all_before() -> None:
    race = Race(PLAN)
    times = deque([time.monotonic()] * 5)
    assert settle(race, ack(3, True), times, 0) == 3
    assert settle(race, ack(4, False), times, 3) == 4
    assert settle(race, ack(2, True), times, 4) == 4
    assert (race.sent.count, len(times)) == (4, 1)
    with pytest.raises(Unreachable, match="refuses messages"):
        settle(race, ack(5, False, wire.NACK), times, 4)


def test_a_race_ends_by_count_and_waits_for_what_was_sent() -> None:
    race = Race(PLAN)
    assert (race.left(0), race.left(10)) == (10, 0)
    assert not race.is_over()
    race.sent.note(10, [])
    race.published.set()
    assert not race.is_over()
    race.received.note(10, [])
    assert race.is_over()


def test_a_failure_ends_both_sides() -> None:
    race = Race(PLAN)
    race.failure = Unreachable("gone")
    assert race.is_over()
    assert race.left(0) == 0


def test_quantiles_and_stamps() -> None:
    assert [quantile([1.0, 2.0, 3.0, 4.0], share) for share in (0.0, 0.5, 1.0)] == [1.0, 3.0, 4.0]
    assert Measured().result(0.0)["latency_ms"]["p99"] == 0
    assert len(stamp(33)) == 33
    assert age_s(stamp(20), time.monotonic_ns() + 10**9) >= 1.0
