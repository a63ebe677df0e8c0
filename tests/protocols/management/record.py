"""Records what a real RabbitMQ answers: python -m tests.protocols.management.record

recorded.json       who may ask what, the names in each answer, and the answers of health checks
definitions.json    an export of its definitions
"""

import json
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.protocols.management.requests import EVERYTHING, HEALTH, READ, TAGS, WRITE, place
from tests.protocols.management.scene import VHOST, Api, define, paths, traffic
from tests.rabbitmq import rabbit

HERE = Path(__file__).parent
SETTINGS = "management.tcp.port = {port}\nmanagement.tcp.ip = 127.0.0.1\ncollect_statistics_interval = 500\n"
SHORT_OF_MEMORY = "vm_memory_high_watermark.absolute = 1MB\n"
PATIENCE_S = 60
SETTLED_S = 6  # until rates have been sampled twice


def wait_for(api: Api) -> None:
    """Come back when the API answers."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(OSError):
            api.get("/whoami")
            return
        time.sleep(0.2)
    raise AssertionError("the management API does not answer")


def users() -> list[tuple[str, str, bool]]:
    """Name and tag of everybody who asks, and whether he may enter the virtual host."""
    return [(f"{tag or 'none'}-{'in' if inside else 'out'}", tag, inside) for tag in TAGS for inside in (True, False)]


def places(api: Api) -> dict[str, str]:
    """What paths name that is called otherwise on every run."""
    deadline = time.monotonic() + PATIENCE_S
    while not (api.get("/connections") and api.get("/channels")):
        assert time.monotonic() < deadline, "nobody is connected"
        time.sleep(0.1)
    connection, channel = api.get("/connections")[0]["name"], api.get("/channels")[0]["name"]
    return {
        "node": quote(api.get("/overview")["node"], safe=""),
        "connection": quote(connection, safe=""),
        "channel": quote(channel, safe=""),
        "port": str(api.port),
    }


def ask_as(api: Api, name: str, tag: str, inside: bool, named: dict[str, str]) -> dict[str, int]:
    """The status of every request of one user."""
    api.put(f"/users/{name}", {"password": "long enough", "tags": tag})
    if inside:
        api.put(f"/permissions/{VHOST}/{name}", EVERYTHING)
    asking = Api(api.port, name, "long enough")
    requests = [("GET", path, None) for path in READ] + list(WRITE)
    found = {
        f"{method} {path}": asking.call(method, place(path, named), body).status for method, path, body in requests
    }
    api.delete(f"/users/{name}")
    return found


def shapes(api: Api, named: dict[str, str]) -> dict[str, list[str]]:
    """The names in each answer."""
    found = {}
    for path in READ:
        names = {name.replace(named["node"].replace("%40", "@"), "NODE") for name in paths(api.get(place(path, named)))}
        found[path] = sorted(names)
    return found


def record(amqp_port: int, port: int) -> dict[str, Any]:
    """Ask everything."""
    api = Api(port)
    wait_for(api)
    define(api)
    with traffic(amqp_port):
        named = places(api)
        time.sleep(SETTLED_S)
        found: dict[str, Any] = {"shapes": shapes(api, named), "statuses": {}}
        (HERE / "definitions.json").write_text(json.dumps(api.get("/definitions"), indent=1) + "\n")
        for name, tag, inside in users():
            for request, status in ask_as(api, name, tag, inside, named).items():
                found["statuses"].setdefault(request, {})[name] = status
    return found


def health(api: Api, state: str) -> dict[str, Any]:
    """Status and answer of every health check, without what differs between machines."""
    return {f"{state} {path}": told_health(api, path) for path in HEALTH}


def told_health(api: Api, path: str) -> list[Any]:
    """Status and answer of one check."""
    node, port = api.get("/overview")["node"], str(api.port)
    status, told, _ = api.call("GET", path.format(node=quote(node, safe=""), port=port))
    kept = {name: value for name, value in told.items() if name not in ("ports", "protocols")}
    return [status, json.loads(json.dumps(kept).replace(node, "NODE").replace(port, '"PORT"'))]


def written(found: dict[str, dict[str, Any]]) -> str:
    """JSON with a line for each request."""
    parts = []
    for part, rows in found.items():
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
        parts.append(f"{json.dumps(part)}: {{\n{lines}\n}}")
    return "{" + ",\n".join(parts) + "}\n"


def main() -> int:
    """Start a RabbitMQ and ask it."""
    port = rabbit.free_port()
    settings = SETTINGS.format(port=port)
    with (
        tempfile.TemporaryDirectory() as folder,
        rabbit.running(Path(folder), "[rabbitmq_management].", settings) as (_, amqp_port),
    ):
        found = record(amqp_port, port)
        found["health"] = health(Api(port), "well")
    with (
        tempfile.TemporaryDirectory() as folder,
        rabbit.running(Path(folder), "[rabbitmq_management].", settings + SHORT_OF_MEMORY),
    ):
        wait_for(Api(port))
        time.sleep(SETTLED_S)
        found["health"] |= health(Api(port), "alarm")
    (HERE / "recorded.json").write_text(written(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
