"""What is declared to last comes back after a restart exactly as it was; what is not leaves no trace in the journal."""

import json
from typing import Any

import pytest

from leveret.core import dispatch
from leveret.core.broker import Broker
from leveret.core.policy import Policy
from leveret.core.ports import Journal
from leveret.core.queue import Queue
from leveret.core.tables import Long
from tests.core.world import Recorder, World, ready

QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "quorum": {"x-queue-type": "quorum", "x-delivery-limit": 3, "x-quorum-initial-group-size": 1},
    "limits": {"x-max-length": 5, "x-max-length-bytes": Long(50), "x-overflow": "reject-publish", "x-expires": 10**9},
    "dead": {"x-dead-letter-exchange": "topic", "x-dead-letter-routing-key": "k", "x-message-ttl": 10**9},
    "ranked": {"x-max-priority": 9, "x-single-active-consumer": True, "x-unknown": [1, {"a": b"\x00"}, None]},
}
EXCHANGES: dict[str, dict[str, Any]] = {
    "direct": {},
    "fanout": {},
    "topic": {"alternate-exchange": "fanout"},
    "headers": {"mine": True},
    "x-consistent-hash": {"hash-header": "h"},
    "x-modulus-hash": {},
    "x-random": {},
    "x-delayed-message": {"x-delayed-type": "topic"},
}
POLICIES = (
    Policy("long", "^plain", 1, "queues", {"max-length": 7}),
    Policy("alternate", "^direct$", 0, "exchanges", {"alternate-exchange": "fanout"}),
    Policy("cap", ".*", 0, "all", {"max-length": 9}, operator=True),
)


def declare_all(world: World, vhost: str) -> None:
    """One of everything."""
    broker = world.broker
    broker.declare_vhost(vhost)
    for name, arguments in QUEUES.items():
        broker.declare_queue(vhost, name, arguments)
    broker.declare_queue(vhost, "going", auto_delete=True)
    broker.declare_queue(vhost, "amq.gen-x", server_named=True)
    for type, arguments in EXCHANGES.items():
        broker.declare_exchange(vhost, type, type, arguments=arguments, internal=type == "fanout")
        broker.bind(vhost, type, "plain", "1")
        broker.bind(vhost, type, "dead", "2", {"x-match": "any", "n": Long(1)})
    broker.declare_exchange(vhost, "leaving", "fanout", auto_delete=True)
    broker.bind(vhost, "leaving", "plain")
    broker.bind(vhost, "direct", "topic", "k", destination_type="exchange")
    for policy in POLICIES:
        broker.set_policy(vhost, policy)


def declared(world: World) -> str:
    """All that is declared, as text."""
    found: dict[str, Any] = {}
    for virtual_host in world.broker.topology.vhosts.values():
        queues = [
            world.broker.log.describe(queue) | {"policy": repr(queue.policy)} for queue in virtual_host.queues.values()
        ]
        found[virtual_host.name] = {
            "queues": sorted(queues, key=lambda each: str(each["name"])),
            "exchanges": {
                each.name: [each.to_dict(), each.alternate, each.delays] for each in virtual_host.exchanges.values()
            },
            "bindings": sorted(json.dumps(each.to_dict(), sort_keys=True) for each in virtual_host.bindings()),
            "policies": [
                each.to_dict() for each in (*virtual_host.policies.values(), *virtual_host.operator_policies.values())
            ],
        }
    return json.dumps(found, sort_keys=True)


@pytest.mark.parametrize("again", ["restart", "compact", "checkpoint"])
def test_everything_that_lasts_comes_back_as_it_was(disk: World, again: str) -> None:
    declare_all(disk, "/")
    declare_all(disk, "team")
    before = declared(disk)
    if again == "compact":
        disk.compact()
    if again == "checkpoint":
        disk.commit()
        disk.disk().checkpoint()
    disk.restart()
    assert declared(disk) == before


@pytest.mark.parametrize("again", ["restart", "checkpoint"])
def test_what_was_deleted_stays_deleted(disk: World, again: str) -> None:
    bare = declared(disk)
    declare_all(disk, "/")
    broker, virtual_host = disk.broker, disk.broker.topology.vhost("/")
    for queue in list(virtual_host.queues.values()):
        broker.delete_queue(queue)
    for exchange in [each for each in virtual_host.exchanges if each and not each.startswith("amq.")]:
        broker.delete_exchange("/", exchange)
    for policy in POLICIES:
        broker.delete_policy("/", policy.name, policy.operator)
    if again == "checkpoint":
        disk.commit()
        disk.disk().checkpoint()
    disk.restart()
    assert declared(disk) == bare


def test_transient_things_do_not_survive_and_neither_do_their_bindings(disk: World) -> None:
    broker = disk.broker
    broker.declare_exchange("/", "lasting", "fanout")
    broker.declare_exchange("/", "passing", "fanout", durable=False)
    for queue in (disk.queue("kept"), disk.queue("gone", durable=False)):
        for exchange in ("lasting", "passing"):
            broker.bind("/", exchange, queue.name)
        disk.send(queue, "m")
    broker.declare_queue("/", "mine", owner=object())
    broker.bind("/", "lasting", "mine")
    disk.restart()
    virtual_host = disk.broker.topology.vhost("/")
    assert set(virtual_host.queues) == {"kept"}
    assert "passing" not in virtual_host.exchanges
    assert [(each.source, each.destination.name) for each in virtual_host.bindings()] == [("lasting", "kept")]
    assert ready(disk.again("kept")) == "m"


class Listening(Journal):
    """A journal that notes what it is told to define."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, bytes]] = []

    def defined(self, what: int, payload: bytes) -> int:
        self.told.append((what, payload))
        segment: int = super().defined(what, payload)
        return segment


def exclusive_life(broker: Broker) -> Queue:
    """A queue of one connection from its declaration to its end."""
    queue = broker.declare_queue("/", "mine", {"x-max-length": 5}, owner=object())
    broker.bind("/", "amq.fanout", "mine", "k")
    broker.unbind("/", "amq.fanout", "mine", "k")
    broker.bind("/", "amq.topic", "mine", "k")
    broker.delete_queue(queue)
    return queue


def test_the_journal_never_hears_of_exclusive_queues() -> None:
    journal = Listening()
    queue = exclusive_life(Broker(journal))
    assert not queue.durable
    assert journal.told == []


def test_an_auto_delete_queue_waits_for_a_first_consumer_and_goes_with_the_last(disk: World) -> None:
    disk.broker.declare_queue("/", "going", auto_delete=True)
    disk.restart()
    queue, one, two = disk.again("going"), Recorder("one"), Recorder("two")
    for consumer in (one, two):
        dispatch.subscribe(queue, consumer)
    dispatch.unsubscribe(queue, one)
    assert not queue.deleted
    dispatch.unsubscribe(queue, two)
    assert queue.deleted
    disk.restart()
    assert not disk.broker.queues


@pytest.mark.parametrize("use", ["declare", "take", "consumer"])
def test_an_expiring_queue_lives_while_it_is_used(world: World, use: str) -> None:
    queue, consumer = world.queue(expires=100), Recorder()
    world.pass_ms(60)
    if use == "declare":
        world.queue(expires=100)
    elif use == "take":
        queue.take(1)
    else:
        dispatch.subscribe(queue, consumer)
        world.pass_ms(1_000)
        dispatch.unsubscribe(queue, consumer)
    world.pass_ms(60)
    assert not queue.deleted
    world.pass_ms(40)
    assert queue.deleted


def test_a_queue_that_is_only_sent_to_expires_with_what_it_has_and_buries_nobody(world: World) -> None:
    dead = world.queue("dlq")
    queue = world.queue(expires=100, dead_letter_exchange="", dead_letter_routing_key="dlq")
    world.pass_ms(60)
    world.send(queue)
    world.pass_ms(60)
    assert (queue.deleted, dead.depth) == (True, 0)
