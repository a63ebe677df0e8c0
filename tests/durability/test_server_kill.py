"""A server killed with SIGKILL while clients publish, confirm, consume and acknowledge: what was promised is kept."""

from pathlib import Path

import pytest

from leveret.core.properties import Properties
from leveret.wire import methods as m
from tests.durability.server_kill import Battle, summary
from tests.protocols.amqp.wire import Client, SocketLink
from tests.server_process import ServerProcess

LIVES = 3


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_confirmed_is_lost_and_order_holds(tmp_path: Path, seed: int) -> None:
    battle = Battle(tmp_path, seed)
    for _ in range(LIVES):
        battle.live()
    print(f"seed {seed}, {summary(battle.lives)}")
    assert sum(life.confirmed for life in battle.lives) > 0
    assert sum(life.acknowledged for life in battle.lives) > 0


@pytest.mark.parametrize("mode", [None, 1, 2])
def test_a_quorum_queue_keeps_what_was_confirmed_whatever_its_delivery_mode(tmp_path: Path, mode: int | None) -> None:
    server = ServerProcess(tmp_path).start()
    with Client(SocketLink("127.0.0.1", server.port)) as client:
        client.open()
        for name in ("quorum", "classic"):
            client.call(1, m.QueueDeclare(name, durable=True, arguments={"x-queue-type": name}))
            client.call(1, m.QueueBind(name, "amq.fanout", ""))
        client.call(1, m.ConfirmSelect())
        client.publish(1, m.BasicPublish("", "quorum"), Properties(delivery_mode=mode), b"alone")
        client.publish(1, m.BasicPublish("amq.fanout", ""), Properties(delivery_mode=mode), b"beside")
        while client.expect(1, m.BasicAck).delivery_tag < 2:
            pass
        server.kill()
    server.start()
    with Client(SocketLink("127.0.0.1", server.port)) as client:
        client.open()
        for body in (b"alone", b"beside"):
            client.send(1, m.BasicGet("quorum", no_ack=True))
            client.expect(1, m.BasicGetOk)
            content = client.content(1)
            assert (content.body, content.properties.delivery_mode) == (body, mode)
        left = client.call(1, m.QueueDeclare("classic", passive=True))
        assert isinstance(left, m.QueueDeclareOk)
        assert left.message_count == (1 if mode == 2 else 0)
        client.leave()
    assert server.stop() == 0


def test_a_dead_letter_that_is_held_survives_a_kill_and_arrives_when_it_has_a_route(tmp_path: Path) -> None:
    arguments = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": "at-least-once",
        "x-dead-letter-exchange": "amq.fanout",
    }
    server = ServerProcess(tmp_path).start()
    with Client(SocketLink("127.0.0.1", server.port)) as client:
        client.open()
        client.call(1, m.QueueDeclare("source", durable=True, arguments=arguments))
        client.publish(1, m.BasicPublish("", "source"), None, b"dear")
        client.send(1, m.BasicGet("source"))
        tag = client.expect(1, m.BasicGetOk).delivery_tag
        client.content(1)
        client.send(1, m.BasicReject(tag, False))
        client.call(1, m.QueueDeclare("target", durable=True))  # answered when all before it is on the disk
        client.leave()
    server.kill()
    server.start()
    with Client(SocketLink("127.0.0.1", server.port)) as client:
        client.open()
        client.send(1, m.BasicGet("source"))
        client.expect(1, m.BasicGetEmpty)
        client.call(1, m.BasicConsume("target", "c"))
        client.call(1, m.QueueBind("target", "amq.fanout", ""))
        client.expect(1, m.BasicDeliver)
        assert client.content(1).body == b"dear"
        client.leave()
    assert server.stop() == 0
