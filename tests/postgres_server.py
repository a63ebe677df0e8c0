"""A real PostgreSQL in a directory of its own, for tests: reached by a Unix socket, stopped by its pid.

with PostgresServer() as server:
    leveret.open(server.url("some_schema"))
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg

from tests.conftest import need
from tests.machine import Machine
from tests.parts import DEBIAN_PACKAGES, program
from tests.waiting import PATIENCE_S, wait_until

USER = "leveret"
SYSTEM_USER = "postgres"  # root may not run PostgreSQL
AS_POSTGRES = ("setpriv", f"--reuid={SYSTEM_USER}", f"--regid={SYSTEM_USER}", "--clear-groups")
POLL_S = 0.01
FAST = {
    "fsync": "off",  # nothing here outlives a power cut anyway
    "listen_addresses": "",
    "max_wal_size": "256MB",
    "shared_buffers": "32MB",
    "wal_sender_timeout": "0",
}


def need_postgres() -> None:
    """Skip the test, or fail it in CI, when PostgreSQL is not on this machine."""
    need(program("initdb"), f"PostgreSQL; run `make parts` as root, or install {DEBIAN_PACKAGES['initdb']}")


class PostgresServer:
    """One server; `start` again after `stop` or `crash` to see what it kept."""

    def __init__(self, machine: Machine | None = None, /, **settings: str) -> None:
        """A fresh cluster, which is not started yet; on this machine, or on a part of it."""
        need_postgres()
        self._prefix = () if machine is None else machine.prefix
        self._account = {"user": SYSTEM_USER, "group": SYSTEM_USER, "extra_groups": []} if os.geteuid() == 0 else {}
        self.folder = Path(tempfile.mkdtemp(prefix="leveret-pg-"))
        if self._account:
            account = pwd.getpwnam(SYSTEM_USER)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self._data = self.folder / "data"
        self._settings = {**FAST, **settings, "unix_socket_directories": str(self.folder)}
        self._process: subprocess.Popen[bytes] | None = None
        self._log = self.folder / "log"

    def run(self, name: str, *arguments: str) -> None:
        """Run one of its programs to its end."""
        command = [str(program(name)), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, check=False, **self._account)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stderr.decode()

    # Starting and stopping

    def make(self) -> Self:
        """Make an empty cluster."""
        self.run("initdb", "-D", str(self._data), "--no-sync", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C")
        return self

    def copy(self, primary: "PostgresServer") -> Self:
        """Be a standby of another server from now on, whatever this one was."""
        return self._back_up(primary, "-R")

    def restore(self, primary: "PostgresServer") -> Self:
        """Be what a base backup of another server makes; the next start lets it have the rest of the log."""
        self._back_up(primary)
        (self._data / "recovery.signal").touch()
        return self

    def _back_up(self, primary: "PostgresServer", *options: str) -> Self:
        shutil.rmtree(self._data, ignore_errors=True)
        source = f"{primary.url()}&application_name={self.folder.name}"
        common = ("-X", "stream", "-c", "fast", "--no-sync")
        self.run("pg_basebackup", "-D", str(self._data), *options, *common, "-d", source)
        return self

    def start(self, **settings: str) -> Self:
        """Start it and wait until it answers."""
        wanted = [f"-c{name}={value}" for name, value in {**self._settings, **settings}.items()]
        # Only root enters a part of this machine, and becomes somebody else there.
        before, account = ([*self._prefix, *AS_POSTGRES], {}) if self._prefix else ([], self._account)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                [*before, str(program("postgres")), "-D", str(self._data), *wanted],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **account,
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"PostgreSQL did not start:\n{self._log.read_text()}")
            time.sleep(POLL_S)
        return self

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, number: int = signal.SIGINT) -> None:
        """Let it end as an operator would; connections are closed."""
        assert self._process is not None, "the server is not running"
        self._process.send_signal(number)
        self._process.wait(PATIENCE_S)
        self._process = None

    def crash(self) -> None:
        """End it without a checkpoint."""
        self.stop(signal.SIGQUIT)

    # What tests use

    @property
    def pid(self) -> int:
        """The number of its first process."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def url(self, schema: str | None = None) -> str:
        """Where it is reached, with tables in a schema."""
        place = f"postgresql:///postgres?host={quote(str(self.folder), safe='')}&user={USER}"
        if "port" in self._settings:
            place += f"&port={self._settings['port']}"
        return place if schema is None else f"{place}&options=-csearch_path%3D{schema}"

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement as an administrator."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def wait_for(self, statement: str) -> None:
        """Wait until a statement gives rows."""
        wait_until(lambda: self.sql(statement), lambda: f"nothing came of {statement}")

    def new_url(self, schema: str) -> str:
        """An empty schema, and where it is reached."""
        self.sql(f"create schema {schema}")
        return self.url(schema)

    def __enter__(self) -> Self:
        """Make a cluster and start it."""
        return self.make().start()

    def close(self) -> None:
        """Stop it if it runs, and remove everything."""
        if self._process is not None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See close."""
        self.close()
