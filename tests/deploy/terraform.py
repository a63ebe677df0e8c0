"""The Terraform modules: what needs no provider is validated and tested, the rest if its provider has been fetched."""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.deploy import kubernetes
from tests.deploy.checks import DEPLOY, NotHere, ran

FOLDER = DEPLOY / "terraform"
STORE = "postgresql://leveret@db/leveret?sslmode=verify-full&sslrootcert=/etc/leveret/storage-tls/ca.crt"
VALUES = {
    "image": "leveret:0.1.0",
    "store": STORE,
    "etcd": '["https://etcd-0:2379","https://etcd-1:2379"]',
    "blobs": "s3://bodies/orders",
    "epoch_base": "1",
    "extra_options": '{LEVERET_HEARTBEAT_S="30"}',
}
PUT_IN = {
    "LEVERET_STORE": STORE,
    "LEVERET_ETCD": "https://etcd-0:2379,https://etcd-1:2379",
    "LEVERET_CLUSTER_EPOCH_BASE": "1",
    "LEVERET_HEARTBEAT_S": "30",
}
INIT = ("terraform", "init", "-backend=false", "-input=false", "-no-color")


def check_format() -> Iterator[str]:
    """All files parse, and are written as Terraform writes them."""
    yield from ran("terraform", "fmt", "-check", "-recursive", "-no-color", cwd=FOLDER)


def check_variables() -> Iterator[str]:
    """The root module hands on every variable of the one that makes the manifests, and has them itself."""
    handed = set(re.findall(r"^  (\w+) += var\.\1$", (FOLDER / "main.tf").read_text(), re.MULTILINE))
    wanted, own = (_variables(FOLDER / part) for part in ("manifests/variables.tf", "variables.tf"))
    yield from (f"main.tf and manifests/variables.tf do not agree on {name}" for name in sorted(handed ^ wanted))
    yield from (f"variables.tf has no {name}" for name in sorted(handed - own))


def _variables(path: Path) -> set[str]:
    return set(re.findall(r'^variable "(\w+)"', path.read_text(), re.MULTILINE))


def check_manifests() -> Iterator[str]:
    """The module that makes the manifests: it is valid, and its own tests pass."""
    with _copy() as module:
        for command in (INIT, ("terraform", "validate", "-no-color"), ("terraform", "test", "-no-color")):
            yield from ran(*command, cwd=module)


def check_made() -> Iterator[str]:
    """The manifests that it makes, with values as in its tests: as good as the files."""
    given = [f"-var={name}={value}" for name, value in VALUES.items()]
    with _copy() as module:
        failed = [
            *ran(*INIT, cwd=module),
            *ran("terraform", "apply", "-auto-approve", "-no-color", *given, cwd=module),
        ]
        if failed:
            yield from failed
            return
        state = json.loads((module / "terraform.tfstate").read_text())
    made = {name: output["value"] for name, output in state["outputs"].items()}
    found = {**kubernetes.manifests(), **made["objects"], "namespace": made["namespace"]}
    yield from kubernetes.schemas(found)
    yield from kubernetes.references(found)
    yield from kubernetes.nodes(found)
    environ = kubernetes.environment(found)
    yield from (f"{name} is not put in" for name, value in PUT_IN.items() if environ[name] != value)


@contextmanager
def _copy() -> Iterator[Path]:
    """The module and the files that it reads, in a place that may be written to."""
    with tempfile.TemporaryDirectory() as name:
        for part in ("kubernetes", "terraform/manifests"):
            shutil.copytree(DEPLOY / part, Path(name) / part, ignore=shutil.ignore_patterns(".terraform*"))
        yield Path(name) / "terraform" / "manifests"


def check_root() -> Iterator[str]:
    """The module that applies them; its provider is not fetched by a test."""
    if not (FOLDER / ".terraform").exists():
        raise NotHere("the provider of Kubernetes was not fetched: `terraform init` in deploy/terraform does it")
    yield from ran("terraform", "validate", "-no-color", cwd=FOLDER)
