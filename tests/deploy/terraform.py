"""The Terraform modules: what needs no provider is validated and tested, the rest if its provider has been fetched."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.deploy.checks import DEPLOY, NotHere, ran

FOLDER = DEPLOY / "terraform"
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
    """The module that makes the manifests: valid, and its own tests pass, on a copy that may be written to."""
    with tempfile.TemporaryDirectory() as name:
        for part in ("kubernetes", "terraform/manifests"):
            shutil.copytree(DEPLOY / part, Path(name) / part, ignore=shutil.ignore_patterns(".terraform*"))
        module = Path(name) / "terraform" / "manifests"
        for command in (INIT, ("terraform", "validate", "-no-color"), ("terraform", "test", "-no-color")):
            yield from ran(*command, cwd=module)


def check_root() -> Iterator[str]:
    """The module that applies them; its provider is not fetched by a test."""
    if not (FOLDER / ".terraform").exists():
        raise NotHere("the provider of Kubernetes was not fetched: `terraform init` in deploy/terraform does it")
    yield from ran("terraform", "validate", "-no-color", cwd=FOLDER)
