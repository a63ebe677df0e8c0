"""The compiled loops agree with the careful ways beside them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from leveret.protocols.sqs.loops import bodies, in_order, is_forbidden
from leveret.protocols.sqs.send_message import OPTIONS
from leveret.protocols.sqs.wire import ENTRY_ID_CHARS_MAX, FORBIDDEN, TYPES
from tests.protocols.sqs.world import World

EDGES = st.sampled_from("\x00\x08\t\n\x0b\r\x1f \x7f\ud7ff\ud800\udfff\ue000\ufffd\ufffe\uffff\U00010000\U0010ffff")


@given(st.text(st.characters() | EDGES))
def test_the_same_characters_are_forbidden_as_by_the_pattern(text: str) -> None:
    assert is_forbidden(text) == (FORBIDDEN.search(text) is not None)


def test_entries_in_order() -> None:
    assert in_order([{"Id": "a-Z_9"}, {"Id": "x" * ENTRY_ID_CHARS_MAX, "MessageBody": None, "Unknown": 1}], TYPES)


def test_entries_out_of_order() -> None:
    wrong: list[list[Any]] = [
        ["no structure"],
        [{}],
        [{"Id": ""}],
        [{"Id": 1}],
        [{"Id": "with space"}],
        [{"Id": "é"}],
        [{"Id": "x" * (ENTRY_ID_CHARS_MAX + 1)}],
        [{"Id": "a"}, {"Id": "a"}],
        [{"Id": "a", "MessageBody": 1}],
        [{"Id": "a", "DelaySeconds": True}],
    ]
    assert not [entries for entries in wrong if in_order(entries, TYPES)]


def test_only_plain_bodies_within_the_limits_go_the_short_way() -> None:
    assert bodies([{"MessageBody": "é"}, {"MessageBody": "b"}], OPTIONS, 2, 3) == ["é".encode(), b"b"]
    special: list[dict[str, Any]] = [
        {},
        {"MessageBody": ""},
        {"MessageBody": "\x01"},
        {"MessageBody": "abc"},
        {"MessageBody": "a", "DelaySeconds": 0},
    ]
    assert [bodies([entry], OPTIONS, 2, 3) for entry in special] == [None] * len(special)
    assert bodies([{"MessageBody": "ab"}, {"MessageBody": "cd"}], OPTIONS, 2, 3) is None


def test_a_bad_handle_in_the_middle_of_a_batch_fails_alone(world: World) -> None:
    url = world.create("orders")
    for number in range(3):
        world.do("SendMessage", QueueUrl=url, MessageBody=str(number))
    taken = world.do("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    first, second, third = (message["ReceiptHandle"] for message in taken)
    handles = {"a": first, "b": "bad", "c": second, "again": first, "d": third}
    entries = [{"Id": name, "ReceiptHandle": handle} for name, handle in handles.items()]
    done = world.do("DeleteMessageBatch", QueueUrl=url, Entries=entries)
    assert [row["Id"] for row in done["Successful"]] == ["a", "c", "again", "d"]
    assert [(row["Id"], row["Code"]) for row in done["Failed"]] == [("b", "ReceiptHandleIsInvalid")]
    assert world.broker.queue("orders").stats().acked == 3
