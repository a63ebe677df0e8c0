"""The script for certificates; the compose file without containers: its options and certificates on this machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.coordination.etcd_process import EtcdProcess, free_ports
from tests.deploy import compose
from tests.deploy.checks import certificates, documents, is_valid_for
from tests.deploy.compose import VARIABLE
from tests.parts import need_program
from tests.postgres_server import SYSTEM_USER, PostgresServer
from tests.protocols.management.scene import Api
from tests.redis_process import RedisProcess
from tests.server_process import ServerProcess
from tests.waiting import wait_until

HERE = "127.0.0.1"
PASSWORD = "a password that is long enough for a secret"


@pytest.fixture(autouse=True)
def _openssl() -> None:
    need_program("openssl")


# The script


def test_each_certificate_is_valid_for_its_hosts_as_server_and_as_client(tmp_path: Path) -> None:
    made = certificates(tmp_path, ["one", "two:b.example,*.c.example", "three:10.0.0.1,::1"])
    valid = {"one": ["one"], "two": ["b.example", "x.c.example"], "three": []}
    for name, hosts in valid.items():
        for host in ("one", "b.example", "x.c.example", "c.example"):
            assert is_valid_for(made / name / "tls.crt", made / name / "ca.crt", host) == (host in hosts)
        assert {path.name: path.stat().st_mode & 0o777 for path in (made / name).iterdir()} == {
            "ca.crt": 0o644,
            "tls.crt": 0o644,
            "tls.key": 0o600,
        }
    command = ["openssl", "x509", "-in", str(made / "three" / "tls.crt"), "-text"]
    shown = subprocess.run(command, capture_output=True, check=True)
    assert b"IP Address:10.0.0.1, IP Address:0:0:0:0:0:0:0:1" in shown.stdout


def test_certificates_are_kept_until_they_have_to_be_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["one", "two:b.example"]

    def made() -> dict[str, str]:
        folder = certificates(tmp_path, words)
        return {name: (folder / name / "tls.crt").read_text() for name in ("one", "two")}

    first = made()
    assert made() == first
    words[1] = "two:b.example,c.example"
    second = made()
    assert (second["one"] == first["one"], second["two"] == first["two"]) == (True, False)
    monkeypatch.setenv("RENEW_DAYS", "366")
    assert not set(made().values()) & set(second.values())
    shutil.rmtree(tmp_path / "authority")
    monkeypatch.setenv("RENEW_DAYS", "30")
    folder = certificates(tmp_path, words)
    assert is_valid_for(folder / "one" / "tls.crt", tmp_path / "authority" / "ca.crt", "one")


def test_a_wildcard_with_one_name_behind_it_is_none(tmp_path: Path) -> None:
    made = certificates(tmp_path, ["nodes:*.leveret-nodes"])
    assert not is_valid_for(made / "nodes" / "tls.crt", made / "nodes" / "ca.crt", "leveret-0.leveret-nodes")


# The compose file


class Stack:
    """PostgreSQL, etcd and Redis as the compose file has them, but one of each, on loopback."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.services: dict[str, Any] = compose.whole()["services"]
        self.postgres_port, self.redis_port = free_ports(2)
        self._folder = folder
        settings = {"listen_addresses": HERE, "port": str(self.postgres_port)}
        self._postgres = PostgresServer(**settings)
        stack.callback(shutil.rmtree, self._postgres.folder)
        words = [self._word(word) for word in self.services["certificates"]["entrypoint"][4:]]
        self.made = certificates(self._postgres.folder, words)
        self.etcd = self._etcd()
        stack.enter_context(self.etcd)
        stack.enter_context(self._redis())
        self._start_postgres()
        stack.callback(self._postgres.stop)

    def _word(self, word: str) -> str:
        """A certificate that is valid for this machine as well; its key belongs to whom it has to."""
        name = word.partition("@")[0]
        is_root = os.geteuid() == 0 and name.startswith("postgres")
        return f"{name},{HERE}" + (f"@{SYSTEM_USER}" if is_root else "")

    def here(self, value: str) -> str:
        """An option as it has to be on this machine: other places and ports."""
        value = VARIABLE.sub(PASSWORD, value).replace("/certificates/", f"{self.made}/")
        value = re.sub(r"(https://etcd\d:2379,?)+", self.etcd.url, value)
        value = value.replace("redis:6379", f"{HERE}:{self.redis_port}")
        return value.replace("postgres1,postgres2,postgres3/", f"{HERE}:{self.postgres_port}/")

    def _etcd(self) -> EtcdProcess:
        flags = []
        for name, value in self.services["etcd1"]["environment"].items():
            if name.startswith("ETCD_") and ("/certificates/" in value or name.endswith("_CERT_AUTH")):
                flag = "--" + name.removeprefix("ETCD_").lower().replace("_", "-")
                flags.append(f"{flag}={value.replace('/certificates', str(self.made))}")
        assert len(flags) == 8
        made = EtcdProcess(self._folder, *flags, scheme="https")
        made._peer = made._peer.replace("http:", "https:")
        return made

    def _redis(self) -> RedisProcess:
        words = [self.here(word) for word in self.services["redis"]["command"][1:]]
        at = words.index("--tls-port")
        assert words[words.index("--port") + 1] == "0"
        del words[words.index("--port") : words.index("--port") + 2]  # by the other one the test asks whether it runs
        at = words.index("--tls-port")
        words[at + 1] = str(self.redis_port)
        words[words.index("--requirepass") :] = []
        return RedisProcess(self._folder, *words, password=PASSWORD)

    def _start_postgres(self) -> None:
        (file,) = documents(compose.FOLDER / "patroni" / "patroni.yml")
        parameters = file["bootstrap"]["dcs"]["postgresql"]["parameters"]
        ssl = {name: self.here(value) for name, value in parameters.items() if name.startswith("ssl")}
        rules = ["local all all trust", *file["postgresql"]["pg_hba"][1:]]
        self._postgres.make()
        (self._postgres.folder / "data" / "pg_hba.conf").write_text("\n".join(rules) + "\n")
        self._postgres.start(**ssl)
        self._postgres.sql(f"create role postgres superuser login password '{PASSWORD}'")

    def node(self, name: str, **other: str) -> ServerProcess:
        """A node with the environment of the compose file."""
        given = self.services[name]["environment"]
        environ = {
            key: self.here(value) for key, value in given.items() if not key.startswith(("AWS_", "LEVERET_BLOBS"))
        }
        environ |= {"LEVERET_HOST": HERE, "LEVERET_ANNOUNCE": HERE, "LEVERET_CLUSTER_SHARDS": "4", **other}
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return ServerProcess(folder, "--cluster-port", "0", environ=environ)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with ExitStack() as resources:
        yield Stack(tmp_path, resources)


def linked(server: ServerProcess, other: str) -> bool:
    return re.search(rf"link up\b.*\b{other}\b", server.text) is not None


def test_nodes_of_the_compose_file_use_tls_with_everything(stack: Stack) -> None:
    with stack.node("broker1") as one, stack.node("broker2") as two:
        wait_until(lambda: linked(one, "broker2") and linked(two, "broker1"), lambda: one.text + two.text)
        for server in (one, two):
            api = Api(server.ports["http"], "admin", PASSWORD)
            api.put("/queues/%2F/orders", {"durable": True})
            told = {"payload": "x", "payload_encoding": "string", "properties": {}, "routing_key": "orders"}
            assert api.post("/exchanges/%2F/amq.default/publish", told)["routed"]
            assert "redis answers" in server.text
        # A node with a certificate of another authority gets no link, though it knows the secret.
        strange = certificates(stack.made.parent / "strange", [f"broker:{HERE}"]) / "broker"
        files = {"CERT": strange / "tls.crt", "KEY": strange / "tls.key", "CA": stack.made / "broker" / "ca.crt"}
        wrong = {f"LEVERET_CLUSTER_TLS_{name}": str(path) for name, path in files.items()}
        with stack.node("broker3", **wrong) as three:
            wait_until(lambda: "node not reached" in one.text and "broker3" in one.text, lambda: one.text)
            assert not linked(one, "broker3")
            assert not linked(three, "broker1")
