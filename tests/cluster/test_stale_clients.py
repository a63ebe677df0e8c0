"""A node that does not know the newest definitions answers nothing by what it has."""

import base64
import os
import signal
import socket
from http.client import HTTPResponse
from typing import Any

import pytest
from pika.exceptions import ConnectionClosedByBroker

from leveret.cluster.proxy.connection import ProxyConnection
from leveret.core.changes import DeclareQueue
from leveret.security.passwords import hash_password
from leveret.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    ChannelClose,
    ConnectionClose,
    ConnectionStart,
    ConnectionTune,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.cluster.processes import Nodes
from tests.cluster.proxy_world import FrontWorld
from tests.protocols.amqp.client import CHEAP
from tests.waiting import PATIENCE_S

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def know(world: FrontWorld) -> None:
    """The node has looked."""
    world.is_current = True
    for connection in world.is_stale:
        world.hub.finish(connection, connection.resume_fresh)
    world.work()


def test_a_client_is_refused_nothing_while_definitions_may_be_old(world: FrontWorld) -> None:
    client = world.client()
    world.is_current = False
    client.send(QueueDeclare("new", passive=True))
    assert client.nothing()
    world.change(DeclareQueue("/", "new"), lambda _: None)
    know(world)
    assert client.next(QueueDeclareOk).queue == "new"
    client.send(QueueDeclare("newer", passive=True))
    assert client.next(ChannelClose).reply_code == 404


def test_nobody_logs_in_while_definitions_may_be_old(world: FrontWorld) -> None:
    world.is_current = False
    client = world.stranger()
    client.start("guest", "guest")
    client.next(ConnectionStart)
    assert client.nothing()
    know(world)
    client.next(ConnectionTune)


def test_nothing_is_delivered_while_definitions_may_be_old(world: FrontWorld) -> None:
    client, other = world.client(), world.client()
    client.queue("q")
    client.call(BasicConsume("q", "tag"), BasicConsumeOk)
    connection = client.connection
    assert isinstance(connection, ProxyConnection)
    world.hub.finish(connection, connection.pause_stale)
    other.publish("q", b"for who may have it")
    assert client.nothing()
    know(world)
    assert client.next_content(BasicDeliver).body == b"for who may have it"


def test_what_a_deleted_user_sent_in_doubt_does_not_count(world: FrontWorld) -> None:
    client, witness = world.client(), world.client()
    witness.queue("q")
    world.is_current = False
    client.publish("q", b"hers")
    world.access.users.delete("guest")
    know(world)
    assert "is deleted" in client.next(ConnectionClose).reply_text
    shard_id = world.worlds[world.shard_id_of("/", "q")]
    assert shard_id.core.topology.vhost("/").queues["q"].depth == 0


def asked(nodes: Nodes, node: str, path: str, authorization: str) -> socket.socket:
    """A request that was sent, and need not have been read."""
    sent = socket.create_connection(("127.0.0.1", nodes.http_port(node)), PATIENCE_S)
    sent.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n\r\n".encode())
    return sent


def status(sent: socket.socket) -> int:
    """How it was answered."""
    with sent, HTTPResponse(sent) as answer:
        answer.begin()
        return answer.status


def basic(user: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:secret".encode()).decode()


def add_user(nodes: Nodes, node: str, name: str) -> None:
    nodes.operate(node, "users.add", name=name, password_hash=hash_password("secret", CHEAP))
    nodes.operate(node, "permissions.set", user=name, vhost="/", **EVERYTHING)


def test_a_node_that_stood_still_knows_what_was_decided_meanwhile(nodes: Nodes) -> None:
    nodes.start("a", "b")
    add_user(nodes, "b", "eve")
    old = nodes.operate("b", "tokens.add", user="guest", scopes=["*:*"])
    at_b, hers = nodes.connect("b"), nodes.connect("b", "eve", "secret")
    channel, her_channel = at_b.channel(), hers.channel()
    os.kill(nodes.pid("b"), signal.SIGSTOP)
    try:
        with nodes.connect("a") as connection:
            here = connection.channel()
            here.exchange_declare("news", "fanout", durable=True)
            here.queue_declare("q", durable=True)
            here.queue_bind("q", "news")
        nodes.operate("a", "users.delete", name="eve")
        nodes.operate("a", "tokens.revoke", id=old["id"])
        new = nodes.operate("a", "tokens.add", user="guest", scopes=["*:*"])["token"]
        add_user(nodes, "a", "ada")
        # All of it is in the sockets of b before it looks at anything.
        channel.basic_publish("news", "", b"known")
        her_channel.basic_publish("", "q", b"hers")
        requests = [
            asked(nodes, "b", "/queues/q", f"Bearer {new}"),
            asked(nodes, "b", "/queues/q", basic("ada")),
            asked(nodes, "b", "/queues/q", f"Bearer {old['token']}"),
            asked(nodes, "b", "/queues/q", basic("eve")),
        ]
    finally:
        os.kill(nodes.pid("b"), signal.SIGCONT)
    assert [status(each) for each in requests] == [200, 200, 401, 401]
    with pytest.raises(ConnectionClosedByBroker, match="user 'eve' is deleted"):
        hears_until_closed(hers)
    assert channel.queue_declare("q", passive=True).method.message_count == 1
    assert channel.basic_get("q", auto_ack=True)[2] == b"known"
    at_b.close()


def hears_until_closed(connection: Any) -> None:
    """Hear what comes until the other side has closed."""
    while connection.is_open:
        connection.process_data_events(1)
