"""Dockerfiles: instructions that exist, stages that are there, sources that are there, and no root at the end."""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from string import Template
from typing import NamedTuple

from leveret.cli.main import COMMANDS
from tests.deploy.checks import DEPLOY, default_ports, refused, unpinned
from tests.sources import ROOT

INSTRUCTIONS = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN", "STOPSIGNAL", "USER",
    "VOLUME", "WORKDIR",
}  # fmt: skip
OURS = DEPLOY / "Dockerfile"
MADE = "build/"
"""What `make image` makes before the builder copies it."""
CONTEXTS = {OURS: ROOT, **{path: path.parent for path in sorted(DEPLOY.glob("compose/*/Dockerfile"))}}
"""Each Dockerfile, and the directory that it is built from."""


class Instruction(NamedTuple):
    """One line, with those that continue it."""

    name: str
    rest: str


def instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines()]


def check() -> Iterator[str]:
    """All Dockerfiles."""
    for path, context in CONTEXTS.items():
        for problem in problems(path.read_text(), context, ours=path == OURS):
            yield f"{path.relative_to(ROOT)}: {problem}"


def problems(text: str, context: Path, *, ours: bool = True) -> Iterator[str]:
    """What is wrong with one; ours is that of the server."""
    found = instructions(text)
    yield from _instructions(found)
    yield from _stages(found)
    yield from _copies(found, context)
    if ours:
        yield from _server(found)


def _instructions(found: list[Instruction]) -> Iterator[str]:
    for name, rest in found:
        if name not in INSTRUCTIONS:
            yield f"{name} is no instruction that is used here"
        if name in ("CMD", "ENTRYPOINT") and not _is_list(rest):
            yield f"{name} goes through a shell, which does not pass on SIGTERM: write it as a list"


def _is_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except ValueError:
        return False


def _stages(found: list[Instruction]) -> Iterator[str]:
    defaults = dict(each.rest.split("=", 1) for each in found if each.name == "ARG")
    if next(each.name for each in found if each.name != "ARG") != "FROM":
        yield "the first instruction is not FROM"
    stages = set()
    for name, rest in found:
        if name == "FROM":
            image, *alias = rest.split()
            stages.update(alias[1:])
            yield from unpinned(Template(image).safe_substitute(defaults))
        source = re.search(r"--from=(\S+)", rest)
        if name == "COPY" and source and source[1] not in stages:
            yield f"COPY is from the stage {source[1]}, which is not there"
    last = max(number for number, each in enumerate(found) if each.name == "FROM")
    users = [each.rest for each in found[last:] if each.name == "USER"]
    if not users or users[-1].split(":")[0] in ("root", "0"):
        yield "the last stage runs as root"


def _copies(found: list[Instruction], context: Path) -> Iterator[str]:
    ignored = context / ".dockerignore"
    for name, rest in found:
        if name != "COPY" or "--from=" in rest:
            continue
        for source in rest.split()[:-1]:
            if not (source.startswith(MADE) or (context / source).exists()):
                yield f"COPY needs {source}, which is not in {context.name}"
            elif ignored.exists() and left_out(source, ignored.read_text()):
                yield f"COPY needs {source}, which .dockerignore leaves out"


def left_out(source: str, patterns: str) -> bool:
    """Whether .dockerignore keeps a file from the builder: the last pattern that fits says so."""
    out = False
    for line in patterns.splitlines():
        pattern = line.strip()
        if pattern and not pattern.startswith("#") and fnmatch(source, pattern.removeprefix("!")):
            out = not pattern.startswith("!")
    return out


def _server(found: list[Instruction]) -> Iterator[str]:
    """Ours alone: its ports, its options, and commands that exist."""
    exposed = {int(port) for name, rest in found if name == "EXPOSE" for port in rest.split()}
    if exposed != set(default_ports().values()):
        yield f"it exposes {sorted(exposed)}; a server listens on {sorted(default_ports().values())}"
    environ = dict(pair.split("=", 1) for name, rest in found if name == "ENV" for pair in rest.split())
    yield from refused(environ, "ENV")
    health = next(rest for name, rest in found if name == "HEALTHCHECK")
    called = [json.loads(health[health.index("[") :])[1], *json.loads(dict(found)["CMD"])]
    known = set(COMMANDS)
    yield from (f"there is no command {name}" for name in called if name not in known)
