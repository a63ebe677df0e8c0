"""A real server with its port for SQS, and a user who has an access key."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.server_process import ServerProcess
from tests.sources import ROOT

KEY, SECRET = "AKIAEXAMPLEEXAMPLE", "secret/with+signs"
REGION = "us-east-1"


@dataclass(frozen=True)
class Server:
    """Where a server listens."""

    process: ServerProcess

    @property
    def url(self) -> str:
        """The endpoint of SQS."""
        return f"http://127.0.0.1:{self.process.ports['sqs']}"

    @property
    def environ(self) -> dict[str, str]:
        """What the tools of AWS read."""
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": REGION}

    def options(self, **changed: str) -> dict[str, Any]:
        """What boto3 is told."""
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, **changed}
        return {"endpoint_url": self.url, "region_name": REGION, "config": Config(retries={"max_attempts": 0}), **keys}

    def client(self, **changed: str) -> Any:
        """The client of boto3."""
        return boto3.client("sqs", **self.options(**changed))


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """A server for this block."""
    with ServerProcess(folder) as process:
        add_key(process, "guest", KEY, SECRET)
        yield Server(process)


def add_key(process: ServerProcess, user: str, id: str, secret: str) -> str:
    """Give a user a key, as an operator would; what the command said."""
    return operate(process, "keys", "add", user, "--id", id, "--secret", secret)


def operate(process: ServerProcess, *words: str) -> str:
    """Run a command of an operator on the data of a server; what it said."""
    command = [sys.executable, "-m", "leveret", *words, "--data", str(process.data)]
    environ = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
