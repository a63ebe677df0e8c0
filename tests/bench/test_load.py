"""The load generator, built with sanitizers, against brokers that say wrong things, and with wrong options."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.bench.greeter import answering, frame, start
from tests.sources import ROOT
from tests.waiting import PATIENCE_S

TUNE_BYTES_SHORT = b"\x00\x0a\x00\x1e\x00"
DELIVER = b"\x00\x3c\x00\x3c"
ACK = b"\x00\x3c\x00\x50"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("load") / "amqpload"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-pthread"]
    sources = sorted((ROOT / "bench" / "amqp" / "load").glob("*.c"))
    subprocess.run([os.environ.get("CC", "cc"), *flags, *map(str, sources), "-o", str(built)], check=True)
    return built


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # Leaks at an early end are not looked for: the process ends with an error, and everything with it.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=PATIENCE_S, env=environment)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "closed by the broker"),
        (b"\x01\x00\x00\xff\xff\xff\xff", "closed by the broker"),
        (b"\x01\x00\x00\xff\xff\xff\xff\x00", "frame of 4294967295 bytes"),
        (b"\x01\x00\x00\x00\x00\x00\x00\x00", "ends with 0x00"),
        (b"\x09\x00\x00\x00\x00\x00\x00\xce", "frame of type 9"),
        (frame(b"\x00\x0a"), "method frame of 2 bytes"),
        (b"\x02" + frame(bytes(14))[1:], "unexpected header frame"),
        (b"\x03" + frame(b"body")[1:], "unexpected body frame"),
        (frame(TUNE_BYTES_SHORT), "short connection.tune"),
        (frame(DELIVER + b"\xff"), "short basic.deliver"),
        (frame(ACK), "short confirm"),
        (frame(ACK + bytes(8) + b"\x01"), "confirm of 0, 0 were published"),
        (frame(b"\x00\x0a\x00\x32\x01\x40\xffshort"), "connection closed by the broker: 320"),
        (frame(b"\x00\x0a\x00\x32\x01\x93\x07refused"), "connection closed by the broker: 403 refused"),
    ],
)
def test_wrong_answers_end_it_with_a_reason(program: Path, said: bytes, reason: str) -> None:
    with answering(start("1") + said) as port:
        done = run(program, "--port", str(port), "--messages", "1")
    assert done.returncode == 1
    assert reason in done.stderr
    assert "Sanitizer" not in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--colour", "red"], "unknown option --colour"),
        (["--messages"], "--messages needs a value"),
        (["--messages", "many"], "--messages takes a number"),
        (["--window", "0", "--messages", "1"], "--window takes a number from 1"),
        (["--mode", "sing"], "unknown mode sing"),
        (["--mode", "publish"], "publish needs --messages"),
        (["--duration", "1", "--mode", "publish"], "--duration is for mode both"),
        (["--messages", "1", "--queue", "q" * 250], "--queue is too long"),
        (["--messages", "1", "--ack-every", "10", "--prefetch", "5"], "would wait for ever"),
        (["--pid", "1"] * 65, "at most 64 --pid"),
    ],
)
def test_wrong_options_are_refused(program: Path, words: list[str], reason: str) -> None:
    done = run(program, *words)
    assert done.returncode == 1
    assert reason in done.stderr
