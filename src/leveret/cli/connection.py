"""Which server a command asks, and as whom: flags win over the environment, that over a profile.

A token goes only where it belongs: that of a profile is not sent to a URL that came from somewhere else. Profiles are
servers that one person uses, by name, in profiles.toml:

    default = "shop"                    the profile of commands that name none

    [shop]
    url = "https://mq.example:15671"
    token = "lvk_..."                   or a user and a password in the URL
    vhost = "orders"
    ca_file = "ca.pem"                  who signed the certificate of the server; relative to this file

It lies in $XDG_CONFIG_HOME/leveret, by default ~/.config/leveret, and only its owner may read it.
"""

import os
import ssl
import stat
import sys
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from leveret.client.broker import RemoteBroker, connect
from leveret.client.calls import ClientCall
from leveret.core.errors import InvalidArgument, NotFound
from leveret.security.peers import is_loopback

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


URL, TOKEN, PROFILE = "LEVERET_URL", "LEVERET_TOKEN", "LEVERET_PROFILE"
FIRST_USER = "guest:guest"
FIRST_URL = "http://127.0.0.1:15672"
"""A server on this machine that has just been started, when nothing else is said."""
TOKEN_BYTES_MAX = 16 << 10


def add_flags(
    parser: ArgumentParser,
    *,
    vhost: bool = True,
    title: str = "server",
    default: str = f"default: ${URL}, the profile, or this machine as guest",
) -> None:
    """The flags that say where the server is."""
    group = parser.add_argument_group(title)
    group.add_argument("--url", help=f"http(s)://USER:PASSWORD@HOST:PORT; {default}")
    group.add_argument("--token-file", metavar="FILE", help=f"file with the token; default: ${TOKEN} or the profile")
    group.add_argument("--token", metavar="TEXT", help="the token; others on this machine can see it there")
    group.add_argument("--profile", metavar="NAME", help=f"a server from profiles.toml; default: ${PROFILE}")
    group.add_argument("--ca-file", metavar="FILE", help="who signed the certificate of the server")
    if vhost:
        group.add_argument("--vhost", help="the virtual host; default: that of the profile, or /")


def connected(given: Namespace, *, vhost: bool = True) -> RemoteBroker:
    """A client of the server that is meant; nothing is asked yet. Without `vhost` it asks about the whole server."""
    found = target(given)
    tls = ssl.create_default_context(cafile=found.ca_file) if found.ca_file else None
    url = found.url or FIRST_URL
    url = url if found.token else as_first_user(url)
    return connect(url, token=found.token, vhost=found.vhost if vhost else None, tls=tls)


def as_first_user(url: str) -> str:
    """A URL of this machine that names no user, with the first user of a server, who is let in from here only."""
    parts = urlsplit(url)
    anonymous = parts.username is None and is_here(parts.hostname or "")
    return url.replace("://", f"://{FIRST_USER}@", 1) if anonymous else url


def is_here(host: str) -> bool:
    """Whether a host is this machine, by its name alone: no resolver is asked."""
    return host == "localhost" or is_loopback(host)


def target(given: Namespace) -> Profile:
    """Everything that flags, environment and profile say together."""
    told = profile_of(given.profile or os.environ.get(PROFILE), os.environ)
    url = given.url or os.environ.get(URL)
    token = flagged_token(given) or os.environ.get(TOKEN)
    if url is None and token is None:
        token = told.token
    return Profile(
        url or told.url,
        token,
        getattr(given, "vhost", None) or told.vhost,
        given.ca_file or told.ca_file,
    )


def names_server(given: Namespace) -> bool:
    """Whether flags, environment or a profile say which server is asked."""
    url = given.url or os.environ.get(URL)
    return bool(url or profile_of(given.profile or os.environ.get(PROFILE), os.environ).url)


def flagged_token(given: Namespace) -> str | None:
    """The token of a flag."""
    if given.token is not None:
        print("leveret: the list of processes shows --token: use --token-file or a profile", file=sys.stderr)
        return str(given.token)
    if given.token_file is None:
        return None
    with open(given.token_file) as file:
        token = file.read(TOKEN_BYTES_MAX + 1).strip()
    if not token or len(token) > TOKEN_BYTES_MAX:
        raise InvalidArgument(f"{given.token_file} holds no token: put one line with it there")
    return token


def ask(broker: RemoteBroker, path: str) -> Any:
    """What the server answers to a question of the management API."""
    return broker.run(ClientCall("GET", f"/api{path}", lambda answer: answer.json()))
