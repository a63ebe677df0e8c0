"""Bad beginnings: what a client hears that does not get as far as an open connection."""

import pytest

from leveret.wire import methods as m
from leveret.wire.frames import PROTOCOL_HEADER
from leveret.wire.methods import Method
from leveret.wire.replies import Reply
from tests.protocols.amqp.targets import Target
from tests.protocols.amqp.wire import CAPABILITIES, Client

CAPABLE = {"capabilities": CAPABILITIES}
TUNE_OK = m.ConnectionTuneOk(2047, 131_072, 0)
REFUSED = "Login was refused using authentication mechanism {}. For details see the broker logfile."


def start_ok(response: bytes, mechanism: str = "PLAIN") -> m.ConnectionStartOk:
    return m.ConnectionStartOk(CAPABLE, mechanism, response, "en_US")


def assert_closed(client: Client, reply: Reply, text: str, ids: tuple[int, int] = (0, 0)) -> None:
    close = client.expect(0, m.ConnectionClose)
    assert (close.reply_code, close.reply_text) == (reply, f"{reply.name} - {text}")
    assert (close.class_id, close.method_id) == ids
    client.send(0, m.ConnectionCloseOk())
    assert client.ended()


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x09\x02",
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"AMQP\x00\x00\x08\x00",
        b"AMQQ\x00\x00\x09\x01",
        b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        bytes(8),
    ],
)
def test_another_protocol_is_told_which_one_is_spoken(target: Target, header: bytes) -> None:
    with target.connect() as client:
        client.raw(header)
        assert client.bytes_until_end() == PROTOCOL_HEADER


def test_amqp_0_9_is_spoken_too(target: Target) -> None:
    with target.connect() as client:
        start = client.greet(b"AMQP\x01\x01\x00\x09")
        assert (start.version_major, start.version_minor) == (0, 9)


def test_the_header_may_come_in_pieces(target: Target) -> None:
    with target.connect() as client:
        for position in range(len(PROTOCOL_HEADER) - 1):
            client.raw(PROTOCOL_HEADER[position : position + 1])
        client.greet(PROTOCOL_HEADER[-1:])


@pytest.mark.parametrize("response", [b"\0guest\0wrong", b"\0nobody\0guest", b"\0guest\0"])
def test_a_refused_login_is_told_so(target: Target, response: bytes) -> None:
    with target.connect() as client:
        client.greet()
        client.send(0, start_ok(response))
        assert_closed(client, Reply.ACCESS_REFUSED, REFUSED.format("PLAIN"))


def test_a_refused_login_is_not_told_so_to_clients_that_would_not_understand(target: Target) -> None:
    with target.connect() as client:
        client.greet()
        client.send(0, m.ConnectionStartOk({}, "PLAIN", b"\0guest\0wrong", "en_US"))
        assert client.ended()


@pytest.mark.parametrize("vhost", ["nowhere", ""])
def test_an_unknown_vhost(target: Target, vhost: str) -> None:
    with target.connect() as client:
        client.log_in()
        client.send(0, TUNE_OK, m.ConnectionOpen(vhost))
        assert_closed(client, Reply.NOT_ALLOWED, f"vhost {vhost} not found", (10, 40))


@pytest.mark.parametrize(
    ("tune_ok", "text"),
    [
        ((0, 131_072), "channel_max = 0 is higher than the maximum allowed value (2047)"),
        ((2048, 131_072), "channel_max = 2048 is higher than the maximum allowed value (2047)"),
        ((2047, 131_073), "frame_max = 131073 is higher than the maximum allowed value (131072)"),
        ((2047, 0), "frame_max = 0 is higher than the maximum allowed value (131072)"),
        ((2047, 4095), "frame_max = 4095 is lower than the minimum allowed value (4096)"),
        ((2047, 1), "frame_max = 1 is lower than the minimum allowed value (4096)"),
    ],
)
def test_limits_that_cannot_be_negotiated(target: Target, tune_ok: tuple[int, int], text: str) -> None:
    with target.connect() as client:
        client.log_in()
        client.send(0, m.ConnectionTuneOk(*tune_ok, 0), m.ConnectionOpen("/"))
        if target.older:
            assert client.ended()  # without a word
            return
        assert_closed(client, Reply.NOT_ALLOWED, f"negotiated {text}", (10, 31))


@pytest.mark.parametrize(
    "login",
    [
        start_ok(b"guest"),
        start_ok(b""),
        start_ok(b"\0guest\0guest", "CURIOUS"),
        start_ok(b"\0guest\0guest", ""),
        start_ok(b"\0guest\0guest", "EXTERNAL"),
        start_ok(b"\xff\xff\xff\xff", "AMQPLAIN"),
        start_ok(b"\x05LOGINS\xff\xff\xff\xffguest", "AMQPLAIN"),
    ],
)
def test_a_login_that_makes_no_sense(target: Target, login: m.ConnectionStartOk) -> None:
    with target.connect() as client:
        client.greet()
        client.send(0, login)
        assert client.ended()


@pytest.mark.parametrize(
    ("channel", "method"),
    [
        (0, TUNE_OK),
        (0, m.ConnectionOpen("/")),
        (0, m.ConnectionSecureOk(b"x")),
        (0, m.ConnectionUpdateSecret(b"x", "y")),
        (0, m.ConnectionStart()),
        (0, m.QueueDeclare("q")),
        (1, m.ChannelOpen()),
        (1, m.QueueDeclare("q")),
    ],
    ids=str,
)
def test_a_stranger_who_speaks_out_of_turn_is_told_nothing(target: Target, channel: int, method: Method) -> None:
    with target.connect() as client:
        client.greet()
        client.send(channel, method)
        assert client.ended()


@pytest.mark.parametrize(
    ("channel", "method", "reply"),
    [
        (0, start_ok(b"\0guest\0guest"), Reply.CHANNEL_ERROR),
        (0, m.ConnectionOpen("/"), Reply.CHANNEL_ERROR),
        (0, m.BasicPublish("", "q"), Reply.CHANNEL_ERROR),
        (1, m.ChannelOpen(), Reply.CHANNEL_ERROR),
    ],
    ids=str,
)
def test_a_user_who_speaks_out_of_turn(target: Target, channel: int, method: Method, reply: Reply) -> None:
    with target.connect() as client:
        client.log_in()
        client.send(channel, method)
        if not target.older:  # which says nothing before connection.open
            assert client.expect(0, m.ConnectionClose).reply_code == reply
            client.send(0, m.ConnectionCloseOk())
        assert client.ended()


def test_a_channel_before_the_vhost(target: Target) -> None:
    with target.connect() as client:
        client.log_in()
        client.send(0, TUNE_OK)
        client.send(1, m.ChannelOpen())
        close = client.expect(0, m.ConnectionClose)
        assert close.reply_code in {Reply.UNEXPECTED_FRAME, Reply.CHANNEL_ERROR, Reply.COMMAND_INVALID}


def test_more_channels_than_agreed(target: Target) -> None:
    with target.connect().open(channels=(1, 2), channel_max=2) as client:
        client.send(3, m.ChannelOpen())
        close = client.expect(0, m.ConnectionClose)
        text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
        assert (close.reply_code, close.reply_text) == (Reply.NOT_ALLOWED, text)


def test_channel_max_limits_the_count_of_channels_and_not_their_numbers(target: Target) -> None:
    with target.connect().open(channels=(3, 65_535), channel_max=2) as client:
        assert client.call(65_535, m.QueueDeclare("q")) == m.QueueDeclareOk("q", 0, 0)
        client.call(3, m.ChannelClose(200, ""))
        client.call(7, m.ChannelOpen())
        client.publish(7, m.BasicPublish("", "q"), None, b"x")
        assert client.call(7, m.QueueDeclare("q")) == m.QueueDeclareOk("q", 1, 0)


def test_opening_twice(target: Target) -> None:
    with target.connect().open() as client:
        client.send(0, m.ConnectionOpen("/"))
        assert_closed(client, Reply.CHANNEL_ERROR, "unexpected method in connection state running", (10, 40))


@pytest.mark.parametrize("method", [m.ChannelClose(200, ""), m.ChannelCloseOk(), m.ChannelFlow(active=True)])
def test_a_channel_that_was_never_opened(target: Target, method: Method) -> None:
    with target.connect().open() as client:
        client.send(5, method)
        close = client.expect(0, m.ConnectionClose)
        assert close.reply_text == "CHANNEL_ERROR - expected 'channel.open'"
