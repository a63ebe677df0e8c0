"""What checks of deploy/ are made of: each gives sentences about what is wrong, or raises NotHere if it cannot."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from leveret.config import ServerOptions
from leveret.core.errors import LeveretError
from leveret.server.settings import server_options
from tests.sources import ROOT

DEPLOY = ROOT / "deploy"
PINNED = re.compile(r"(?:@sha256:[0-9a-f]{64}|:[^:/@]*\d[^:/@]*)$")
PROGRAM_S = 100
EXAMPLE = "any words that are long enough for a secret"
"""In the place of a secret."""

Check = Callable[[], Iterator[str]]


class NotHere(Exception):
    """A check needs what this machine does not have."""


def documents(path: Path) -> list[Any]:
    """What is in a YAML file; merge keys and anchors are resolved."""
    return list(yaml.safe_load_all(path.read_text()))


def unpinned(image: str) -> Iterator[str]:
    """An image without a version is another one tomorrow."""
    if not PINNED.search(image):
        yield f"the image {image} has no version"


def refused(environ: Mapping[str, str], of: str) -> Iterator[str]:
    """What a server says to an environment: options that do not exist, wrong values, what does not go together."""
    try:
        server_options({}, environ)
    except LeveretError as error:
        yield f"{of}: {error}"


def default_ports() -> dict[str, int]:
    """The ports of a server, by what they are called in manifests."""
    options = ServerOptions()
    names = ("amqp", "amqps", "http", "https", "sqs", "cluster")
    return {name: getattr(options, f"{name}_port") for name in names}


def ran(*command: str, cwd: Path) -> Iterator[str]:
    """Run a program that this machine may have; what it says when it fails."""
    if shutil.which(command[0]) is None:
        raise NotHere(f"the program {command[0]} is not on this machine")
    environ = {**os.environ, "TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1"}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=PROGRAM_S)
    if done.returncode:
        yield f"{' '.join(command)}: {(done.stdout + done.stderr).strip()}"
