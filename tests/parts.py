"""The programs that some tests need and pip does not bring: what they are, and how `make parts` installs them.

Debian's packages are installed when we are root; the packages for Node go into the virtual environment. A part that
cannot be installed is named here and skipped by its tests; in CI it is a failure (see `need` in tests/conftest.py).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import need

GO_LIBRARIES = Path("/usr/share/gocode")
AMQP_GO = GO_LIBRARIES / "src" / "github.com" / "rabbitmq" / "amqp091-go"
DEBIAN_PACKAGES = {
    str(AMQP_GO): "golang-github-rabbitmq-amqp091-go-dev",
    "amqp-publish": "amqp-tools",
    "chromium": "chromium",
    "etcd": "etcd-server",
    "go": "golang-go",
    "haproxy": "haproxy",
    "initdb": "postgresql",
    "ip": "iproute2",
    "java": "default-jre-headless",
    "ldapadd": "ldap-utils",
    "nft": "nftables",
    "node": "nodejs",
    "npm": "npm",
    "openssl": "openssl",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "redis-server": "redis-server",
    "slapd": "slapd",
}
NODE_PACKAGES = {"amqplib": "2.3.1", "rabbitmq-client": "5.0.8", "@aws-sdk/client-sqs": "3.1164.0"}
AWS_CLI = Path(sys.executable).with_name("aws")
RABBITMQADMIN = Path(sys.executable).with_name("rabbitmqadmin")
NODE_HOME = Path(sys.prefix) / "node"
NODE_MODULES = NODE_HOME / "node_modules"


def program(name: str) -> str | None:
    """Where a program or a directory is; Debian keeps PostgreSQL off the path, in a directory for each version."""
    if name.startswith("/"):
        return name if Path(name).exists() else None
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(places[-1]) if places else shutil.which(name)


def need_program(name: str) -> None:
    """Skip the test, or fail it in CI, when a program or a directory is not on this machine."""
    need(program(name), f"{name}; run `make parts` as root, or install {DEBIAN_PACKAGES[name]}")


def need_node_package(name: str) -> None:
    """Skip the test, or fail it in CI, when Node or a package for it is missing."""
    need_program("node")
    need(installed(name), f"the Node package {name}; run `make parts`")


def need_aws_cli() -> None:
    """Skip the test, or fail it in CI, when the command of AWS is missing."""
    need(AWS_CLI.exists(), "the command aws; run `make parts`, or pip install awscli")


def need_rabbitmqadmin() -> list[str]:
    """How RabbitMQ's command line begins; skips the test, or fails it in CI, when it is missing."""
    need(has(RABBITMQADMIN), "the program rabbitmqadmin; run `make parts` where there is apt-get")
    return [sys.executable, str(RABBITMQADMIN)]


def has(program: Path) -> bool:
    """Whether a program is there; a download that failed leaves an empty file."""
    return program.exists() and program.stat().st_size > 0


def installed(package: str) -> bool:
    """Say whether a package for Node is there in the version that the tests are written for."""
    manifest = NODE_MODULES / package / "package.json"
    return manifest.exists() and f'"version": "{NODE_PACKAGES[package]}"' in manifest.read_text()


def commands() -> Iterator[list[str]]:
    """What has to be run to install what is missing, as far as it can be installed here."""
    debian = [package for name, package in DEBIAN_PACKAGES.items() if not program(name)]
    if debian and os.geteuid() == 0 and shutil.which("apt-get"):
        yield ["apt-get", "update", "-qq"]
        yield ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", *debian]
    if not AWS_CLI.exists():
        # Not in the extra `dev`: it wants one version of botocore, and boto3 may be newer than that.
        yield [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "awscli"]
    if not has(RABBITMQADMIN) and shutil.which("apt-get"):
        # Out of Debian's package, which is not installed: it would bring Erlang and start a broker.
        fetch = 'cd "$(mktemp -d)" && apt-get download -qq rabbitmq-server && '
        unpack = 'dpkg-deb --fsys-tarfile rabbitmq-server_*.deb | tar xO ./usr/bin/rabbitmqadmin > "$0"'
        yield ["sh", "-c", fetch + unpack, str(RABBITMQADMIN)]
    if not all(map(installed, NODE_PACKAGES)) and shutil.which("npm"):
        # All of them at once: npm removes what is there and not named.
        node = [f"{name}@{version}" for name, version in NODE_PACKAGES.items()]
        NODE_HOME.mkdir(exist_ok=True)
        options = ["--no-audit", "--no-fund", "--no-save", "--no-package-lock", "--loglevel=error"]
        yield ["npm", "install", "--prefix", str(NODE_HOME), *options, *node]


def missing() -> list[str]:
    """The parts that are not here."""
    programs = [name for name in DEBIAN_PACKAGES if not program(name)]
    programs += [path.name for path in (AWS_CLI, RABBITMQADMIN) if not has(path)]
    return programs + [name for name in NODE_PACKAGES if not installed(name)]


def main() -> int:
    """Install what is missing; say what could not be, and how to get it."""
    for command in commands():
        print(*command, flush=True)
        subprocess.run(command, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, check=False)
    if left := missing():
        print(f"Tests that need these are skipped: {', '.join(left)}. On Debian, `make parts` installs them as root.")
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
