"""FIFO queues: order, groups, de-duplication, attempts."""

from collections import defaultdict
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocols.sqs.world import World, json_request, refused


def fifo(world: World, **attributes: str) -> str:
    return world.create("orders.fifo", ContentBasedDeduplication="true", **attributes)


def test_a_receive_drains_one_group_and_then_others(world: World) -> None:
    url = fifo(world)
    for body, group in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b")):
        world.send(url, body, MessageGroupId=group)
    assert world.bodies(url, 3) == ["a1", "a2", "b1"]
    assert world.bodies(url) == []


def test_a_group_waits_for_what_is_held_of_it(world: World) -> None:
    url = fifo(world)
    for body in ("1", "2", "3"):
        world.send(url, body, MessageGroupId="g")
    (first,) = world.receive(url, 1)
    assert world.bodies(url) == []
    world.delete(url, first)
    assert world.bodies(url) == ["2", "3"]


def test_a_message_that_comes_back_goes_before_its_successors(world: World) -> None:
    url = fifo(world, VisibilityTimeout="1")
    for body in ("1", "2"):
        world.send(url, body, MessageGroupId="g")
    assert world.bodies(url, 1) == ["1"]
    world.later(1)
    assert world.bodies(url) == ["1", "2"]


RECEIVED_TWO = [
    # (what becomes of g1-m1 and g1-m2, what can be received then), as recorded at AWS where marked
    ({}, ["g2-m1"]),
    ({"g1-m1": 0}, ["g1-m1", "g2-m1"]),  # recorded
    ({"g1-m1": 1}, ["g1-m1", "g2-m1"]),  # recorded
    ({"g1-m2": 0}, ["g2-m1"]),
    ({"g1-m1": 0, "g1-m2": 0}, ["g1-m1", "g1-m2", "g1-m3", "g2-m1"]),
    ({"g1-m2": 0, "g1-m1": 1}, ["g1-m1", "g1-m2", "g1-m3", "g2-m1"]),
    ({"g1-m1": "deleted"}, ["g2-m1"]),  # recorded
    ({"g1-m2": "deleted"}, ["g2-m1"]),
    ({"g1-m1": "deleted", "g1-m2": "deleted"}, ["g1-m3", "g2-m1"]),  # recorded
    ({"g1-m1": "deleted", "g1-m2": 0}, ["g1-m2", "g1-m3", "g2-m1"]),
    ({"g1-m1": 0, "g1-m2": "deleted"}, ["g1-m1", "g1-m3", "g2-m1"]),
]


@pytest.mark.parametrize(("changes", "receivable"), RECEIVED_TWO)
def test_what_a_group_in_flight_gives(world: World, changes: dict[str, int | str], receivable: list[str]) -> None:
    """A message that becomes visible again does not wait for later ones in flight; a new one waits for all."""
    url = fifo(world)
    for body in ("g1-m1", "g1-m2", "g1-m3", "g2-m1"):
        world.send(url, body, MessageGroupId=body[:2])
    received = {message["Body"]: message for message in world.receive(url, 2)}
    assert list(received) == ["g1-m1", "g1-m2"]
    for body, change in changes.items():
        if isinstance(change, str):
            world.delete(url, received[body])
        else:
            handle = {"QueueUrl": url, "ReceiptHandle": received[body]["ReceiptHandle"]}
            world.do("ChangeMessageVisibility", **handle, VisibilityTimeout=change)
    world.later(1)
    assert sorted(world.bodies(url)) == receivable
    assert world.bodies(url) == []


def test_a_group_gives_a_returned_message_to_a_waiting_receiver(world: World) -> None:
    url = fifo(world)
    for body in ("1", "2", "3"):
        world.send(url, body, MessageGroupId="g")
    first, _ = world.receive(url, 2)
    handle = {"QueueUrl": url, "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 0}
    request, answers = json_request("ChangeMessageVisibility", handle), list[object]()
    assert world.poll_while(url, lambda: answers.append(world.service(request))) == ["1"]


def test_sequence_numbers_have_twenty_digits_and_rise(world: World) -> None:
    url = fifo(world)
    numbers = [world.send(url, body, MessageGroupId="g")["SequenceNumber"] for body in "abc"]
    assert numbers == sorted(numbers)
    assert {len(number) for number in numbers} == {20}
    got = world.receive(url, 10, AttributeNames=["SequenceNumber"])
    assert [message["Attributes"]["SequenceNumber"] for message in got] == numbers


def test_a_duplicate_is_not_delivered_and_has_the_id_of_the_first(world: World) -> None:
    url = fifo(world)
    first = world.send(url, "a", MessageGroupId="g", MessageDeduplicationId="d")
    again = world.send(url, "b", MessageGroupId="h", MessageDeduplicationId="d")
    assert again["MessageId"] == first["MessageId"]
    (message,) = world.receive(url, 10)
    world.delete(url, message)
    world.send(url, "c", MessageGroupId="g", MessageDeduplicationId="d")
    assert world.bodies(url) == []
    world.later(300)
    world.send(url, "c", MessageGroupId="g", MessageDeduplicationId="d")
    assert world.bodies(url) == ["c"]


def test_duplicates_are_known_after_a_restart(tmp_path: Path) -> None:
    world = World(str(tmp_path / "data"))
    try:
        url = fifo(world)
        first = world.send(url, "a", MessageGroupId="g")
        world.restart()
        assert world.send(url, "a", MessageGroupId="g")["MessageId"] == first["MessageId"]
        assert world.bodies(url) == ["a"]
    finally:
        world.end()


def test_duplicates_by_group(world: World) -> None:
    url = fifo(world, DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    for group in ("g", "h", "g"):
        world.send(url, "a", MessageGroupId=group)
    assert world.bodies(url) == ["a", "a"]


def test_content_is_what_is_compared_without_an_id(world: World) -> None:
    url = fifo(world)
    world.send(url, "a", MessageGroupId="g", MessageAttributes={"x": {"DataType": "String", "StringValue": "1"}})
    world.send(url, "a", MessageGroupId="g")
    (message,) = world.receive(url, 10, AttributeNames=["MessageDeduplicationId"])
    assert message["Attributes"]["MessageDeduplicationId"] == (
        "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    )


@pytest.mark.parametrize("protocol", ["json", "query"])
@pytest.mark.parametrize("content_first", [True, False])
def test_the_hash_of_a_body_as_an_id_is_a_duplicate_of_it(world: World, content_first: bool, protocol: str) -> None:
    url = fifo(world)
    content = {"MessageBody": "a"}
    named = {"MessageBody": "b", "MessageDeduplicationId": sha256(b"a").hexdigest()}
    sends = (content, named) if content_first else (named, content)
    for each in sends:
        assert getattr(world, protocol)("SendMessage", QueueUrl=url, MessageGroupId="g", **each).status == 200
    assert world.bodies(url) == [sends[0]["MessageBody"]]


def test_an_id_that_is_a_body_is_no_duplicate_of_it(world: World) -> None:
    url = fifo(world)
    world.send(url, "a", MessageGroupId="g")
    world.send(url, "b", MessageGroupId="g", MessageDeduplicationId="a")
    assert world.bodies(url) == ["a", "b"]


@pytest.mark.parametrize(("before", "after"), [("queue", "messageGroup"), ("messageGroup", "queue")])
def test_the_scope_of_duplicates_is_that_of_the_creation(tmp_path: Path, before: str, after: str) -> None:
    """As at AWS: another scope is told from then on, and the queue goes on as it was made."""
    world = World(str(tmp_path))
    try:
        url = fifo(world, DeduplicationScope=before)
        world.send(url, "a", MessageGroupId="g")
        world.do("SetQueueAttributes", QueueUrl=url, Attributes={"DeduplicationScope": after})
        for group in "hi":
            assert world.attributes(url)["DeduplicationScope"] == after
            world.send(url, "a", MessageGroupId=group)
            world.restart()
        assert world.bodies(url) == (["a"] if before == "queue" else ["a"] * 3)
    finally:
        world.end()


def test_a_purge_forgets_what_was_sent(world: World) -> None:
    url = fifo(world)
    world.send(url, "a", MessageGroupId="g")
    world.do("PurgeQueue", QueueUrl=url)
    world.send(url, "a", MessageGroupId="g")
    assert world.bodies(url) == ["a"]


def test_a_delay_is_the_queues_business(world: World) -> None:
    url = fifo(world, DelaySeconds="5")
    world.send(url, "a", MessageGroupId="g", DelaySeconds=0)
    assert world.bodies(url) == []
    world.later(5)
    assert world.bodies(url) == ["a"]


def test_an_expired_handle_deletes_nothing(world: World) -> None:
    url = fifo(world, VisibilityTimeout="1")
    world.send(url, "a", MessageGroupId="g")
    (message,) = world.receive(url)
    world.later(1)
    with refused("InvalidParameterValueException", "Reason: The receipt handle has expired."):
        world.delete(url, message)
    (again,) = world.receive(url)
    world.delete(url, again)
    world.delete(url, again)


def test_the_same_attempt_gets_the_same_messages(world: World) -> None:
    url = fifo(world, VisibilityTimeout="10")
    for body in "ab":
        world.send(url, body, MessageGroupId="g")
    first = world.receive(url, 10, ReceiveRequestAttemptId="one")
    world.later(6)
    again = world.receive(url, 10, ReceiveRequestAttemptId="one")
    assert again == first
    assert world.receive(url, 10, ReceiveRequestAttemptId="two") == []
    world.later(6)
    for message in first:
        world.delete(url, message)


def test_an_attempt_of_which_something_was_deleted_is_not_repeated(world: World) -> None:
    url = fifo(world)
    for body in "ab":
        world.send(url, body, MessageGroupId="g")
    first = world.receive(url, 10, ReceiveRequestAttemptId="one")
    world.delete(url, first[0])
    assert world.receive(url, 10, ReceiveRequestAttemptId="one") == []


def test_a_batch_with_an_entry_without_a_group_sends_nothing(world: World) -> None:
    url = fifo(world)
    entries = [{"Id": "a", "MessageBody": "a", "MessageGroupId": "g"}, {"Id": "b", "MessageBody": "b"}]
    with refused("InvalidParameterValueException", "The request must contain the parameter MessageGroupId."):
        world.do("SendMessageBatch", QueueUrl=url, Entries=entries)
    assert world.bodies(url) == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from("abc")),
        st.tuples(st.just("receive"), st.integers(1, 10)),
        st.tuples(st.sampled_from(("delete", "back")), st.integers(0, 9)),
        st.tuples(st.just("later"), st.integers(1, 40)),
    ),
    max_size=40,
)


def before(held: dict[str, Any], bodies: list[str]) -> list[str]:
    """The bodies before the first that is in flight."""
    return list(takewhile(lambda body: body not in held, bodies))


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_groups_stay_in_order_whatever_receivers_do(steps: list[tuple[str, Any]]) -> None:
    """A model of each group: what is not deleted, in order; a group gives what is before the first in flight."""
    world = World()
    try:
        url = fifo(world)
        waiting: dict[str, list[str]] = defaultdict(list)
        held: dict[str, dict[str, Any]] = {}
        sent = 0
        for step, value in steps:
            if step == "send":
                sent += 1
                waiting[value].append(f"{value}{sent:03}")
                world.send(url, waiting[value][-1], MessageGroupId=value)
            elif step == "later":
                world.later(value)
                held = {body: each for body, each in held.items() if each["until_ms"] > world.clock.now_ms()}
            elif step == "receive":
                got = world.receive(url, value)
                free = {group: before(held, waiting[group]) for group in "abc"}
                for group in "abc":
                    mine = [message["Body"] for message in got if message["Body"][0] == group]
                    assert mine == free[group][: len(mine)]
                assert len(got) == min(value, sum(map(len, free.values())))
                until_ms = world.clock.now_ms() + 30_000
                held |= {message["Body"]: {**message, "until_ms": until_ms} for message in got}
            elif held:
                body = sorted(held)[value % len(held)]
                message = held.pop(body)
                if step == "delete":
                    world.delete(url, message)
                    waiting[body[0]].remove(body)
                else:
                    handle = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
                    world.do("ChangeMessageVisibility", **handle)
    finally:
        world.end()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), max_size=30))
def test_nothing_is_delivered_twice_within_the_window(sends: list[tuple[str, str]]) -> None:
    world = World()
    try:
        url = world.create("orders.fifo")
        ids: dict[str, str] = {}
        for body, key in sends:
            sent = world.send(url, body, MessageGroupId=body, MessageDeduplicationId=key)
            assert ids.setdefault(key, sent["MessageId"]) == sent["MessageId"]
        got = world.receive(url, 10) + world.receive(url, 10)
        assert {message["MessageId"] for message in got} == set(ids.values())
    finally:
        world.end()


@settings(deadline=None, max_examples=30)
@given(st.integers(20, 60), st.integers(1, 5))
def test_a_noisy_tenant_of_a_fair_queue_does_not_delay_the_others(noise: int, quiet: int) -> None:
    world = World()
    try:
        url = world.create("orders")
        for _ in range(noise):
            world.send(url, "noise", MessageGroupId="noisy")
        for number in range(quiet):
            world.send(url, f"quiet{number}", MessageGroupId="quiet")
        got = world.bodies(url, 10) + world.bodies(url, 10)
        position = max(index for index, body in enumerate(got) if body.startswith("quiet"))
        assert position <= 2 * quiet
    finally:
        world.end()


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_messages_of_one_tenant_can_be_at_work_at_once(world: World, name: str) -> None:
    url = world.create(name, **({"ContentBasedDeduplication": "true"} if name.endswith("fifo") else {}))
    for body in "ab":
        world.send(url, body, MessageGroupId="one")
    assert world.bodies(url, 1) == ["a"]
    assert world.bodies(url, 1) == ([] if name.endswith("fifo") else ["b"])
