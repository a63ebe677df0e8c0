"""Letters on the wire between nodes: they come as they were sent, and what is none is refused."""

from dataclasses import asdict
from typing import Any

import pytest

from leveret.cluster.rpc.wire import unpacked
from leveret.cluster.transfer import message as batches
from leveret.cluster.transfer.message import (
    MetadataCache,
    OutboxBatch,
    OutboxMessage,
    addressed,
    answered,
    decode,
    encode,
)
from leveret.core.errors import InvalidArgument
from leveret.core.message import restored
from leveret.core.properties import Properties, content
from leveret.core.publish import route_of

NOT_UTF8 = "\udcff"


def messages(*bodies: bytes, **sent: Any) -> list[OutboxMessage]:
    """Rows for a queue as they come out of an outbox."""
    all_metadata = MetadataCache()
    wire = [content(addressed(Properties(headers={"h": 1}), "/", moved=True, sent=sent), body) for body in bodies]
    messages = [restored(route_of("", "queue" + NOT_UTF8), *each, seq=number) for number, each in enumerate(wire)]
    return [
        OutboxMessage(f"0/{number}", all_metadata.of(message), message.body) for number, message in enumerate(messages)
    ]


def told(wire: bytes) -> tuple[dict[str, Any], bytes]:
    """The head of a bundle, and what is behind it."""
    head, _, rest = wire.partition(b"\n")
    return unpacked(head), rest


def test_letters_come_as_they_were_sent() -> None:
    rows = [*messages(b"one", b"", b"three\n"), *messages(b"later", due_ms=7, key="ab")]
    came = decode(*told(encode(OutboxBatch(rows, "queue" + NOT_UTF8), "1", 5)))
    assert came.queue == "queue" + NOT_UTF8
    assert [(each.name, each.body, asdict(each.metadata)) for each in came.messages] == [
        (each.name, each.body, asdict(each.metadata)) for each in rows
    ]


def test_letters_that_are_alike_but_for_their_bodies_share_an_envelope() -> None:
    head, _ = told(encode(OutboxBatch(messages(b"one", b"and another")), "1", 5))
    assert (len(head["envelopes"]), len(head["letters"])) == (1, 2)


def spoilt(**changes: Any) -> tuple[dict[str, Any], bytes]:
    """A bundle that says something else than it has."""
    head, rest = told(encode(OutboxBatch(messages(b"one")), "1", 5))
    return {**head, **changes}, rest


NONE = {
    "nothing": ({"letters": []}, b""),
    "no envelope": spoilt(envelopes=[]),
    "another envelope": spoilt(letters=[["0/0", 1, 3]]),
    "a longer body": spoilt(letters=[["0/0", 0, 4]]),
    "a negative size": spoilt(letters=[["0/0", 0, 4], ["0/1", 0, -1]]),
    "no size": spoilt(letters=[["0/0", 0, None]]),
    "no header": (spoilt()[0], spoilt()[1][::-1]),
}


@pytest.mark.parametrize("what", NONE)
def test_what_is_no_bundle_is_refused(what: str) -> None:
    with pytest.raises(InvalidArgument, match="no outbox messages"):
        decode(*NONE[what])


def test_a_shard_takes_so_many_letters_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = encode(OutboxBatch(messages(b"one", b"two")), "1", 5)
    monkeypatch.setattr(batches, "MESSAGES_MAX", 2)
    assert len(decode(*told(wire)).messages) == 2
    monkeypatch.setattr(batches, "MESSAGES_MAX", 1)
    with pytest.raises(InvalidArgument, match="at most 1"):
        decode(*told(wire))


@pytest.mark.parametrize(("answer", "taken"), [(b"256", 256), (b"0", 0), (b'{"refused": "7"}', 0), (b"", 0), (None, 0)])
def test_only_a_number_says_that_letters_were_taken(answer: bytes | None, taken: int) -> None:
    assert answered(answer) == taken
