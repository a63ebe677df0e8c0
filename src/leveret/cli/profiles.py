"""Profiles: servers that one person uses, by name, in profiles.toml.

    default = "shop"                    the profile of commands that name none

    [shop]
    url = "https://mq.example:15671"
    token = "lvk_..."                   or a user and a password in the URL
    vhost = "orders"
    ca_file = "ca.pem"                  who signed the certificate of the server; relative to this file

It lies in $XDG_CONFIG_HOME/leveret, by default ~/.config/leveret, and only its owner may read it.
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from leveret.core.errors import InvalidArgument, NotFound

FILE_BYTES_MAX = 1 << 20  # it is read into memory
OTHERS = stat.S_IRWXG | stat.S_IRWXO
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Profile:
    """A server, and who asks it."""

    url: str | None = None
    token: str | None = None
    vhost: str | None = None
    ca_file: str | None = None

    def __repr__(self) -> str:
        return "<Profile>"


NAMES = tuple(each.name for each in fields(Profile))


def path_of(environ: Mapping[str, str]) -> Path:
    """Where the file of profiles is."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "."), ".config")
    return Path(home) / "leveret" / "profiles.toml"


def profile_of(name: str | None, environ: Mapping[str, str]) -> Profile:
    """The profile of a name; without one the default, which may say nothing."""
    path = path_of(environ)
    found = _read(path)
    wanted = name or found.get(DEFAULT)
    if wanted is None:
        return Profile()
    known = {each: table for each, table in found.items() if isinstance(table, dict)}
    if wanted not in known:
        raise NotFound(f"{path} has no profile {wanted!r}: it has {', '.join(sorted(known)) or 'none'}")
    return _profile(path, str(wanted), known[wanted])


def _profile(path: Path, name: str, table: dict[str, Any]) -> Profile:
    """A profile, checked; what it says is not repeated in errors, for it may be secret."""
    for key, value in table.items():
        if key not in NAMES or not isinstance(value, str):
            raise InvalidArgument(f"{path}: profile {name!r} has texts called {', '.join(NAMES)}; correct {key!r}")
    ca_file = table.get("ca_file")
    return Profile(**{**table, "ca_file": None if ca_file is None else str(path.parent / ca_file)})


def _read(path: Path) -> dict[str, Any]:
    """What the file says; nothing when there is none."""
    try:
        with path.open("rb") as file:
            _check_mode(path, os.fstat(file.fileno()).st_mode)
            text = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    if len(text) > FILE_BYTES_MAX:
        raise InvalidArgument(f"{path} is over {FILE_BYTES_MAX} bytes: it is no file of profiles")
    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError):
        raise InvalidArgument(f"{path} is not TOML: correct it, or move it away") from None


def _check_mode(path: Path, mode: int) -> None:
    """Refuse secrets that others can read."""
    if mode & OTHERS:
        raise InvalidArgument(f"others may read {path}, and there are secrets in it: chmod 600 {path}")
