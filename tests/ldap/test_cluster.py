"""Users of a directory at real nodes: whichever node a client uses, the owner of a queue knows what groups allow."""

import base64
import json
from collections.abc import Iterator
from http.client import SERVICE_UNAVAILABLE, HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker

from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import Nodes
from tests.ldap.slapd_process import GROUPS, PEOPLE, SlapdProcess
from tests.waiting import PATIENCE_S, wait_until

ANN, BOB = ("ann", "correct horse"), ("bob", "battery staple")
OWN = [f"bob-own{number}" for number in range(8)]
"""Queues that bob may use, in shards of both nodes."""


@pytest.fixture
def nodes(tmp_path: Path, etcd: EtcdProcess, store_url: str, slapd: SlapdProcess, mapping: Path) -> Iterator[Nodes]:
    """Two nodes that have two shards each."""
    with Nodes(tmp_path, etcd.url, store_url) as made:
        made.use("--ldap-urls", slapd.url, "--no-ldap-starttls", "--ldap-user-dn", "uid=${username}," + PEOPLE)
        made.use("--ldap-group-base", GROUPS, "--ldap-mapping", str(mapping))
        made.start("a", "b")
        made.balance()
        yield made


def ask(nodes: Nodes, node: str, method: str, path: str, body: Any = None, login: tuple[str, str] = BOB) -> int:
    """The status of an answer, as soon as the shard is there."""
    secret = base64.b64encode(":".join(login).encode()).decode()

    def answered() -> int | None:
        connection = HTTPConnection("127.0.0.1", nodes.ports(node)["http"], timeout=PATIENCE_S)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Authorization": f"Basic {secret}"})
            answer = connection.getresponse()
            answer.read()
            return None if answer.status == SERVICE_UNAVAILABLE else answer.status
        finally:
            connection.close()

    return wait_until(answered)


def test_amqp_and_http_through_any_node(nodes: Nodes) -> None:
    for node in "ab":
        with nodes.connect(node, *BOB) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for queue in OWN:
                channel.queue_declare(queue)
                channel.queue_purge(queue)
            with pytest.raises(ChannelClosedByBroker, match="none of its groups allows it"):
                channel.queue_declare("ann-own")
            channel = connection.channel()
            for queue in OWN:
                with pytest.raises(ChannelClosedByBroker, match="write access to queue"):
                    connection.channel().queue_bind(queue, "amq.direct", "key")
        with pytest.raises(AMQPConnectionError):
            nodes.connect(node, "bob", "wrong")
        for queue in OWN:
            assert ask(nodes, node, "GET", f"/queues/{queue}") == 200
            assert ask(nodes, node, "POST", f"/queues/{queue}/messages", {"payload": 1}) == 403  # orders only
            assert ask(nodes, node, "POST", f"/queues/{queue}/messages", {"payload": 1}, ANN) == 201
            assert ask(nodes, node, "POST", f"/queues/{queue}/dequeue", {}) == 200
        assert ask(nodes, node, "GET", "/api/overview") == 401
        assert ask(nodes, node, "GET", "/api/overview", login=ANN) == 200
        assert ask(nodes, node, "GET", "/api/overview", login=("ann", "wrong")) == 401


def test_a_session_of_the_console_is_good_at_every_node(nodes: Nodes) -> None:
    def send(node: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, str]:
        connection = HTTPConnection("127.0.0.1", nodes.ports(node)["http"], timeout=PATIENCE_S)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        told = answer.status, answer.read(), (answer.getheader("Set-Cookie") or "").partition(";")[0]
        connection.close()
        return told

    status, shown, cookie = send("a", "POST", "/console/session", {"user": ANN[0], "password": ANN[1]})
    assert status == 201
    # The cookie is called after the port of the node; a load balancer has one.
    moved = cookie.replace(str(nodes.ports("a")["http"]), str(nodes.ports("b")["http"]), 1)
    token = {"Cookie": moved, "X-CSRF-Token": json.loads(shown)["token"]}
    assert send("b", "PUT", "/api/vhosts/shop", {}, **token)[0] == 201
    assert send("b", "GET", "/api/whoami", **token)[1] == b'{"name":"ann","tags":["administrator"]}'
