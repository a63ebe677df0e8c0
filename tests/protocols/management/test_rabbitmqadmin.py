"""RabbitMQ's own command line, as Debian has it."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.parts import need_rabbitmqadmin
from tests.protocols.management.recorded import HERE
from tests.protocols.management.scene import VHOST, Api
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S


@pytest.fixture
def admin(server: ServerProcess) -> "Admin":
    return Admin(need_rabbitmqadmin(), server.ports["http"])


class Admin:
    """Calls the program."""

    def __init__(self, program: list[str], port: int) -> None:
        self._command = [*program, "--host=127.0.0.1", f"--port={port}", f"--vhost={VHOST}"]

    def run(self, *words: str) -> str:
        """What it prints; a failure fails the test."""
        done = subprocess.run([*self._command, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def rows(self, *words: str) -> list[dict[str, object]]:
        """What it prints as JSON."""
        found: list[dict[str, object]] = json.loads(self.run("--format=raw_json", *words))
        return found


def test_it_declares_publishes_gets_and_purges(admin: Admin, api: Api) -> None:
    admin.run("declare", "queue", "name=letters", "durable=true", 'arguments={"x-max-priority": 3}')
    admin.run("declare", "exchange", "name=post", "type=topic", "durable=false")
    admin.run("declare", "binding", "source=post", "destination=letters", "routing_key=air.#")
    assert admin.run("publish", "exchange=post", "routing_key=air.mail", "payload=hello").strip() == "Message published"
    assert "NOT routed" in admin.run("publish", "exchange=post", "routing_key=sea.mail", "payload=lost")
    assert admin.rows("get", "queue=letters")[0]["payload"] == "hello"
    assert api.get(f"/queues/{VHOST}/letters")["messages"] == 1
    admin.run("purge", "queue", "name=letters")
    assert api.get(f"/queues/{VHOST}/letters")["messages"] == 0
    rows = admin.rows("list", "bindings", "source", "properties_key")
    assert {"source": "post", "properties_key": "air.%23"} in rows
    admin.run(
        "delete", "binding", "source=post", "destination_type=queue", "destination=letters", "properties_key=air.%23"
    )
    assert all(row["source"] != "post" for row in api.get(f"/bindings/{VHOST}"))
    admin.run("delete", "queue", "name=letters")
    admin.run("delete", "exchange", "name=post")
    assert api.call("GET", f"/queues/{VHOST}/letters").status == 404


@pytest.mark.parametrize(
    "what",
    [
        "users", "vhosts", "connections", "channels", "consumers", "exchanges", "queues", "bindings", "nodes",
        "permissions", "policies", "operator_policies", "parameters", "vhost_limits",
    ],
)  # fmt: skip
def test_it_lists(admin: Admin, what: str) -> None:
    assert isinstance(admin.rows("list", what), list)


def test_it_shows_a_table(admin: Admin) -> None:
    assert "| orders" in admin.run("list", "queues", "name", "messages")
    assert "rabbitmq_version" in admin.run("show", "overview")


def test_it_sets_users_permissions_policies_and_limits(admin: Admin, api: Api) -> None:
    admin.run("declare", "user", "name=bob", "password=the-builder", "tags=monitoring")
    admin.run("declare", "permission", f"vhost={VHOST}", "user=bob", "configure=.*", "write=.*", "read=.*")
    admin.run("declare", "policy", "name=short", "pattern=^bob", 'definition={"max-length":5}', "apply-to=queues")
    admin.run("declare", "vhost", "name=bobs")
    assert api.get("/users/bob")["tags"] == ["monitoring"]
    assert api.get(f"/policies/{VHOST}/short")["definition"] == {"max-length": 5}
    admin.run("delete", "policy", "name=short")
    admin.run("delete", "vhost", "name=bobs")
    admin.run("delete", "user", "name=bob")
    assert api.call("GET", "/users/bob").status == 404


def test_it_exports_and_imports(admin: Admin, tmp_path: Path, api: Api) -> None:
    admin.run("export", str(tmp_path / "file.json"))
    assert "orders" in (tmp_path / "file.json").read_text()
    admin.run("import", str(HERE / "definitions.json"))


def test_it_closes_a_connection(admin: Admin, server: ServerProcess) -> None:
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    name = admin.rows("list", "connections", "name")[-1]["name"]
    admin.run("close", "connection", f"name={name}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="Closed via"):
        connection.process_data_events(PATIENCE_S)
