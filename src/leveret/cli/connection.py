"""Which server a command asks, and as whom: flags win over the environment, that over a profile.

A token goes only where it belongs: that of a profile is not sent to a URL that came from somewhere else.
"""

import os
import ssl
import sys
from argparse import ArgumentParser, Namespace
from typing import Any
from urllib.parse import urlsplit

from leveret.cli.profiles import Profile, profile_of
from leveret.client.broker import RemoteBroker, connect
from leveret.client.calls import ClientCall
from leveret.core.errors import InvalidArgument
from leveret.security.peers import is_loopback

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
