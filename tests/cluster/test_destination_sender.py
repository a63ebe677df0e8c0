"""Destinations that take no letters: nothing waits for them but what is for them, and that keeps its order."""

from types import SimpleNamespace
from typing import Any

import pytest

from leveret.cluster.operations import Operations
from leveret.cluster.transfer.destination_sender import ANSWER_MS, PAUSE_MAX_MS, TURN_MAX, OutboxDestination
from leveret.cluster.transfer.message import OutboxBatch
from leveret.cluster.transfer.outbox import IDLE_MS
from leveret.core.errors import StoreUnreachable
from leveret.core.held import Held
from leveret.core.names import INTERNAL_VHOST
from leveret.core.queue import Queue
from leveret.wire.methods import QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk
from tests.cluster.cluster import Cluster, name_in
from tests.cluster.dead_letters import (
    GRAVE,
    GRAVE_SHARD,
    SOURCE,
    SOURCE_SHARD,
    consume,
    declare,
    die_rejected,
    is_empty,
    mourner,
    name_of,
    reject,
    retry,
    take,
    waiting,
)
from tests.cluster.proxy_world import FrontWorld
from tests.protocols.amqp.client import Client


@pytest.fixture
def client(world: FrontWorld) -> Client:
    """A client with a queue in another shard."""
    return mourner(world)


def test_letters_for_a_shard_do_not_wait_for_another_one(world: FrontWorld, client: Client) -> None:
    far = name_of("2", "far")
    client.call(QueueDeclare(far, durable=True), QueueDeclareOk)
    client.call(QueueBind(far, "amq.direct", "far"), QueueBindOk)
    world.roads.closed = {GRAVE_SHARD}
    declare(client, message_ttl=100)
    for number in range(2 * TURN_MAX):
        client.publish(SOURCE, body=b"%d" % number)
    world.pass_ms(200)
    declare(client, SOURCE + "'s other", key="far")
    client.publish(SOURCE + "'s other", body=b"dear")
    reject(client, SOURCE + "'s other")
    assert take(client, far).body == b"dear"
    assert waiting(world) == 2 * TURN_MAX
    world.roads.closed = set()
    retry(world)
    assert [take(client).body for _ in range(2 * TURN_MAX)] == [b"%d" % number for number in range(2 * TURN_MAX)]


@pytest.fixture
def full(world: FrontWorld, client: Client) -> str:
    """The name of a queue of another shard that takes one message, and has it."""
    name = name_of(GRAVE_SHARD, "full")
    arguments = {
        "x-max-length": 1,
        "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": GRAVE,
    }
    client.call(QueueDeclare(name, durable=True, arguments=arguments), QueueDeclareOk)
    client.publish(name, body=b"here before")
    return name


def move(world: FrontWorld, client: Client, target: str, *bodies: bytes) -> None:
    """Publish messages, then move them to a queue of another shard."""
    client.call(QueueDeclare(SOURCE, durable=True), QueueDeclareOk)
    for body in bodies:
        client.publish(SOURCE, body=body)
    world.worlds[SOURCE_SHARD].broker.queue(SOURCE).redrive(target)
    world.work()


def test_a_full_queue_does_not_keep_letters_from_others_of_its_shard(
    world: FrontWorld, client: Client, full: str
) -> None:
    bodies = [b"%d" % number for number in range(2 * TURN_MAX)]
    move(world, client, full, *bodies)
    move(world, client, GRAVE, b"dear")
    assert take(client).body == b"dear"
    [stuck] = world.outboxes[SOURCE_SHARD].waiting()
    assert (stuck.destination, stuck.messages) == (f"queue '{full}' in vhost '/'", len(bodies))
    queues = world.worlds[SOURCE_SHARD].core.topology.vhosts[INTERNAL_VHOST].queues
    assert sum(queue.leased for queue in queues.values()) == 1


def test_what_waited_for_room_comes_in_its_order(world: FrontWorld, client: Client, full: str) -> None:
    bodies = [b"%d" % number for number in range(5)]
    move(world, client, full, *bodies)
    for body in [b"here before", *bodies]:
        assert take(client, full).body == body
        retry(world)
    assert is_empty(client, full)
    assert is_empty(client), "what waits is no dead letter"


def test_operators_see_who_takes_nothing(
    world: FrontWorld, client: Client, full: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "leveret.node")
    move(world, client, full, b"dear")
    for _ in range(5):
        retry(world)
    [stuck] = world.outboxes[SOURCE_SHARD].waiting()
    assert (stuck.messages, stuck.is_stuck) == (1, True)
    assert stuck.age_ms >= 5 * PAUSE_MAX_MS
    node: Any = SimpleNamespace(_node=world)
    [told] = Operations._outboxes(node)
    assert (told["shard"], told["destination"], told["stuck"]) == (SOURCE_SHARD, stuck.destination, True)
    take(client, full)
    retry(world)
    assert world.outboxes[SOURCE_SHARD].waiting() == []
    assert [record.getMessage() for record in caplog.records] == ["outbox waits", "outbox resumes"]


def test_a_full_queue_knows_what_it_has_taken(world: FrontWorld, client: Client, full: str) -> None:
    take(client, full)
    world.roads.back = False
    move(world, client, full, b"dear")
    world.roads.back = True
    world.pass_ms(ANSWER_MS)
    for _ in range(2):
        retry(world)
    assert waiting(world) == 0
    assert (take(client, full).body, is_empty(client, full)) == (b"dear", True)


def test_a_letter_is_not_taken_before_the_one_in_front_of_it(world: FrontWorld, client: Client, full: str) -> None:
    move(world, client, full, b"one")
    _, batch = world.posted[-1]
    [message] = batch.messages
    three = OutboxBatch([message._replace(name=f"0/{number}") for number in range(3)], batch.queue)
    taken: list[int] = []
    shard = world.shards[GRAVE_SHARD]
    for _ in range(4):
        shard.bring(three, taken.append)
        world.work()
        take(client, full)
    assert taken == [0, 1, 2, 3]


def test_letters_that_come_late_come_once_and_in_their_order(world: FrontWorld, client: Client) -> None:
    world.roads.there = False
    move(world, client, GRAVE, b"0", b"1", b"2")
    _, late = world.posted[-1]
    world.roads.there = True
    taken: list[int] = []
    for _ in range(2):
        world.shards[GRAVE_SHARD].bring(late, taken.append)
        retry(world)
    assert (taken, waiting(world)) == ([3, 3], 0)
    assert [take(client).body for _ in range(3)] == [b"0", b"1", b"2"]
    assert is_empty(client)


class Unreadable:
    """A queue whose second message cannot be read for now."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.taken = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def take(self, count: int) -> list[Held]:
        self.taken += 1
        if self.taken == 2:
            raise StoreUnreachable("not now")
        return self._queue.take(count)


def test_what_can_be_read_does_not_wait_for_what_cannot(world: FrontWorld, client: Client) -> None:
    world.roads.closed = {GRAVE_SHARD}
    declare(client)
    for body in (b"one", b"two", b"three"):
        client.publish(SOURCE, body=body)
        reject(client)
    world.roads.closed = set()
    [sender] = world.outboxes[SOURCE_SHARD]._senders.values()
    sender.queue = Unreadable(sender.queue)  # type: ignore[assignment]
    for _ in range(2):
        retry(world)
    assert [take(client).body for _ in range(3)] == [b"one", b"two", b"three"]
    assert waiting(world) == 0


def test_a_destination_that_nobody_writes_to_is_forgotten(world: FrontWorld, client: Client) -> None:
    die_rejected(world, client)
    queues = world.worlds[SOURCE_SHARD].core.topology.vhosts[INTERNAL_VHOST].queues
    assert list(queues) == [OutboxDestination(GRAVE_SHARD).sender]
    world.pass_ms(IDLE_MS)
    retry(world)
    assert not queues
    client.publish(SOURCE, body=b"dear")
    reject(client)
    assert [take(client).body for _ in range(2)] == [b"dear", b"dear"]


def test_a_full_queue_of_another_node_keeps_nothing_else_waiting(cluster: Cluster) -> None:
    source, full, free = name_in(0, "source"), name_in(1, "full"), name_in(1, "free")
    bodies = [b"%d" % number for number in range(20)]
    with cluster.connect("a") as one:
        channel = one.channel()
        channel.queue_declare(source, durable=True)
        channel.queue_declare(free, durable=True)
        arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
        channel.queue_declare(full, durable=True, arguments=arguments)
        channel.confirm_delivery()
        for body in (*bodies, b"dear"):
            channel.basic_publish("", source, body)
        queue = cluster.members["a"].shards["0"].broker.queue(source)
        assert queue.redrive(full, limit=len(bodies)).moved == len(bodies)
        assert queue.redrive(free).moved == 1
        came: list[bytes] = []
        channel.basic_consume(free, lambda c, method, p, body: came.append(body), auto_ack=True)
        consume(one, lambda: came == [b"dear"])
        outbox = cluster.members["a"].node.outboxes["0"]
        consume(one, lambda: outbox.depth == len(bodies) - 2)
        channel.basic_consume(full, lambda c, method, p, body: came.append(body), auto_ack=True)
        consume(one, lambda: len(came) == 1 + len(bodies))
        assert came[1:] == bodies
