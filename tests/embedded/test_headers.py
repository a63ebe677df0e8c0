"""Headers of messages: what is refused, and that the largest ones still make a dead letter."""

import pytest

import leveret

FIELDS_MAX = 1_000  # values that a publisher may send


def test_more_headers_than_a_publisher_may_send_are_refused() -> None:
    with leveret.open() as broker:
        queue = broker.queue("orders")
        with pytest.raises(leveret.InvalidArgument, match="put them into the body"):
            queue.send(b"body", headers={f"h{number}": number for number in range(FIELDS_MAX + 1)})
        with pytest.raises(leveret.InvalidArgument, match="put them into the body"):
            queue.send(b"body", headers={"large": "x" * (128 << 10)})
        assert queue.stats().ready == 0


def test_a_message_with_as_many_headers_as_allowed_becomes_a_dead_letter() -> None:
    headers = {f"h{number}": number for number in range(FIELDS_MAX)}
    with leveret.open() as broker:
        queue = broker.queue("orders", dead_letter="failed")
        queue.send(b"body", headers=headers)
        queue.receive()[0].reject()
        (dead,) = broker.queue("failed").receive()
        assert dead.headers["x-first-death-queue"] == "orders"
        assert headers.items() <= dead.headers.items()


def test_an_exchange_has_the_same_limits() -> None:
    with leveret.open() as broker:
        events = broker.exchange("events", "fanout")
        with pytest.raises(leveret.InvalidArgument, match="put them into the body"):
            events.publish("key", b"body", headers={f"h{number}": number for number in range(FIELDS_MAX + 1)})


def test_properties_of_amqp_travel_with_a_message() -> None:
    sent = {
        "correlation_id": "c1",
        "reply_to": "answers",
        "message_id": "m1",
        "type": "order",
        "content_type": "image/png",
    }
    with leveret.open() as broker:
        queue = broker.queue("orders")
        queue.send(b"body", properties=sent)
        (message,) = queue.receive()
        assert {name: getattr(message.properties, name) for name in sent} == sent
        with pytest.raises(leveret.InvalidArgument, match="'priority' is not one of the properties content_type"):
            queue.send(b"body", properties={"priority": 3})


def test_a_history_of_deaths_that_the_sender_made_up_is_not_kept() -> None:
    with leveret.open() as broker:
        queue = broker.queue("orders", dead_letter="failed")
        queue.send(b"body", headers={"x-death": [{"queue": "orders", "reason": "expired", "count": 9}], "mine": 1})
        (message,) = queue.receive()
        assert message.headers == {"mine": 1}
        message.reject()
        (dead,) = broker.queue("failed").receive()
        assert [death["count"] for death in dead.headers["x-death"]] == [1]
