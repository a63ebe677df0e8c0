"""Passwords from the terminal or standard input: hashed here, so that they go no further."""

import os
import sys
from argparse import ArgumentParser, Namespace
from getpass import getpass

from leveret.core.errors import InvalidArgument
from leveret.security.passwords import NO_PASSWORD, PASSWORD_BYTES_MAX, hash_new
from leveret.server.settings import server_options


def add_flags(parser: ArgumentParser) -> None:
    """The ways to give a password; without any of them it is asked for."""
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--password-stdin", action="store_true", help="read the password from the standard input")
    ways.add_argument("--password", metavar="TEXT", help="the password; others on this machine can see it there")
    ways.add_argument("--no-password", action="store_true", help="no password: the user comes in by a certificate only")


def hashed(given: Namespace) -> str:
    """What is stored for the password that was given or is typed now."""
    if given.no_password:
        return NO_PASSWORD
    if given.password is not None:
        print(
            "leveret: the list of processes and the history of the shell show --password: use --password-stdin",
            file=sys.stderr,
        )
        return hash_new(given.password, chars_min(given))
    return hash_new(from_stdin() if given.password_stdin else typed(), chars_min(given))


def chars_min(given: Namespace) -> int:
    """Fewest characters of a password, as the options of the server say that are known here."""
    return server_options({}, os.environ, given.config).password_chars_min


def from_stdin() -> bytes:
    """The first line of the standard input."""
    return sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 2).removesuffix(b"\n").removesuffix(b"\r")


def typed() -> str:
    """The password as the user types it, twice."""
    if not sys.stdin.isatty():
        raise InvalidArgument("there is no terminal to type the password at: use --password-stdin")
    password = getpass("password: ")
    if getpass("again: ") != password:
        raise InvalidArgument("the two passwords differ: try again")
    return password
