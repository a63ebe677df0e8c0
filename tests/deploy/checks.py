"""What checks of deploy/ are made of: each gives sentences about what is wrong, or raises NotHere if it cannot."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

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


def unprotected(environ: Mapping[str, str], of: str) -> Iterator[str]:
    """What a node sends to others that is not encrypted, or whose receiver it does not check."""
    query = parse_qs(urlsplit(environ["LEVERET_STORE"]).query)
    if query.get("sslmode") != ["verify-full"] or "sslrootcert" not in query:
        yield f"{of}: the certificate of PostgreSQL is not checked: give sslmode=verify-full and sslrootcert"
    if not all(url.startswith("https://") for url in environ["LEVERET_ETCD"].split(",")):
        yield f"{of}: etcd is reached without TLS"
    if environ.get("LEVERET_REDIS", "off") != "off" and not environ["LEVERET_REDIS"].startswith("rediss://"):
        yield f"{of}: Redis is reached without TLS"
    wanted = [f"LEVERET_{kind}_TLS_{file}" for kind in ("CLUSTER", "ETCD") for file in ("CERT", "KEY", "CA")]
    yield from (f"{of}: {name} is not given" for name in wanted if not environ.get(name))
    if "LEVERET_CLUSTER_PLAIN" in environ:
        yield f"{of}: nodes may talk to each other without TLS"


def certificates(folder: Path, words: Iterable[str]) -> Path:
    """Run the script for certificates; gives the directory that has them."""
    command = ["sh", str(DEPLOY / "certificates.sh"), str(folder / "authority"), str(folder / "certificates"), *words]
    if shutil.which("openssl") is None:
        raise NotHere("the program openssl is not on this machine")
    subprocess.run(command, check=True, capture_output=True, timeout=PROGRAM_S)
    return folder / "certificates"


def is_valid_for(cert: Path, authority: Path, host: str) -> bool:
    """Whether OpenSSL takes a certificate for a host, from a server and from a client."""
    command = ["openssl", "verify", "-CAfile", str(authority), "-verify_hostname", host]
    answers = [
        subprocess.run([*command, "-purpose", purpose, str(cert)], capture_output=True, timeout=PROGRAM_S, check=False)
        for purpose in ("sslserver", "sslclient")
    ]
    return not any(answer.returncode for answer in answers)


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
