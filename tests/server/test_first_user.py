"""The first administrator: guest on loopback, else a random password that is printed once and kept in a file."""

import asyncio
import logging
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.operations.perform import durably
from leveret.security.access import Access
from leveret.security.passwords import hash_password
from leveret.server.addresses import Sockets
from leveret.server.first_user import FILE_NAME, NAME, FirstUser, first_user, make_first_user
from tests.protocols.amqp.client import CHEAP
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess

HERE, ANYWHERE = "127.0.0.1", "0.0.0.0"


@pytest.fixture
def bound() -> Iterator[ExitStack]:
    """Sockets that are bound; nobody can connect, since none listens."""
    with ExitStack() as stack:
        yield stack


def sockets(bound: ExitStack, *hosts: str) -> Sockets:
    made: Sockets = {"amqp": [], "http": []}
    for host in hosts:
        for each in made.values():
            one = bound.enter_context(closing(socket.socket()))
            one.bind((host, 0))
            each.append(one)
    return made


@pytest.mark.parametrize(
    ("hosts", "options", "name", "password"),
    [
        ((HERE,), {}, "guest", "guest"),
        ((), {}, "guest", "guest"),
        ((ANYWHERE,), {}, NAME, None),
        ((HERE, ANYWHERE), {}, NAME, None),
        ((HERE,), {"default_user": "root"}, "root", None),
        ((ANYWHERE,), {"default_user": "root"}, "root", None),
        ((ANYWHERE,), {"default_user": "root", "default_password": "given"}, "root", "given"),
        ((ANYWHERE,), {"default_password": "given"}, "guest", "given"),
        ((HERE,), {"default_user": None}, None, None),
        ((ANYWHERE,), {"default_user": None}, None, None),
    ],
)
def test_which_user_is_the_first(
    bound: ExitStack, hosts: tuple[str, ...], options: dict[str, Any], name: str | None, password: str | None
) -> None:
    found = first_user(ServerOptions(**options), sockets(bound, *hosts))
    assert (None if found is None else found.name) == name
    if found is not None and password is None:
        assert found.is_generated
        assert len(found.password) >= 20
        assert found.password not in repr(found)
    elif found is not None:
        assert found == FirstUser(found.name, str(password))


def start(broker: leveret.Broker, folder: Path, listening: Sockets) -> Access:
    """What a server does about users when it starts."""
    with broker.runtime as core:
        access = Access(core, None, CHEAP)
    options = ServerOptions(data=str(folder))
    asyncio.run(make_first_user(options, listening, access, durably(broker.runtime)))
    return access


def test_a_random_password_is_printed_once_and_kept_in_a_file(
    bound: ExitStack, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    listening = sockets(bound, ANYWHERE)
    with leveret.open(str(tmp_path / "broker")) as broker:
        access = start(broker, tmp_path, listening)
        printed = capsys.readouterr().err
        path = tmp_path / FILE_NAME
        name, _, password = path.read_text().strip().partition(":")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert (name, f"password  {password}" in printed, f"user      {name}" in printed) == (NAME, True, True)
        assert password not in caplog.text
        assert access.users.check(name, password.encode(), "192.0.2.1", 0).user is not None, "from other machines"
        assert access.users.get(name).tags == {"administrator"}
        assert "guest" not in access.users
        with caplog.at_level(logging.WARNING):
            start(broker, tmp_path, listening)
        assert password not in capsys.readouterr().err
        assert "first password still in a file" in caplog.text
        assert password in path.read_text()


def test_guest_stays_for_loopback(bound: ExitStack, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with leveret.open(str(tmp_path / "broker")) as broker:
        access = start(broker, tmp_path, sockets(bound, HERE))
        assert [user.name for user in access.users] == ["guest"]
        assert access.users.check("guest", b"guest", "127.0.0.1", 0).user is not None
        assert access.users.check("guest", b"guest", "192.0.2.1", 0).user is None
    assert capsys.readouterr().err == ""
    assert not (tmp_path / FILE_NAME).exists()


def test_who_has_only_guest_is_told_how_to_add_an_administrator(
    bound: ExitStack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with leveret.open(str(tmp_path / "broker")) as broker:
        start(broker, tmp_path, sockets(bound, HERE))
        with caplog.at_level(logging.WARNING):
            access = start(broker, tmp_path, sockets(bound, ANYWHERE))
        (record,) = (each for each in caplog.records if each.message == "no administrator for other machines")
        assert "leveret users add NAME --tags administrator" in record.__dict__["fields"]["advice"]
        assert [user.name for user in access.users] == ["guest"], "nobody is let in silently"
        with broker.runtime:
            access.add_user("ada", hash_password("a password", CHEAP), ["administrator"])
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            start(broker, tmp_path, sockets(bound, ANYWHERE))
        assert not caplog.records


def test_a_node_that_was_not_the_first_prints_and_keeps_nothing(
    bound: ExitStack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with leveret.open() as broker:
        with broker.runtime as core:
            access = Access(core, None, CHEAP)

        async def decide(verb: object) -> bool:
            assert (tmp_path / FILE_NAME).exists(), "before the user: a crash must not leave one without a password"
            return False  # another node has made one meanwhile

        asyncio.run(make_first_user(ServerOptions(data=str(tmp_path)), sockets(bound, ANYWHERE), access, decide))
    assert capsys.readouterr().err == ""
    assert not (tmp_path / FILE_NAME).exists()


def test_a_server_with_a_name_and_no_password(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--default-user", "root") as server:
        name, _, password = (server.data / FILE_NAME).read_text().strip().partition(":")
        assert f"password  {password}" in server.text
        assert Api(server.ports["http"], name, password).get("/whoami")["name"] == "root"
        assert Api(server.ports["http"]).call("GET", "/whoami").status == 401, "there is no guest"


def test_a_default_password_that_is_too_short_is_refused(bound: ExitStack, tmp_path: Path) -> None:
    with leveret.open() as broker:
        with broker.runtime as core:
            access = Access(core, None, CHEAP)
        options = ServerOptions(data=str(tmp_path), default_user="root", default_password="short")
        with pytest.raises(InvalidArgument, match="default_password: the password has 5 characters, the minimum is 8"):
            asyncio.run(make_first_user(options, sockets(bound, ANYWHERE), access, durably(broker.runtime)))
        assert not len(access.users)


def test_the_shortest_password_is_an_option(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--password-chars-min", "3") as server:
        api = Api(server.ports["http"])
        api.put("/users/ada", {"password": "abc", "tags": ""})
        assert api.call("PUT", "/users/ada", {"password": "ab", "tags": ""}).status == 400
        told = api.call("POST", "/definitions", {"users": [{"name": "bob", "password": "ab", "tags": ""}]}).body
        assert "at least 3 characters" in told["skipped"][0]
