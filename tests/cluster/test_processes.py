"""Real nodes on a real PostgreSQL and a real etcd: what clients see when one of them goes."""

import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pika
import pytest

from leveret.core.errors import PreconditionFailed
from leveret.security.passwords import hash_password
from tests.cluster.processes import Nodes
from tests.protocols.amqp.client import CHEAP
from tests.waiting import PATIENCE_S

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def test_a_node_alone_serves_and_comes_back(nodes: Nodes) -> None:
    nodes.start("one")
    with nodes.connect("one") as connection:
        channel = connection.channel()
        limits = {"x-max-length": 10, "x-message-ttl": 3_600_000, "x-dead-letter-exchange": ""}
        channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum", **limits})
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"kept", PERSISTENT)
    assert nodes.stop("one") == 0
    nodes.start("one")
    with nodes.connect("one") as connection:
        assert connection.channel().basic_get("q", auto_ack=True)[2] == b"kept"


def test_consumers_go_on_with_what_they_hold_when_a_node_is_killed(nodes: Nodes) -> None:
    nodes.start("a", "b")
    nodes.balance()
    names = [f"q{number}" for number in range(8)]
    words = [b"0", b"1", b"2", b"3", b"4"]
    with nodes.connect("a") as connection:
        channel, publisher = connection.channel(), connection.channel()
        for name in names:
            channel.queue_declare(name, durable=True)
        publisher.confirm_delivery()
        confirmed: set[bytes] = set()
        for word in words:
            publish(publisher, names, word, confirmed)
        came: list[tuple[bytes, int]] = []
        channel.basic_qos(prefetch_count=10)
        for name in names:
            channel.basic_consume(name, lambda c, method, p, body: came.append((body, method.delivery_tag)))
        wait(connection, lambda: {body for body, _ in came} >= confirmed)
        held = came.copy()
        for _, tag in held[: len(names)]:
            channel.basic_ack(tag)  # which the owner may not get to write
        connection.process_data_events(0)
        nodes.kill("b")
        publish(publisher, names, b"after", confirmed)
        wait(connection, lambda: {body for body, _ in came} >= confirmed)
        for _, tag in held[len(names) :] + came[len(held) :]:
            channel.basic_ack(tag)
        counts = Counter(body for body, _ in came if not body.startswith(b"after"))
        assert set(counts.values()) == {1}
    with nodes.connect("a") as connection:
        channel = connection.channel()
        assert [channel.queue_declare(name, passive=True).method.message_count for name in names] == [0] * len(names)


def wait(connection: Any, until: Callable[[], bool]) -> None:
    """Hear what the server says until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline
        connection.process_data_events(0.05)


def test_operators_of_any_node_speak_for_all(nodes: Nodes) -> None:
    nodes.start("a", "b")
    nodes.operate("a", "users.add", name="ada", password_hash=hash_password("secret", CHEAP))
    nodes.operate("a", "permissions.set", user="ada", vhost="/", configure=".*", write=".*", read=".*")
    with nodes.connect("b", "ada", "secret") as connection:
        connection.channel().queue_declare("q", durable=True)
    with pytest.raises(PreconditionFailed, match="'ada' exists"):
        nodes.operate("b", "users.add", name="ada")
    nodes.kill("a")
    assert {user["name"] for user in nodes.operate("b", "users.list")} == {"ada", "guest"}
    assert nodes.stop("b") == 0
    nodes.start("b")
    with nodes.connect("b", "ada", "secret") as connection:
        assert connection.channel().queue_declare("q", passive=True).method.message_count == 0


def publish(channel: Any, names: list[str], word: bytes, confirmed: set[bytes]) -> None:
    """Publish to every queue until that is confirmed; what was refused may be there too, so it is not sent again."""
    for name in names:
        deadline = time.monotonic() + PATIENCE_S
        for attempt in itertools.count():
            body = b"%s %s %d" % (word, name.encode(), attempt)
            try:
                channel.basic_publish("", name, body, PERSISTENT)
            except pika.exceptions.NackError:
                assert time.monotonic() < deadline, f"nobody takes messages for {name}"
            else:
                confirmed.add(body)
                break


def test_no_dead_letter_is_lost_when_an_owner_is_killed(nodes: Nodes) -> None:
    nodes.start("a", "b")
    nodes.balance()
    names = [f"q{number}" for number in range(8)]
    arguments = {"x-dead-letter-exchange": "amq.fanout"}
    with nodes.connect("a") as connection:
        channel = connection.channel()
        channel.queue_declare("grave", durable=True)
        channel.queue_bind("grave", "amq.fanout")
        for name in names:
            channel.queue_declare(name, durable=True, arguments=arguments)
        channel.confirm_delivery()
        dead_lettered: set[bytes] = set()

        def bury(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            dead_lettered.add(body)
            channel.basic_ack(method.delivery_tag)

        for name in names:
            channel.basic_consume(name, lambda c, method, p, body: c.basic_reject(method.delivery_tag, requeue=False))
        channel.basic_consume("grave", bury)
        confirmed: set[bytes] = set()
        for word in (b"one", b"two", b"three"):
            publish(channel, names, word, confirmed)
        nodes.kill("b")
        publish(channel, names, b"after", confirmed)
        deadline = time.monotonic() + PATIENCE_S
        while confirmed - dead_lettered and time.monotonic() < deadline:
            connection.process_data_events(0.1)
        assert confirmed - dead_lettered == set()
