"""What quorum queues refuse, who may use an exclusive queue, and names that the server makes."""

from typing import Any

import pytest

from leveret.core import dispatch
from leveret.core.broker import Broker
from leveret.core.errors import AccessRefused, NotSupported, PreconditionFailed, ResourceLocked
from leveret.core.queue_types import check_get
from tests.core.world import Recorder, World

QUORUM = {"x-queue-type": "quorum"}
LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another "
    "connection or the exclusive property value does not match that of the original declaration."
)


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ({"owner": object()}, "invalid property 'exclusive-owner' for queue 'q' in vhost '/'"),
        ({"durable": False}, "invalid property 'non-durable' for queue 'q' in vhost '/'"),
        ({"auto_delete": True}, "invalid property 'auto-delete' for queue 'q' in vhost '/'"),
        ({"auto_delete": True, "durable": False}, "invalid property 'auto-delete' for queue 'q' in vhost '/'"),
        ({"server_named": True}, "Cannot declare a server-named queue for type rabbit_quorum_queue"),
    ],
)
def test_a_quorum_queue_lasts(world: World, named: dict[str, Any], text: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        world.broker.declare_queue("/", "q", QUORUM, **named)
    assert str(refusal.value) == text
    assert not world.broker.queues
    assert world.broker.declare_queue("/", "q", **named).policy.queue_type == "classic"


@pytest.mark.parametrize("flag", ["if_unused", "if_empty"])
def test_a_quorum_queue_is_not_deleted_under_conditions(world: World, flag: str) -> None:
    queue = world.broker.declare_queue("/", "q", QUORUM)
    with pytest.raises(NotSupported) as refusal:
        world.broker.delete_queue(queue, **{flag: True})
    assert str(refusal.value) == (
        f"cannot delete queue 'q' in vhost '/'. queue.delete operations with {flag.replace('_', '-')} flag set are not "
        "supported by quorum queues"
    )
    assert world.broker.delete_queue(queue) == 0


def test_single_messages_are_not_taken_past_the_active_consumer_of_a_quorum_queue(world: World) -> None:
    queue = world.queue(queue_type="quorum", single_active_consumer=True)
    with pytest.raises(ResourceLocked) as refusal:
        check_get(queue)
    assert str(refusal.value) == (
        "cannot obtain access to locked queue 'q' in vhost '/'. basic.get operations are not supported by quorum "
        "queues with single active consumer"
    )
    check_get(world.queue("classic", single_active_consumer=True))
    check_get(world.queue("plain", queue_type="quorum"))


def test_a_core_without_a_place_for_streams_refuses_them(world: World) -> None:
    with pytest.raises(NotSupported, match="this broker keeps no streams"):
        world.queue(queue_type="stream")


def test_an_exclusive_consumer_does_not_go_with_a_single_active_one(world: World) -> None:
    queue = world.queue(single_active_consumer=True)
    with pytest.raises(AccessRefused, match="queue 'q' in vhost '/' in exclusive use"):
        dispatch.subscribe(queue, Recorder(exclusive=True))


def refused(broker: Broker, owner: object) -> bool:
    """Whether a declaration by this owner is refused as locked."""
    try:
        broker.declare_queue("/", "q", owner=owner)
    except ResourceLocked as refusal:
        return str(refusal) == LOCKED
    return False


def test_only_its_owner_may_declare_an_exclusive_queue_and_only_as_such(world: World) -> None:
    owner = object()
    world.broker.declare_queue("/", "q", owner=owner)
    assert [refused(world.broker, each) for each in (owner, None, object())] == [False, True, True]


def test_nobody_can_make_a_queue_of_all_his_own(world: World) -> None:
    world.broker.declare_queue("/", "q")
    assert [refused(world.broker, each) for each in (None, object())] == [False, True]


def test_only_the_server_makes_reserved_names(world: World) -> None:
    with pytest.raises(AccessRefused, match=r"queue name 'amq.gen-1' contains reserved prefix 'amq.\*'"):
        world.broker.declare_queue("/", "amq.gen-1")
    made = world.broker.declare_queue("/", "amq.gen-1", server_named=True)
    assert world.broker.declare_queue("/", "amq.gen-1") is made
