"""One message to several queues, durable and not; and definitions that come back."""

from typing import Any

import pytest

from leveret.core.errors import AccessRefused, DiskFull, InvalidArgument, QueueNotFound
from leveret.core.names import NAME_BYTES_MAX
from leveret.core.policy import Policy
from leveret.core.properties import Properties, content
from leveret.core.topology import DESCRIPTION_CHARS_MAX, TAGS_MAX, VhostDetails
from tests.core.world import World, ack, ready, take, taken


def test_durable_and_transient_queues_get_the_same_message(disk: World) -> None:
    for name, durable in (("kept", True), ("lost", False), ("kept too", True)):
        disk.queue(name, durable=durable)
        disk.broker.bind("/", "amq.fanout", name)
    disk.publish("amq.fanout", "", "a")
    assert [ready(disk.again(name)) for name in ("kept", "lost", "kept too")] == ["a", "a", "a"]
    disk.restart()
    assert [ready(disk.again(name)) for name in ("kept", "kept too")] == ["a", "a"]
    with pytest.raises(QueueNotFound):
        disk.again("lost")


def test_a_settle_in_one_queue_leaves_the_others_alone(disk: World) -> None:
    for name in ("one", "two"):
        disk.queue(name)
        disk.broker.bind("/", "amq.fanout", name)
    disk.publish("amq.fanout", "", "a")
    ack(take(disk.again("one"))[0])
    disk.restart()
    assert (ready(disk.again("one")), ready(disk.again("two"))) == ("", "a")


def test_a_transient_message_in_a_durable_queue_is_not_in_a_checkpoint(disk: World) -> None:
    queue = disk.queue()
    disk.send(queue, "a", persistent=False)
    disk.send(queue, "b")
    disk.send(queue, "c", persistent=False)
    disk.disk().checkpoint()
    disk.crash()
    assert (disk.again().depth, taken(disk.again())) == (1, "b")


def test_purging_and_deleting_a_transient_queue_leaves_a_journal_that_opens(disk: World) -> None:
    queue = disk.queue("lost", durable=False)
    disk.send_all(queue, "ab")
    disk.broker.delete_queue(queue)
    disk.send(disk.queue("kept"), "a")
    disk.restart()
    assert ready(disk.again("kept")) == "a"


def test_an_unroutable_message_is_told_or_goes_to_the_alternate_exchange(world: World) -> None:
    assert world.publish("amq.direct", "nowhere") == (0, False, False)
    world.broker.declare_exchange("/", "main", "direct", arguments={"alternate-exchange": "amq.fanout"})
    world.broker.bind("/", "amq.fanout", world.queue().name)
    assert world.publish("main", "nowhere", "a")[1]
    assert ready(world.again()) == "a"


def test_nobody_publishes_to_an_internal_exchange_but_it_routes(world: World) -> None:
    world.broker.declare_exchange("/", "inner", "fanout", internal=True)
    world.broker.bind("/", "inner", world.queue().name)
    with pytest.raises(AccessRefused, match="internal"):
        world.publish("inner", "")
    world.broker.bind("/", "amq.direct", "inner", "key", destination_type="exchange")
    world.publish("amq.direct", "key", "a")
    assert ready(world.again()) == "a"


@pytest.mark.parametrize("how", ["replay", "checkpoint", "compaction"])
def test_definitions_survive_a_restart(disk: World, how: str) -> None:
    broker = disk.broker
    broker.declare_vhost("other")
    broker.declare_exchange("other", "x", "topic")
    broker.declare_queue("other", "q", {"x-max-length": 5}, auto_delete=True)
    broker.bind("other", "x", "q", "a.*")
    broker.bind("other", "x", "q", "gone")
    broker.unbind("other", "x", "q", "gone")
    broker.set_policy("other", Policy("p", ".*", definition={"message-ttl": 7}))
    broker.delete_queue(broker.declare_queue("/", "gone"))
    disk.commit()
    if how == "checkpoint":
        disk.disk().checkpoint()
    elif how == "compaction":
        disk.send(disk.queue(), "x" * 2000)
        disk.compact()
        assert disk.disk().meta.oldest > 1
    disk.restart()
    virtual_host = disk.broker.topology.vhost("other")
    queue = virtual_host.queue("q")
    assert [(each.source, each.key) for each in virtual_host.bindings()] == [("x", "a.*")]
    assert (queue.auto_delete, queue.policy.max_length, queue.policy.message_ttl_ms) == (True, 5, 7)
    with pytest.raises(QueueNotFound):
        disk.again("gone")
    newer = disk.broker.declare_queue("/", "newer")
    assert newer.id not in {each.id for each in disk.broker.queues.values() if each is not newer}


def test_a_deleted_queue_comes_back_empty_when_it_is_declared_again(disk: World) -> None:
    disk.send_all(disk.queue(), "ab")
    assert disk.broker.delete_queue(disk.again()) == 2
    disk.queue()
    disk.restart()
    assert disk.again().depth == 0


def test_queues_that_last_get_the_type_of_their_vhost(disk: World) -> None:
    disk.broker.declare_vhost("team", VhostDetails(default_queue_type="quorum"))
    disk.restart()
    broker = disk.broker
    lasting = broker.declare_queue("team", "lasting", {"x-max-length": 5})
    brief = broker.declare_queue("team", "brief", auto_delete=True)
    asked = broker.declare_queue("team", "asked", {"x-queue-type": "classic"})
    types = [queue.policy.queue_type for queue in (lasting, brief, asked)]
    assert types == ["quorum", "classic", "classic"]
    assert broker.declare_queue("team", "lasting", {"x-max-length": 5}) is lasting
    assert broker.declare_queue("team", "asked") is asked, "who does not ask for a type takes what there is"


@pytest.mark.parametrize(
    "details",
    [
        {"description": "x" * (DESCRIPTION_CHARS_MAX + 1)},
        {"description": 1},
        {"tags": ("t",) * (TAGS_MAX + 1)},
        {"tags": ("t" * (NAME_BYTES_MAX + 1),)},
        {"default_queue_type": "odd"},
    ],
)
def test_bad_details_of_a_vhost_are_refused(details: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        VhostDetails(**details)


def test_a_quorum_queue_keeps_transient_messages(disk: World) -> None:
    queue = disk.queue(queue_type="quorum")
    disk.send(queue, "a", persistent=False)
    disk.broker.send_many(queue, content(Properties(), b"")[0], [b"b"], persistent=False)
    disk.restart()
    assert taken(disk.again()) == "ab"


@pytest.mark.parametrize("persistent", [False, True])
def test_a_classic_queue_beside_a_quorum_queue_keeps_what_is_persistent(disk: World, persistent: bool) -> None:
    for name, arguments in (("quorum", {"queue_type": "quorum"}), ("classic", {}), ("limited", {"max_length": 9})):
        disk.queue(name, **arguments)
        disk.broker.bind("/", "amq.fanout", name)
    disk.publish("amq.fanout", "", "a", persistent=persistent)
    assert [ready(disk.again(name)) for name in ("quorum", "classic", "limited")] == ["a", "a", "a"]
    disk.restart()
    kept = "a" if persistent else ""
    assert [ready(disk.again(name)) for name in ("quorum", "classic", "limited")] == ["a", kept, kept]


def test_a_transient_dead_letter_is_durable_in_a_quorum_queue(disk: World) -> None:
    queue = disk.queue(dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=10)
    disk.queue("dead", queue_type="quorum")
    disk.send(queue, "a", persistent=False)
    disk.pass_ms(20)
    disk.restart()
    assert ready(disk.again("dead")) == "a"


def test_a_full_disk_refuses_transient_messages_of_a_quorum_queue(disk: World) -> None:
    queue = disk.queue(queue_type="quorum")
    disk.disk().journal.refuse_publishes(True)
    with pytest.raises(DiskFull, match="free space"):
        disk.send(queue, persistent=False)
    disk.send(disk.queue("classic"), persistent=False)
