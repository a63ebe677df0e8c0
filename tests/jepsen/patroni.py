"""Three PostgreSQL under Patroni: a commit waits for one of the two standbys, and whoever is promoted has all of them.

Patroni runs as the user of PostgreSQL, each beside its own server, and is reached by its REST API.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from tests.cluster.coordination.etcd_process import free_ports
from tests.machine import Machine
from tests.parts import program
from tests.postgres_server import AS_POSTGRES, FAST, SYSTEM_USER, USER, need_postgres

PATIENCE_S = 90.0
POLL_S = 0.1
ASKED_S = 2.0
ORDERED_S = 30.0
STUCK_S = 30.0
LOG_SHOWN_MAX = 2_000
PATRONI = Path(sys.executable).with_name("patroni")
RULES: dict[str, Any] = {
    # A leader that is lost is missed after `ttl`, of which 20 is the least that Patroni takes.
    "ttl": 20,
    "loop_wait": 2,
    "retry_timeout": 4,
    "synchronous_mode": "quorum",
    "synchronous_mode_strict": True,
    "failsafe_mode": True,  # without etcd a leader goes on that reaches all the others
    "primary_start_timeout": 0,  # a primary that ends is not waited for
    "postgresql": {"use_pg_rewind": True, "use_slots": True},
}


class Member:
    """One PostgreSQL and its Patroni."""

    def __init__(self, folder: Path, machine: Machine, etcd: Sequence[str]) -> None:
        """Nothing runs yet."""
        self.name = machine.name
        self.address = machine.address
        self.port, rest = free_ports(2)
        self._rest = f"{machine.address}:{rest}"
        self._folder = folder / f"patroni-{machine.name}"
        self._etcd = [each.removeprefix("http://") for each in etcd]
        self._command = [*machine.prefix, *_as_postgres(), sys.executable, str(PATRONI), str(self._folder / "yml")]
        self._process: subprocess.Popen[bytes] | None = None

    def _settings(self) -> dict[str, Any]:
        """What Patroni reads; JSON is YAML, too."""
        place = f"{self.address}:{self.port}"
        user = {"username": USER}
        parameters = {**FAST, "unix_socket_directories": str(self._folder), "wal_retrieve_retry_interval": "200ms"}
        del parameters["listen_addresses"]  # Patroni's own
        parameters["wal_sender_timeout"] = "5s"
        return {
            "scope": "jepsen",
            "name": self.name,
            "restapi": {"listen": self._rest, "connect_address": self._rest},
            "etcd3": {"hosts": self._etcd},
            "bootstrap": {
                "dcs": RULES,
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}, "no-sync", "data-checksums"],
            },
            "postgresql": {
                "listen": place,
                "connect_address": place,
                "data_dir": str(self._folder / "data"),
                "pgpass": str(self._folder / "pgpass"),
                "bin_dir": str(Path(str(program("postgres"))).parent),
                "authentication": {"superuser": user, "replication": user, "rewind": user},
                "pg_hba": ["host all all all trust", "host replication all all trust"],
                "parameters": parameters,
                "basebackup": ["no-sync", {"checkpoint": "fast"}],
            },
        }

    def start(self) -> None:
        """Start Patroni, which starts PostgreSQL."""
        self._folder.mkdir(exist_ok=True)
        (self._folder / "yml").write_text(json.dumps(self._settings()))
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", SYSTEM_USER, str(self._folder)], check=True)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    @property
    def runs(self) -> bool:
        """Whether Patroni has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What Patroni and PostgreSQL have logged."""
        return (self._folder / "log").read_text()

    def postmaster(self) -> int:
        """The number of the first process of PostgreSQL."""
        return int((self._folder / "data" / "postmaster.pid").read_text().split()[0])

    def crash(self) -> None:
        """End PostgreSQL as by a power cut, when it runs; Patroni is there."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                os.kill(self.postmaster(), signal.SIGKILL)
                return
            except (OSError, ValueError):  # it is just being started again after what was before
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_S)

    def kill(self) -> None:
        """End both as by a power cut."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None
        with suppress(OSError, ValueError):  # it had ended
            os.kill(self.postmaster(), signal.SIGKILL)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """What its Patroni says; None when it does not."""
        data = None if body is None else json.dumps(body).encode()
        patience_s = ASKED_S if body is None else ORDERED_S
        try:
            with urllib.request.urlopen(f"http://{self._rest}{path}", data, timeout=patience_s) as answer:
                text = answer.read()
                return json.loads(text) if text.startswith(b"{") else text.decode()
        except OSError:
            return None


class Trio:
    """All three."""

    def __init__(self, folder: Path, machines: Iterable[Machine], etcd: Sequence[str]) -> None:
        """Nothing runs yet."""
        need_postgres()
        self.members = {each.name: Member(folder, each, etcd) for each in machines}

    def url(self, schema: str = "") -> str:
        """Where the one that can be written to is reached."""
        places = ",".join(f"{each.address}:{each.port}" for each in self.members.values())
        options = f"&options={quote(f'-csearch_path={schema}')}" if schema else ""
        return f"postgresql://{USER}@{places}/postgres?target_session_attrs=read-write&connect_timeout=2{options}"

    def start(self) -> None:
        """Start all, and wait until each commit is on two of them."""
        for member in self.members.values():
            member.start()
        self.wait()

    def wait(self) -> None:
        """Wait until there is a leader, and both others follow it; one that is stuck gets a new copy."""
        began = time.monotonic()
        copied: set[str] = set()
        while missing := self.missing():
            waited_s = time.monotonic() - began
            if waited_s > PATIENCE_S or not any(each.runs for each in self.members.values()):
                raise AssertionError("\n".join(each.log[-LOG_SHOWN_MAX:] for each in self.members.values()))
            if waited_s > STUCK_S and self.leader() is not None:
                for name in missing - copied:
                    self.members[name].ask("/reinitialize", {"force": True})
                copied |= missing
            time.sleep(POLL_S)

    def missing(self) -> set[str]:
        """Those who are neither the leader nor a standby that follows it now and counts for a quorum."""
        found = self._cluster()
        timeline = next((each.get("timeline") for each in found if each.get("role") == "leader"), None)
        there = {
            each["name"]
            for each in found
            if each.get("role") == "leader"
            or (each.get("role"), each.get("state"), each.get("timeline")) == ("quorum_standby", "streaming", timeline)
        }
        return self.members.keys() - there

    def leader(self) -> str | None:
        """Who is the primary, as far as most know."""
        return next((str(each["name"]) for each in self._cluster() if each.get("role") == "leader"), None)

    def _cluster(self) -> list[dict[str, Any]]:
        for member in self.members.values():
            found = member.ask("/cluster")
            if isinstance(found, dict) and found.get("members"):
                return list(found["members"])
        return []

    def wait_for_another(self, former: str) -> None:
        """Wait until another one is the primary."""
        deadline = time.monotonic() + PATIENCE_S
        while self.leader() in (None, former):
            if time.monotonic() > deadline:
                raise AssertionError(f"nobody took the place of {former}")
            time.sleep(POLL_S)

    def switch_over(self) -> None:
        """Let a standby take the place of the primary as an operator would."""
        former = self.leader()
        assert former is not None, "there is no primary"
        self.members[former].ask("/switchover", {"leader": former})
        self.wait_for_another(former)

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement on the primary, when there is one."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with psycopg.connect(self.url(), autocommit=True) as connection:
                    cursor = connection.execute(statement.encode())
                    return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_S)

    def close(self) -> None:
        """End all."""
        for member in self.members.values():
            member.kill()


def _as_postgres() -> list[str]:
    """How a command runs as the user of PostgreSQL, which root may not be, and reads the Python of root."""
    if os.geteuid() != 0:
        return []
    right = "+dac_read_search"
    return [*AS_POSTGRES, f"--inh-caps={right}", f"--ambient-caps={right}"]
