"""The limits that keep bad input from harming others, each at its edge: this much is taken, and no more.

Limits on connections and logins have their tests with the server and with security; what a whole connection makes of
any input is in tests/fuzz.
"""

from collections.abc import Callable

import pytest

from leveret.core.properties import Properties, encode_header
from leveret.core.tables import TABLE_DEPTH_MAX, TABLE_FIELDS_MAX
from leveret.wire import methods as m
from leveret.wire.frames import BODY, FRAME_MAX_UNTUNED, HEADER, METHOD
from leveret.wire.methods import METHODS
from leveret.wire.replies import Reply
from tests.fuzz.arena import Arena, fight
from tests.fuzz.corpus import CORPUS, PUBLISH, declare, headers, nested, u32
from tests.fuzz.starts import STARTS
from tests.protocols.amqp.client import World
from tests.protocols.amqp.conftest import RABBITMQ
from tests.protocols.amqp.error_rows import MESSAGE_BYTES_MAX
from tests.protocols.amqp.strategies import class_of
from tests.protocols.amqp.targets import Target
from tests.protocols.amqp.wire import Client, Ended, frame, method_frame

pytestmark = pytest.mark.skipif(bool(RABBITMQ), reason="these limits are ours")

HOSTILE = {name: data for name, data in CORPUS.items() if " of 0x" in name}
UNREADABLE = (Reply.FRAME_ERROR, Reply.SYNTAX_ERROR)


def closed_with(client: Client) -> Reply:
    """The code with which the server closes the connection."""
    return Reply(client.expect(0, m.ConnectionClose).reply_code)


def test_a_stranger_is_cut_off_by_the_first_seven_bytes_of_a_large_frame(target: Target) -> None:
    with target.connect() as client:
        client.greet()
        client.raw(b"\x01\0\0" + u32(FRAME_MAX_UNTUNED + 9))
        assert client.ended()


def test_a_frame_over_the_agreed_size_is_refused_by_its_first_seven_bytes(target: Target) -> None:
    with target.connect().open(frame_max=8192) as client:
        client.raw(b"\x03\0\x01" + u32(8192 + 1))
        assert closed_with(client) == Reply.FRAME_ERROR


def test_a_frame_as_large_as_agreed_is_taken(target: Target) -> None:
    with target.connect().open(frame_max=8192) as client:
        client.call(1, m.QueueDeclare("q"))
        body = bytes(8192 - 8)
        client.publish(1, m.BasicPublish("", "q"), None, body)
        assert isinstance(client.call(1, m.BasicGet("q")), m.BasicGetOk)
        assert client.content(1).body == body


@pytest.mark.parametrize(("kind", "size"), [(METHOD, 0), (METHOD, 3), (HEADER, 0), (HEADER, 13)])
def test_a_frame_that_is_too_short_for_its_kind(target: Target, kind: int, size: int) -> None:
    with target.connect().open() as client:
        client.raw(PUBLISH if kind == HEADER else b"", frame(kind, 1, bytes(size)))
        assert closed_with(client) == Reply.FRAME_ERROR


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_length_that_is_larger_than_what_follows(target: Target, data: bytes) -> None:
    with target.connect().open() as client:
        client.raw(data)
        assert closed_with(client) in UNREADABLE


@pytest.mark.parametrize(("levels", "taken"), [(TABLE_DEPTH_MAX - 1, True), (TABLE_DEPTH_MAX, False), (600, False)])
def test_the_depth_of_arguments(target: Target, levels: int, taken: bool) -> None:
    with target.connect().open() as client:
        client.raw(declare(nested(b"\x01aF", levels)))
        if taken:
            client.expect(1, m.QueueDeclareOk)
        else:
            assert closed_with(client) == Reply.SYNTAX_ERROR


@pytest.mark.parametrize(("levels", "taken"), [(TABLE_DEPTH_MAX - 1, True), (TABLE_DEPTH_MAX, False), (600, False)])
def test_the_depth_of_headers(target: Target, levels: int, taken: bool) -> None:
    with target.connect().open() as client:
        client.call(1, m.QueueDeclare("q"))
        client.raw(PUBLISH, frame(HEADER, 1, headers(nested(b"\x01aF", levels))))
        if taken:
            assert isinstance(client.call(1, m.BasicGet("q")), m.BasicGetOk)
            client.content(1)
        else:
            assert closed_with(client) == Reply.SYNTAX_ERROR


@pytest.mark.parametrize(("fields", "taken"), [(TABLE_FIELDS_MAX, True), (TABLE_FIELDS_MAX + 1, False)])
def test_the_number_of_headers(target: Target, fields: int, taken: bool) -> None:
    table = b"".join(b"\x04" + f"{number:04}".encode() + b"V" for number in range(fields))
    with target.connect().open() as client:
        client.call(1, m.QueueDeclare("q"))
        client.raw(PUBLISH, frame(HEADER, 1, headers(u32(len(table)) + table)))
        if taken:
            assert isinstance(client.call(1, m.BasicGet("q")), m.BasicGetOk)
            client.content(1)
        else:
            assert closed_with(client) == Reply.SYNTAX_ERROR


def test_a_message_that_is_too_large_is_refused_by_its_header(target: Target) -> None:
    with target.connect().open() as client:
        client.raw(PUBLISH, frame(HEADER, 1, encode_header(Properties(), MESSAGE_BYTES_MAX + 1)))
        assert client.expect(1, m.ChannelClose).reply_code == Reply.PRECONDITION_FAILED
        client.send(1, m.ChannelCloseOk())
        client.call(1, m.ChannelOpen())


def test_a_message_as_large_as_allowed_is_taken(target: Target) -> None:
    with target.connect().open() as client:
        client.call(1, m.QueueDeclare("q"))
        client.call(1, m.ConfirmSelect())
        client.publish(1, m.BasicPublish("", "q"), None, bytes(MESSAGE_BYTES_MAX))
        assert client.expect(1, m.BasicAck).delivery_tag == 1
        assert client.call(1, m.QueuePurge("q")) == m.QueuePurgeOk(1)


def test_a_channel_over_the_limit_is_never_made(target: Target) -> None:
    with target.connect().open(channels=(1, 2), channel_max=2) as client:
        client.send(0xFFFF, m.ChannelOpen())
        assert closed_with(client) == Reply.NOT_ALLOWED


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_every_method_in_every_state_gets_an_answer_of_the_protocol(start: Callable[[Arena], object]) -> None:
    for spec in METHODS:
        for channel in (0, 1, 3):
            data = method_frame(channel, class_of(spec)())

            def attack(arena: Arena, data: bytes = data) -> None:
                start(arena)
                arena.fighters[0].send(data)

            fight(attack)


def test_half_a_message_is_nobodys_message(target: Target) -> None:
    with target.connect().open() as client, target.connect().open() as other:
        other.call(1, m.QueueDeclare("q"))
        client.raw(PUBLISH, frame(HEADER, 1, encode_header(Properties(), 10)), frame(3, 1, b"12345"))
        client.link.close()
        assert other.call(1, m.BasicGet("q")) == m.BasicGetEmpty()


def test_an_alarm_stops_messages_that_have_begun_too(world: World) -> None:
    client = world.client()
    client.queue()
    client.send_bytes(PUBLISH + frame(HEADER, 1, encode_header(Properties(), 10)) + frame(BODY, 1, b"12345"))
    world.hub.set_alarm("memory")
    client.send_bytes(frame(BODY, 1, b"67890"))
    assert not client.connection.wants_input
    assert client.next(m.ConnectionBlocked).reason == "memory"
    world.hub.set_alarm(None)
    client.next(m.ConnectionUnblocked)
    client.send(m.BasicGet("q"))
    assert client.next_content(m.BasicGetOk).body == b"1234567890"


def test_who_is_cut_off_hears_nothing_more(target: Target) -> None:
    with target.connect() as client:
        client.greet()
        client.raw(frame(METHOD, 0, bytes(3)))
        with pytest.raises(Ended):
            client.frame()
