"""Methods to bytes and back: every one of the table, examples written by hand, and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.core.errors import InvalidArgument
from leveret.wire import methods as m
from leveret.wire.codec import decode, encode
from leveret.wire.methods import METHODS, MethodSpec
from leveret.wire.replies import ProtocolError, Reply
from tests.protocols.amqp.strategies import class_of, method_of

NAMES = [spec.name for spec in METHODS]
each_method = pytest.mark.parametrize("spec", METHODS, ids=NAMES)

EXAMPLES = [
    (
        m.ConnectionStartOk(
            {"product": "Pika", "capabilities": {"basic.nack": True}}, "PLAIN", b"\0guest\0guest", "en_US"
        ),
        b"\x00\x0a\x00\x0b"
        b"\x00\x00\x00\x30"
        b"\x07productS\x00\x00\x00\x04Pika"
        b"\x0ccapabilitiesF\x00\x00\x00\x0d\x0abasic.nackt\x01"
        b"\x05PLAIN\x00\x00\x00\x0c\x00guest\x00guest\x05en_US",
    ),
    (m.ConnectionTune(2047, 131072, 60), b"\x00\x0a\x00\x1e\x07\xff\x00\x02\x00\x00\x00\x3c"),
    (m.ConnectionOpen("/"), b"\x00\x0a\x00\x28\x01/\x00\x00"),
    (m.ConnectionClose(320, "bye"), b"\x00\x0a\x00\x32\x01\x40\x03bye\x00\x00\x00\x00"),
    (m.ConnectionUpdateSecret(b"s", "r"), b"\x00\x0a\x00\x46\x00\x00\x00\x01s\x01r"),
    (m.ChannelOpen(), b"\x00\x14\x00\x0a\x00"),
    (m.ChannelOpenOk(), b"\x00\x14\x00\x0b\x00\x00\x00\x00"),
    (m.ExchangeUnbindOk(), b"\x00\x28\x00\x33"),
    (
        m.QueueDeclare("q", durable=True, auto_delete=True),
        b"\x00\x32\x00\x0a\x00\x00\x01q\x0a\x00\x00\x00\x00",
    ),
    (m.BasicQos(0, 10, False), b"\x00\x3c\x00\x0a\x00\x00\x00\x00\x00\x0a\x00"),
    (m.BasicPublish("ex", "rk", mandatory=True), b"\x00\x3c\x00\x28\x00\x00\x02ex\x02rk\x01"),
    (m.BasicDeliver("t", 7, True, "", "q"), b"\x00\x3c\x00\x3c\x01t\x00\x00\x00\x00\x00\x00\x00\x07\x01\x00\x01q"),
    (m.BasicAck(258, True), b"\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x01\x02\x01"),
    (m.BasicNack(1, True, True), b"\x00\x3c\x00\x78\x00\x00\x00\x00\x00\x00\x00\x01\x03"),
    (m.ConfirmSelect(nowait=True), b"\x00\x55\x00\x0a\x01"),
]


def refused(payload: bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        decode(payload)
    return caught.value


@each_method
@settings(max_examples=15)
@given(data=st.data())
def test_every_method_comes_back_as_it_was(spec: MethodSpec, data: st.DataObject) -> None:
    method = data.draw(method_of(spec))
    assert decode(encode(method)) == method


@pytest.mark.parametrize(("method", "wire"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_bytes_written_by_hand(method: m.Method, wire: bytes) -> None:
    assert encode(method) == wire
    assert decode(wire) == method


@each_method
def test_a_method_cut_short_anywhere_is_refused(spec: MethodSpec) -> None:
    wire = encode(class_of(spec)())
    for size in range(4, len(wire)):
        assert refused(wire[:size]).code == Reply.SYNTAX_ERROR


@each_method
def test_bytes_after_the_last_argument_are_refused(spec: MethodSpec) -> None:
    error = refused(encode(class_of(spec)()) + b"\0")
    assert error.code == Reply.SYNTAX_ERROR
    assert spec.name in error.text


@pytest.mark.parametrize("payload", [b"", b"\x00\x3c", b"\x00\x3c\x00\xfa", b"\x00\x07\x00\x0a\x00"])
def test_an_unknown_method_is_refused(payload: bytes) -> None:
    assert refused(payload).code == Reply.COMMAND_INVALID


def test_a_long_string_longer_than_what_is_left_is_refused() -> None:
    assert "4294967295 bytes announced, 1 left" in refused(b"\x00\x0a\x00\x15\xff\xff\xff\xffx").text


def test_a_table_nested_too_deep_is_refused() -> None:
    table = b""
    for _ in range(40):
        table = b"\x01aF" + len(table).to_bytes(4, "big") + table
    payload = b"\x00\x32\x00\x0a\x00\x00\x01q\x00" + len(table).to_bytes(4, "big") + table
    assert "nested too deep" in refused(payload).text


def test_reserved_arguments_are_read_over() -> None:
    assert decode(b"\x00\x3c\x00\x28\x12\x34\x02ex\x02rk\x02") == m.BasicPublish("ex", "rk", immediate=True)
    assert decode(b"\x00\x0a\x00\x28\x01/\x03abc\x01") == m.ConnectionOpen("/")


def test_a_name_that_is_not_utf8_goes_out_as_it_came() -> None:
    wire = b"\x00\x3c\x00\x1f\x03\xff\xfea"
    assert encode(decode(wire)) == wire


@pytest.mark.parametrize(
    "method",
    [
        m.BasicCancelOk("x" * 256),
        m.BasicCancelOk("\ud800"),
        m.BasicAck(2**64),
        m.BasicAck(-1),
        m.ConnectionTune(65536),
        m.QueueDeclare(arguments={"x": object}),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_not_written(method: m.Method) -> None:
    with pytest.raises(InvalidArgument):
        encode(method)


def test_replies_name_methods_of_the_table() -> None:
    assert {reply for spec in METHODS for reply in spec.replies} <= set(NAMES)


def test_every_ok_answers_something() -> None:
    answered = {reply for spec in METHODS for reply in spec.replies}
    assert {name for name in NAMES if name.endswith("-ok")} <= answered


def test_the_table_can_be_asked_about_a_method() -> None:
    by_name = {spec.name: spec for spec in METHODS}
    assert by_name["basic.get"].kind is m.BasicGet
    assert by_name["basic.get"].replies == ("basic.get-ok", "basic.get-empty")
    assert by_name["basic.return"].has_content
    assert not by_name["basic.ack"].has_content
