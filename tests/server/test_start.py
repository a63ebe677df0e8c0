import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import leveret
from tests.server.certificates import Authority
from tests.server_process import ServerProcess
from tests.sources import ROOT
from tests.waiting import PATIENCE_S

FREE_PORTS = ("--amqp-port", "0", "--http-port", "0", "--https-port", "0", "--sqs-port", "0")


def refused(folder: Path, *flags: str, environ: dict[str, str] | None = None) -> tuple[int, str]:
    """Start a server that cannot start; give its exit code and the last thing that it said."""
    command = [sys.executable, "-m", "leveret", "serve", "--data", str(folder / "data"), *FREE_PORTS, *flags]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LEVERET_")}
    clean |= {"PYTHONPATH": str(ROOT / "src"), **(environ or {})}
    done = subprocess.run(command, env=clean, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, said = refused(tmp_path, "--amqp-port", str(port))
    assert code == 69
    advice = "stop what uses it, or choose another port"
    assert said == f"leveret: cannot listen on 127.0.0.1:{port} (Address already in use): {advice}"
    assert not (tmp_path / "data").exists(), "nothing was made for a server that did not start"


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    code, said = refused(tmp_path, "--host", "192.0.2.1")
    assert (code, "cannot listen on 192.0.2.1:0" in said) == (69, True)


def test_data_of_another_process(tmp_path: Path) -> None:
    with leveret.open(tmp_path / "data"):
        code, said = refused(tmp_path)
    assert code == 75
    assert said.startswith("leveret: ")


def test_damaged_data(tmp_path: Path) -> None:
    with leveret.open(tmp_path / "data", segment_bytes=1 << 10, checkpoint_bytes=1 << 30) as broker:
        queue = broker.queue("orders")
        for _ in range(20):
            queue.send(b"x" * 500)
    for checkpoint in (tmp_path / "data").glob("ckpt-*"):
        checkpoint.unlink()
    oldest = min((tmp_path / "data").glob("seg-*"))
    stored = bytearray(oldest.read_bytes())
    stored[200] ^= 1
    oldest.write_bytes(stored)
    code, said = refused(tmp_path)
    assert (code, oldest.name in said) == (65, True), said


def test_a_certificate_that_does_not_fit_its_key(tmp_path: Path, authority: Authority) -> None:
    one, other = authority.issue("one", file="one"), authority.issue("other", file="other")
    code, said = refused(tmp_path, "--tls-cert", str(one.cert), "--tls-key", str(other.key))
    assert (code, "KEY_VALUES_MISMATCH" in said) == (78, True), said


@pytest.mark.parametrize(
    ("flags", "environ", "sentence"),
    [
        (["--amqp-port", "99999"], {}, "amqp_port cannot be '99999': it is at least 0 and at most 65535"),
        ([], {"LEVERET_AMQP_PRT": "1"}, "unknown environment variable 'LEVERET_AMQP_PRT': did you mean"),
        (["--config", "nowhere.toml"], {}, "cannot read the configuration file nowhere.toml: No such file"),
    ],
)
def test_a_wrong_option(tmp_path: Path, flags: list[str], environ: dict[str, str], sentence: str) -> None:
    code, said = refused(tmp_path, *flags, environ=environ)
    assert (code, said.startswith(f"leveret: {sentence}")) == (2, True), said


def test_every_option_but_a_secret_one_is_a_flag() -> None:
    command = [sys.executable, "-m", "leveret", "serve", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    assert "--amqp-port PORT" in shown
    assert "--salvage, --no-salvage" in shown
    assert "--sync always|interval|never" in shown
    assert "--default-password" not in shown


def test_options_come_from_file_environment_and_flags(tmp_path: Path) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text('[log]\nformat = "json"\nlevel = "error"\n')
    environ = {"LEVERET_LOG_LEVEL": "warning", "LEVERET_LOG_FORMAT": "text"}
    with ServerProcess(tmp_path, "--config", str(config), "--log-format", "json", environ=environ) as server:
        (line,) = server.text.splitlines()
        assert line.startswith("{")
        assert '"event": "ready"' in line


def test_the_log_says_what_the_data_directory_held(server: ServerProcess) -> None:
    server.stop()
    server.start()
    assert "recovered from_checkpoint=true" in server.text


def test_the_supervisor_hears_that_the_server_is_ready_alive_and_stopping(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE_S)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
        with ServerProcess(tmp_path, environ=environ) as server:
            assert systemd.recv(100) == b"READY=1"
            assert systemd.recv(100) == b"WATCHDOG=1"
            assert systemd.recv(100) == b"WATCHDOG=1"
            server.signal(signal.SIGTERM)
            while (said := systemd.recv(100)) == b"WATCHDOG=1":
                pass
            assert said == b"STOPPING=1"
            assert server.wait() == 0


def test_a_running_server_is_managed_by_command(server: ServerProcess) -> None:
    command = [sys.executable, "-m", "leveret", "status", "--data", str(server.data), "--json"]
    clean = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    shown = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    status = json.loads(shown)
    assert (status["pid"], status["amqp"]) == (server.pid, f"127.0.0.1:{server.port}")
    assert (status["connections"], status["alarm"], status["users"]) == (0, None, 1)
