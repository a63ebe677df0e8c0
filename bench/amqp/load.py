"""Runs the load generator and reads its line."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from bench.amqp.brokers import Target

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "amqpload"
RUN_S_MAX = 600

Options = dict[str, str | int | float | bool]


class LoadFailed(Exception):
    """The load generator could not do what it was asked."""


def words(target: Target, options: Options) -> list[str]:
    """The command; an option that is True is a switch."""
    command = [os.fspath(PROGRAM), "--host", target.host, "--port", str(target.port)]
    for name, value in options.items():
        command += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    for pid in target.pids():
        command += ["--pid", str(pid)]
    return command


def run_load(target: Target, options: Options) -> dict[str, Any]:
    """Run it once; nothing that it published may be missing or out of order."""
    try:
        done = subprocess.run(words(target, options), capture_output=True, text=True, timeout=RUN_S_MAX)
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"not finished after {RUN_S_MAX} s") from None
    if not done.stdout:
        raise LoadFailed(done.stderr.strip() or f"exit status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    wrong = {name: result[name] for name in ("error", "undelivered", "unconfirmed", "out_of_order") if result.get(name)}
    if wrong:
        raise LoadFailed(json.dumps(wrong))
    return result
