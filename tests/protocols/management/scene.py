"""One of everything, made by the management API and by AMQP; the same on RabbitMQ and on Leveret, to be compared."""

import base64
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pika

from tests.waiting import PATIENCE_S

VHOST = "scene"


class Answer(NamedTuple):
    """What the API said."""

    status: int
    body: Any
    headers: dict[str, str]


class Api:
    """A client of the management API as one user."""

    def __init__(self, port: int, user: str = "guest", password: str = "guest", *, token: str | None = None) -> None:
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.port = port
        self.authorization = f"Basic {basic}" if token is None else f"Bearer {token}"

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request; a body that is no bytes is sent as JSON."""
        sent = {"Authorization": self.authorization, "Content-Type": "application/json", **(headers or {})}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, f"/api{path}", data, sent)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        told = {name.lower(): ", ".join(answer.headers.get_all(name, ())) for name in answer.headers}
        is_json = told.get("content-type", "").startswith("application/json") and text
        return Answer(answer.status, json.loads(text) if is_json else text, told)

    def get(self, path: str) -> Any:
        """What is at a path."""
        status, body, _ = self.call("GET", path)
        assert status == 200, f"{path}: {status} {body!r}"
        return body

    def put(self, path: str, body: Any = None) -> None:
        """Make or change something."""
        status, answer, _ = self.call("PUT", path, {} if body is None else body)
        assert status in (201, 204), f"{path}: {status} {answer!r}"

    def post(self, path: str, body: Any = None) -> Any:
        """Do something."""
        status, answer, _ = self.call("POST", path, {} if body is None else body)
        assert status in (200, 201, 204), f"{path}: {status} {answer!r}"
        return answer

    def delete(self, path: str) -> None:
        """Remove something."""
        status, answer, _ = self.call("DELETE", path)
        assert status == 204, f"{path}: {status} {answer!r}"


def define(api: Api) -> None:
    """Definitions of every kind."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    api.put(f"/vhosts/{VHOST}", {"description": "a scene", "tags": "test,scene"})
    api.put(f"/permissions/{VHOST}/guest", everything)
    api.put("/users/alice", {"password": "wonderland", "tags": "management,policymaker"})
    api.put("/users/nobody", {"password_hash": "", "tags": ""})
    api.put(f"/permissions/{VHOST}/alice", {**everything, "configure": "^orders"})
    api.put(f"/topic-permissions/{VHOST}/alice", {"exchange": "amq.topic", "write": "^a", "read": ".*"})
    api.put(f"/vhost-limits/{VHOST}/max-queues", {"value": 100})
    api.put("/user-limits/alice/max-connections", {"value": 10})
    api.put("/global-parameters/mark", {"value": {"colour": "red"}})
    policy = {"pattern": "^orders", "definition": {"max-length": 1000}, "priority": 3, "apply-to": "queues"}
    api.put(f"/policies/{VHOST}/long", policy)
    cap = {"pattern": ".*", "definition": {"message-ttl": 600_000}, "priority": 0, "apply-to": "queues"}
    api.put(f"/operator-policies/{VHOST}/cap", cap)
    api.put(f"/exchanges/{VHOST}/orders", {"type": "topic", "durable": True, "arguments": {}})
    api.put(f"/exchanges/{VHOST}/copies", {"type": "fanout", "durable": True})
    api.put(f"/queues/{VHOST}/orders", {"durable": True, "arguments": {"x-max-priority": 5}})
    api.put(f"/queues/{VHOST}/idle", {"durable": True})
    api.put(f"/queues/{VHOST}/brief", {"auto_delete": True, "durable": False})
    for path, key, arguments in (
        ("/e/orders/q/orders", "new.#", {}),
        ("/e/orders/q/orders", "", {"x": 1}),
        ("/e/orders/e/copies", "#", {}),
    ):
        api.post(f"/bindings/{VHOST}{path}", {"routing_key": key, "arguments": arguments})


@contextmanager
def traffic(port: int) -> Iterator[None]:
    """A client that has published, fetched and consumed, and is still there."""
    # Without heartbeats: nobody sends any while a test asks for other things.
    parameters = pika.ConnectionParameters(
        "127.0.0.1", port, VHOST, heartbeat=0, client_properties={"connection_name": "actor"}
    )
    connection = pika.BlockingConnection(parameters)
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=2)
        for number in range(6):
            properties = pika.BasicProperties(delivery_mode=2, message_id=str(number), timestamp=1_700_000_000)
            channel.basic_publish("orders", "new.book", b"payload", properties)
        method, _, _ = channel.basic_get("orders")
        assert method is not None
        channel.basic_ack(method.delivery_tag)
        received: list[int] = []
        channel.basic_consume("orders", lambda _, got, *rest: received.append(got.delivery_tag), consumer_tag="eater")
        while len(received) < 2:
            connection.process_data_events(0.05)
        channel.basic_ack(received[0])
        while len(received) < 3:
            connection.process_data_events(0.05)
        yield
    finally:
        connection.close()


def paths(value: Any, prefix: str = "") -> set[str]:
    """The names in a JSON value: `a.b` in an object, `a[]` in a list."""
    if isinstance(value, dict):
        return {prefix} | {path for key, item in value.items() for path in paths(item, f"{prefix}.{key}")}
    if isinstance(value, list):
        return {prefix + "[]"} | {path for item in value for path in paths(item, prefix + "[]")}
    return {prefix}
