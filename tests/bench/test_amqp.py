"""The AMQP benchmark's own parts: figures, comparison, table, peers, processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.amqp.brokers import NotReady, greeting, named, start_leveret
from bench.amqp.cases import idle_cases, medians, traffic_cases
from bench.amqp.processes import started, tree
from bench.amqp.table import BEGIN, END, markdown, placed, read
from bench.bench_amqp import compared
from tests.bench.greeter import answering, start


def line(peer: str, **figures: object) -> str:
    return json.dumps({"what": "16 B", "peer": peer, "version": "1", "machine": "2 cores", **figures})


def test_median_of_each_figure() -> None:
    rounds = [{"rate": rate, "cpu": None} for rate in (1.0, 9.0, 2.0)]
    assert medians(rounds) == {"rate": 2.0, "cpu": None}


def test_figures_are_compared_as_multiples() -> None:
    own, other = {"messages_per_s": 300, "cpu_us_per_message": 2.0}, {"messages_per_s": 100, "cpu_us_per_message": 8.0}
    assert compared(own, other) == {"messages_per_s": 3.0, "cpu_us_per_message": 0.25}


def test_figures_that_a_peer_does_not_have_are_not_compared() -> None:
    assert compared({"messages_per_s": 300, "cpu_us_per_message": None}, {"messages_per_s": 100}) == {
        "messages_per_s": 3.0
    }
    assert compared({"messages_per_s": 300}, None) == {}


def test_table_has_a_row_for_each_case_and_a_column_for_each_peer() -> None:
    ratios = {"messages_per_s": 20.0, "cpu_us_per_message": 0.02}
    text = markdown(
        read(
            line("leveret", messages_per_s=412345, cpu_us_per_message=0.91, of_rabbitmq=ratios)
            + "\n"
            + line("rabbitmq", messages_per_s=20123, cpu_us_per_message=41.5)
        )
    )
    assert text.splitlines()[2:] == [
        "| case | Leveret 1 | RabbitMQ 1 | Leveret / RabbitMQ |",
        "|---|---|---|---|",
        "| 16 B | 412,000/s, 0.91 us | 20,100/s, 41.5 us | rate x 20, CPU x 0.02 |",
    ]


def test_table_of_latency_and_memory() -> None:
    late = markdown(read(line("leveret", messages_per_s=5000, p50_ms=0.3, p99_ms=2.5)))
    assert late.endswith("| 16 B | p50 0.3 ms, p99 2.5 ms |")
    large = markdown(read(line("leveret", seconds=1.5, rss_bytes=40_000_000, rss_bytes_each=5)))
    assert large.endswith("| 16 B | 1.5 s, 40 MB, 5 B each |")


def test_table_is_placed_between_its_marks() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert placed(page, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert placed(placed(page, "new"), "newer") == placed(page, "newer")


def test_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        placed("a page", "a table")


def test_cases_have_names_of_their_own() -> None:
    names = [case.name for case in traffic_cases() + idle_cases(1)]
    assert len(set(names)) == len(names)


def test_peer_by_address() -> None:
    assert named("other=127.0.0.1:5673@12").name == "other"
    with pytest.raises(ValueError, match="NAME=HOST:PORT"):
        named("127.0.0.1:5673")


def test_greeting_tells_the_version() -> None:
    with answering(start("1.2.3")) as port:
        assert greeting("127.0.0.1", port) == "1.2.3"


def test_no_greeting_is_an_error() -> None:
    with answering(b"") as port, pytest.raises(ConnectionError):
        greeting("127.0.0.1", port)


def test_tree_has_the_grandchildren() -> None:
    source = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'], stdin=0)"
    reader, writer = os.pipe()
    child = subprocess.Popen([sys.executable, "-c", source], stdin=reader, stdout=subprocess.PIPE)
    os.close(reader)
    assert child.stdout is not None
    child.stdout.readline()
    assert len(tree(child.pid)) == 2
    os.close(writer)
    child.stdout.close()
    child.wait()


def test_started_process_ends_with_the_block(tmp_path: Path) -> None:
    with started([sys.executable, "-c", "import signal; signal.pause()"], tmp_path / "log") as process:
        assert process.poll() is None
    assert process.returncode is not None


def test_broker_that_ends_at_once_is_told_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="no such option"), start_leveret("sh -c 'echo no such option'", tmp_path):
        pass
