import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from leveret.server import process
from leveret.server.process import Supervisor
from tests.waiting import PATIENCE_S


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE_S)
        yield listener


def heard(systemd: socket.socket) -> str:
    return systemd.recv(4096).decode()


def test_the_supervisor_hears_what_the_server_does(systemd: socket.socket) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "3000000"})
    supervisor.ready()
    assert heard(systemd) == "READY=1"
    supervisor.alive()
    assert heard(systemd) == "WATCHDOG=1"
    supervisor.stopping()
    assert heard(systemd) == "STOPPING=1"
    assert supervisor.watchdog_s == 1.5


def test_what_is_told_once_waits_for_a_supervisor_that_is_behind(
    systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TELL_S", PATIENCE_S)
    supervisor = Supervisor({"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "3000000"})
    fill(systemd)
    supervisor.alive()  # does not wait
    teller = threading.Thread(target=supervisor.stopping)
    teller.start()
    teller.join(0.1)
    assert teller.is_alive()
    while (told := heard(systemd)) != "STOPPING=1":
        assert told == "WATCHDOG=1"
    teller.join()


def fill(systemd: socket.socket) -> None:
    """Leave no room for one more datagram."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(BlockingIOError):
        sender.setblocking(False)
        while True:
            sender.sendto(b"WATCHDOG=1", systemd.getsockname())


def test_a_name_with_an_at_sign_is_not_a_file(tmp_path: Path) -> None:
    name = f"leveret-{os.getpid()}-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name)
        listener.settimeout(PATIENCE_S)
        Supervisor({"NOTIFY_SOCKET": "@" + name}).ready()
        assert heard(listener) == "READY=1"


def test_the_watchdog_of_another_process_is_none_of_ours() -> None:
    assert Supervisor({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}).watchdog_s == 0


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": "/nowhere/notify"}, {"WATCHDOG_USEC": "often"}])
def test_without_a_supervisor_nothing_happens(environ: dict[str, str]) -> None:
    supervisor = Supervisor(environ)
    supervisor.ready()
    supervisor.alive()
    assert supervisor.watchdog_s == 0
