"""The clients and the verdict of `make soak`; whether memory stays bounded takes longer than a test may."""

import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.server_process import ServerProcess
from tests.soak import workload
from tests.soak.__main__ import Sample, growth, soak
from tests.soak.workload import EVERY_S, Client, Target, Work

SAMPLE = Sample(1, 100.0, 120.0, 0.1, 5, 20, 10.0, 1, 1, 1, 1, 0)


def test_a_soak_gives_a_sample_for_each_minute(tmp_path: Path) -> None:
    samples, failures = soak(2, 1, tmp_path / "soak.jsonl", minute_s=2.0)
    assert [each.minute for each in samples] == [1, 2]
    assert failures == []
    assert samples[1].messages > 0
    assert samples[1].rss_mib > 0
    assert len((tmp_path / "soak.jsonl").read_text().splitlines()) == 2


def test_a_round_of_each_kind_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "CROWD_CONNECTIONS", 3)
    with ServerProcess(tmp_path, "--sqs-auth", "off") as server:
        work = Work(Target(server.ports["amqp"], server.ports["http"], server.ports["sqs"]), random.Random(1))
        for make_round, _ in EVERY_S.values():
            make_round()(work)
        assert work.counts["queues"] == 6
        with server.client() as client:
            assert client.queues() == []


def test_a_client_that_fails_notes_it_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, rounds = threading.Event(), []

    def fail(work: Work) -> None:
        rounds.append(work)
        if len(rounds) == 2:
            stop.set()
        raise ValueError("not served")

    monkeypatch.setitem(EVERY_S, "rest", (lambda: fail, 0.0))
    client = Client("rest", Target(1, 2, 3), 1, stop)
    client.run()
    assert client.work.failures == ["rest: ValueError: not served"] * 2
    assert client.work.counts["rounds"] == 2


@pytest.mark.parametrize(("after", "grown"), [(100.0, 1.0), (119.0, 1.19), (130.0, 1.3), (60.0, 0.6)])
def test_growth_is_counted_from_the_end_of_the_warm_up(after: float, grown: float) -> None:
    samples = [replace(SAMPLE, rss_mib=20.0 * n) for n in range(1, 6)] + [SAMPLE] * 5
    samples += [replace(SAMPLE, rss_mib=after)] * 50
    assert growth(samples) == pytest.approx(grown)
