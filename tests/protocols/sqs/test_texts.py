"""Results as text: byte for byte what dictionaries would have become, and checksums that are MD5."""

from hashlib import md5

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

import leveret
from leveret.core.properties import Properties, encode_header
from leveret.protocols.sqs import loops
from leveret.protocols.sqs.send_message import PLAIN_SENDERS, plain_parts
from tests.protocols.sqs.world import World

PLAIN = '"\\\t\n\r/<&>~ a'
TAG = 7


@given(st.binary(max_size=300))
@example(b"")
@example(b"x" * 55)
@example(b"x" * 56)
@example(b"x" * 64)
@example(b"x" * 10_000)
def test_checksums_are_md5(data: bytes) -> None:
    assert loops.md5_of(data) == md5(data, usedforsecurity=False).hexdigest()


def test_nothing_as_text() -> None:
    with leveret.open() as broker:
        assert loops.received_json([], broker.runtime.receipts, 1, TAG, PLAIN_SENDERS) == b'{"Messages":[]}'
    assert loops.sent_json([], [], TAG, []) == b'{"Successful":[]}'


def taken(broker: leveret.Broker, bodies: list[bytes]) -> list[leveret.Message]:
    queue = broker.queue("orders")
    queue.post_bodies(plain_parts("ada")[1], bodies)
    return queue.receive(len(bodies))


@given(st.lists(st.text(PLAIN), min_size=1, max_size=10))
def test_messages_as_text(bodies: list[str]) -> None:
    with leveret.open() as broker:
        messages = taken(broker, [body.encode() for body in bodies])
        arguments = (messages, broker.runtime.receipts, messages[0].source.core.id, TAG, PLAIN_SENDERS)
        assert loops.received_json(*arguments) == orjson.dumps({"Messages": loops.received(*arguments)})


@given(st.one_of(st.text("\x00\x1f\x7fäλ\uffff😀", min_size=1).map(str.encode), st.just(b"\xff")))
def test_bodies_that_are_not_ascii_go_the_other_way(body: bytes) -> None:
    with leveret.open() as broker:
        messages = taken(broker, [b"x", body])
        assert (
            loops.received_json(messages, broker.runtime.receipts, messages[0].source.core.id, TAG, PLAIN_SENDERS)
            is None
        )


def test_a_message_with_an_id_of_its_own_goes_the_other_way() -> None:
    with leveret.open() as broker:
        queue = broker.queue("orders")
        queue.post_bodies(encode_header(Properties(message_id="mine"), 0), [b"x"])
        messages = queue.receive()
        assert len(messages) == 1
        assert loops.received_json(messages, broker.runtime.receipts, queue.core.id, TAG, PLAIN_SENDERS) is None


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=10))
def test_what_was_sent_as_text(data: list[bytes]) -> None:
    entries = [{"Id": f"entry-{number}_{'x' * number}"} for number in range(len(data))]
    numbers = list(range(1, len(data) + 1))
    told = {"Successful": loops.sent(entries, data, TAG, numbers)}
    assert loops.sent_json(entries, data, TAG, numbers) == orjson.dumps(told)
    assert loops.sent_json(entries, data, TAG, [*numbers[:-1], 0]) is None


def test_what_was_deleted_as_text() -> None:
    entries = [{"Id": "a"}, {"Id": "b-1_"}]
    assert loops.deleted_json(entries) == orjson.dumps({"Successful": entries})


def test_bodies_come_back_as_they_were_sent(world: World) -> None:
    url = world.create("orders")
    bodies = ['{"a":"b\\\\c"}', "tab\tand\nline\r", "~\x7f", "äλ😀", "plain"]
    entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies)]
    world.do("SendMessageBatch", QueueUrl=url, Entries=entries)
    found = world.receive(url, 10)
    assert [message["Body"] for message in found] == bodies
    assert [message["MD5OfBody"] for message in found] == [md5(body.encode()).hexdigest() for body in bodies]
