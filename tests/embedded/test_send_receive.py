"""Messages go in and come out, in memory and over a restart."""

from collections.abc import Callable
from typing import Any

import pytest

import leveret

Reopen = Callable[[], leveret.Broker]


@pytest.mark.everywhere
@pytest.mark.parametrize("body", [b"\x00raw", "text äöü", {"order": 1}, [1, 2.5, None], 7, True, "", b""])
def test_a_body_comes_out_as_it_went_in(broker: leveret.Broker, body: Any) -> None:
    orders = broker.queue("orders")
    sent = orders.send(body)
    (message,) = orders.receive()
    assert (message.id, message.body) == (sent, body)
    assert type(message.body) is type(body)


@pytest.mark.everywhere
def test_a_message_says_what_is_known_of_it(broker: leveret.Broker) -> None:
    orders = broker.queue("orders", max_priority=9)
    orders.send({"n": 1}, priority=5, group="c1", dedup_id="k1", headers={"source": "shop"})
    (message,) = orders.receive()
    assert (message.priority, message.group, message.dedup_id) == (5, "c1", "k1")
    assert (message.headers, message.data) == ({"source": "shop"}, b'{"n":1}')
    assert (message.deliveries, message.redelivered) == (1, False)
    assert message.enqueued_at == message.received_at
    assert message.received_at.utcoffset() is not None


@pytest.mark.everywhere
def test_an_acknowledged_message_is_gone(broker: leveret.Broker) -> None:
    orders = broker.queue("orders", visibility_timeout=0.001)
    orders.send("once")
    orders.receive()[0].ack()
    assert orders.receive() == []


@pytest.mark.everywhere
def test_first_in_is_first_out(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many([str(number) for number in range(10)])
    assert [message.body for message in orders.receive(10)] == [str(number) for number in range(10)]


def test_messages_survive_a_restart(reopen: Reopen) -> None:
    orders = reopen().queue("orders")
    kept, done = orders.send_many(["kept", "done"])
    orders.receive(2)[1].ack()
    orders = reopen().queue("orders")
    (message,) = orders.receive(10)
    assert (message.id, message.body, message.deliveries) == (kept, "kept", 2)
    assert done != kept


def test_ids_name_the_same_broker_after_a_restart(reopen: Reopen) -> None:
    first = reopen().queue("orders").send(b"")
    second = reopen().queue("orders").send(b"")
    assert first[:18] == second[:18]
    assert first != second
