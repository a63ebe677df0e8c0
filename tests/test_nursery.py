"""Forks that tests use as servers: each ends, and is asked, like any other process."""

import os
import signal
from pathlib import Path

import pytest

from tests.nursery import Fork, Nursery, nursery
from tests.server_process import FREE_PORTS, PACKAGES, ServerProcess
from tests.waiting import PATIENCE_S, wait_until


@pytest.mark.parametrize(("words", "code", "said"), [(["--help"], 0, ""), (["--nonsense"], 2, "--nonsense")])
def test_a_fork_tells_how_it_ended(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    forks = nursery(PACKAGES)
    assert forks is not None
    with (tmp_path / "log").open("wb") as log:
        fork = forks.fork(["serve", *words], {**os.environ, "PYTHONPATH": PACKAGES}, log.fileno())
    assert fork is not None
    assert fork.wait(PATIENCE_S) == fork.poll() == code
    fork.send_signal(signal.SIGTERM)  # nobody is there any more
    assert said in (tmp_path / "log").read_text()


def test_a_fork_has_a_session_and_an_environment_of_its_own(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        assert isinstance(server._running, Fork)
        assert os.getsid(server.pid) == server.pid
        assert server.kill() == -signal.SIGKILL
        server.start()
    with pytest.raises(AssertionError, match="heartbeat_s"):
        ServerProcess(tmp_path, environ={"LEVERET_HEARTBEAT_S": "x"}).start()


def test_a_variable_that_is_read_at_the_start_needs_a_start(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, environ={"PYTHONHASHSEED": "1"}) as server:
        assert not isinstance(server._running, Fork)


def test_what_no_test_has_ended_ends_with_the_nursery(tmp_path: Path) -> None:
    forks = Nursery(PACKAGES)
    with (tmp_path / "log").open("wb") as log:
        words = ["serve", "--data", str(tmp_path / "data"), *FREE_PORTS]
        fork = forks.fork(words, {**os.environ, "PYTHONPATH": PACKAGES}, log.fileno())
    assert fork is not None
    wait_until(lambda: "ready" in (tmp_path / "log").read_text())
    forks.close()
    with pytest.raises(AssertionError, match="has ended"):
        fork.wait(PATIENCE_S)
    wait_until(lambda: not is_alive(fork.pid))
    fork._answers.close()


def is_alive(pid: int) -> bool:
    """Whether a process runs; whoever has its parent's place now may not have noticed its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
