"""The first administrator of a server, or of a cluster, that has no user.

    default_password is set     default_user with that password
    loopback listeners only     guest with the password guest; the server accepts guest from this machine only
    any other listener          admin, or default_user, with a random password: in the file first-password of the data
                                directory (USER:PASSWORD, mode 0600), and printed once on the standard error stream

The file is written before the user exists, so that a crash in between leaves no user whose password is lost.
"""

import asyncio
import os
import secrets
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.file_sync import sync
from leveret.observability.logs import Log
from leveret.security.access import ADMINISTRATOR, GUEST, Access
from leveret.security.passwords import check_new, hash_password
from leveret.security.peers import is_loopback
from leveret.security.users import LOOPBACK_USERS
from leveret.server.addresses import Sockets

FILE_NAME = "first-password"
NAME = "admin"
PASSWORD_BYTES = 18  # of chance: 24 characters

LOG = Log("server")

Decide = Callable[[Callable[[], bool]], Awaitable[bool]]
"""Runs a verb on the definitions and gives its result once that lasts; the verb may be run more than once."""


@dataclass(frozen=True, slots=True)
class FirstUser:
    """The user that is made when there is none."""

    name: str
    password: str = field(repr=False)
    is_generated: bool = False


def first_user(options: ServerOptions, sockets: Sockets) -> FirstUser | None:
    """Which user is made when there is none."""
    if options.default_user is None:
        return None
    if options.default_password:
        return FirstUser(options.default_user, options.default_password)
    if options.default_user == GUEST[0] and is_local(sockets):
        return FirstUser(*GUEST)
    name = NAME if options.default_user in LOOPBACK_USERS else options.default_user
    return FirstUser(name, secrets.token_urlsafe(PASSWORD_BYTES), is_generated=True)


def is_local(sockets: Sockets) -> bool:
    """Whether only clients on this machine can connect."""
    return all(is_loopback(bound.getsockname()[0]) for each in sockets.values() for bound in each)


async def make_first_user(options: ServerOptions, sockets: Sockets, access: Access, decide: Decide) -> None:
    """Make the first user if there is none; say what the operator has to do, if anything."""
    first = None if len(access.users) else first_user(options, sockets)
    if first is None:
        advise(options, sockets, access)
        return
    if first.is_generated:
        _keep(options.data, first)
    elif (first.name, first.password) != GUEST:
        check_default(options, first)
    stored = await asyncio.to_thread(hash_password, first.password)
    made = await decide(lambda: access.add_default_user(first.name, stored))
    if first.is_generated and made:
        _tell(options.data, first)
    elif first.is_generated:  # another node of the cluster was first
        with suppress(FileNotFoundError):
            os.unlink(_path(options.data))


def check_default(options: ServerOptions, first: FirstUser) -> None:
    """Refuse a default_password that is too short for a new user."""
    try:
        check_new(first.password, options.password_chars_min)
    except InvalidArgument as error:
        raise InvalidArgument(f"default_password: {error}, or leave it out for a random one") from None


def advise(options: ServerOptions, sockets: Sockets, access: Access) -> None:
    """Log what is left to do for the operator."""
    if os.path.exists(_path(options.data)):
        LOG.warning(
            "first password still in a file",
            file=_path(options.data),
            advice="change the password of its user, then delete the file",
        )
    if is_local(sockets) or not len(access.users):
        return
    if not any(ADMINISTRATOR in user.tags for user in access.users if user.name not in LOOPBACK_USERS):
        LOG.warning(
            "no administrator for other machines",
            reason=f"{', '.join(sorted(LOOPBACK_USERS))} can log in from this machine only",
            advice=f"leveret users add NAME --tags administrator --data {options.data}",
        )


def _path(directory: str) -> str:
    return os.path.join(directory, FILE_NAME)


def _keep(directory: str, first: FirstUser) -> None:
    """Write the file, for its owner only; one that is there is of a start that was interrupted."""
    path = _path(directory)
    with suppress(FileNotFoundError):
        os.unlink(path)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{first.name}:{first.password}\n")
        file.flush()
        sync(file.fileno())
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(folder)
    finally:
        os.close(folder)


def _tell(directory: str, first: FirstUser) -> None:
    """Print the password; not as an event, which would hide it."""
    print(
        f"\nThis server had no user. Its administrator is\n\n"
        f"    user      {first.name}\n    password  {first.password}\n\n"
        f"The file {_path(directory)} has it, too. Change the password (leveret users password {first.name}), "
        "then delete the file.\n",
        file=sys.stderr,
        flush=True,
    )
