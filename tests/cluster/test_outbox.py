"""Dead letters for queues of other shards: each arrives, and once, whatever goes wrong on the way."""

from pathlib import Path
from shutil import copytree
from typing import Any

import pika
import pytest

from leveret.cluster.transfer import message as batches
from leveret.cluster.transfer.destination_sender import ANSWER_MS, PAUSE_MAX_MS, TURN_MAX, OutboxDestination
from leveret.cluster.transfer.message import ADDRESS, MOVED, SENT, OutboxBatch
from leveret.cluster.transfer.outbox import Outbox
from leveret.core.names import INTERNAL_VHOST
from leveret.core.properties import Properties
from leveret.wire.methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
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
from tests.protocols.amqp.client import Client, World


@pytest.fixture
def client(world: FrontWorld) -> Client:
    """A client with an exchange for dead letters that leads to another shard."""
    return mourner(world)


def die_expired(world: FrontWorld, client: Client) -> None:
    declare(client, message_ttl=100)
    client.publish(SOURCE, body=b"dear")
    world.pass_ms(200)


def die_of_others(world: FrontWorld, client: Client) -> None:
    declare(client, max_length=1)
    client.publish(SOURCE, body=b"dear")
    client.publish(SOURCE, body=b"younger")


def die_refused(world: FrontWorld, client: Client) -> None:
    declare(client, max_length=1, overflow="reject-publish-dlx")
    client.publish(SOURCE, body=b"older")
    client.publish(SOURCE, body=b"dear")


DEATHS = {
    "rejected": die_rejected,
    "expired": die_expired,
    "maxlen": die_of_others,
    "maxlen of the new one": die_refused,
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_dead_letter_gets_to_another_shard(world: FrontWorld, client: Client, death: str) -> None:
    DEATHS[death](world, client)
    came = take(client)
    assert (came.body, came.method.exchange, came.method.routing_key) == (b"dear", "amq.direct", "dead")
    assert came.properties is not None
    assert came.properties.headers is not None
    [entry] = came.properties.headers["x-death"]
    assert (entry["queue"], entry["reason"], entry["count"]) == (SOURCE, death.split()[0], 1)
    assert [name for name in came.properties.headers if name.startswith("x-leveret")] == []
    assert is_empty(client)
    assert waiting(world) == 0


def test_only_what_goes_elsewhere_is_in_the_outbox(world: FrontWorld, client: Client) -> None:
    near = name_of(SOURCE_SHARD, "near")
    client.call(QueueDeclare(near, durable=True), QueueDeclareOk)
    client.call(QueueBind(near, "amq.direct", "near"), QueueBindOk)
    declare(client, key="near")
    client.publish(SOURCE, body=b"dear")
    reject(client)
    assert take(client, near).body == b"dear"
    assert INTERNAL_VHOST not in world.worlds[SOURCE_SHARD].core.topology.vhosts


def test_every_shard_gets_its_copies(world: FrontWorld, client: Client) -> None:
    more = [SOURCE + "'s own", name_of("2", "third"), name_of(GRAVE_SHARD, "second")]
    for name in more:
        client.call(QueueDeclare(name, durable=True), QueueDeclareOk)
        client.call(QueueBind(name, "amq.direct", "dead"), QueueBindOk)
    die_rejected(world, client)
    for name in (GRAVE, *more):
        assert take(client, name).body == b"dear"
        assert is_empty(client, name)


def test_a_dead_letter_keeps_the_keys_that_it_had(world: FrontWorld, client: Client) -> None:
    declare(client, key=None)
    client.publish(SOURCE, headers={"CC": ["dead"]}, body=b"dear")
    reject(client)
    assert take(client).body == b"dear"


def test_headers_of_the_outbox_that_a_publisher_made_up_count_for_nothing(world: FrontWorld, client: Client) -> None:
    declare(client)
    client.publish(SOURCE, headers={ADDRESS: "nowhere", MOVED: True, SENT: "{"}, body=b"dear")
    reject(client)
    taken = take(client)
    assert taken.body == b"dear"
    assert taken.properties is not None
    assert not {ADDRESS, MOVED, SENT} & set(taken.properties.headers or {})


def test_a_circle_through_three_shards_ends(world: FrontWorld, client: Client) -> None:
    circle = [SOURCE, name_of(GRAVE_SHARD, "back"), name_of("2", "other")]
    for name, following in zip(circle, [*circle[1:], SOURCE], strict=True):
        dies = {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": following, "x-message-ttl": 100}
        client.call(QueueDeclare(name, durable=True, arguments=dies), QueueDeclareOk)
        client.call(QueueBind(name, "amq.direct", name), QueueBindOk)
    client.publish(SOURCE, body=b"round")
    for _ in range(10):
        world.pass_ms(200)
    posted = [message.metadata.routing_key for _, batch in world.posted for message in batch.messages]
    assert posted == circle[1:]
    assert all(is_empty(client, name) for name in circle)


def test_what_cannot_be_sent_waits(world: FrontWorld, client: Client) -> None:
    world.roads.there = False
    die_rejected(world, client)
    assert (waiting(world), is_empty(client)) == (1, True)
    world.roads.there = True
    retry(world)
    assert (waiting(world), take(client).body) == (0, b"dear")


def test_what_comes_again_is_dropped(world: FrontWorld, client: Client) -> None:
    world.roads.back = False
    die_rejected(world, client)
    world.roads.back = True
    world.pass_ms(ANSWER_MS)
    for _ in range(2):
        retry(world)
    assert len(world.posted) == 2
    assert (take(client).body, is_empty(client), waiting(world)) == (b"dear", True, 0)


def test_the_next_owner_sends_what_was_not_answered(world: FrontWorld, client: Client) -> None:
    world.roads.back = False
    die_rejected(world, client)
    world.outboxes[SOURCE_SHARD].close()
    world.roads.back = True
    source = world.worlds[SOURCE_SHARD]
    world.outboxes[SOURCE_SHARD] = Outbox(SOURCE_SHARD, source.core, world)
    world.outboxes[SOURCE_SHARD].start(source.hub)
    world.work()
    assert len(world.posted) == 2
    assert (take(client).body, is_empty(client), waiting(world)) == (b"dear", True, 0)


def test_a_letter_whose_queue_has_gone_is_dropped_and_counted(world: FrontWorld, client: Client) -> None:
    world.roads.there = False
    die_rejected(world, client)
    client.call(QueueDelete(GRAVE), QueueDeleteOk)
    retry(world)
    assert (waiting(world), world.outboxes[SOURCE_SHARD].dropped) == (0, 1)


def test_at_least_once_holds_between_shards_too(world: FrontWorld, client: Client) -> None:
    world.roads.there = False
    kept = {"queue_type": "quorum", "dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    declare(client, **kept)
    client.publish(SOURCE, body=b"dear")
    reject(client)
    world.roads.there = True
    retry(world)
    assert (take(client).body, is_empty(client)) == (b"dear", True)


def test_at_least_once_waits_for_room_in_another_shard(world: FrontWorld, client: Client) -> None:
    full = name_of(GRAVE_SHARD, "full")
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    client.call(QueueDeclare(full, durable=True, arguments=limits), QueueDeclareOk)
    client.call(QueueBind(full, "amq.direct", "full"), QueueBindOk)
    declare(client, key="full", queue_type="quorum", dead_letter_strategy="at-least-once", overflow="reject-publish")
    for body in (b"one", b"two"):
        client.publish(SOURCE, body=body)
        reject(client)
    retry(world)
    assert (take(client, full).body, waiting(world)) == (b"one", 1)
    retry(world)
    assert (take(client, full).body, waiting(world), is_empty(client, full)) == (b"two", 0, True)


def test_an_exchange_that_delays_leads_to_other_shards(world: FrontWorld, client: Client) -> None:
    delayed = {"x-delayed-type": "direct"}
    client.call(ExchangeDeclare("later", "x-delayed-message", durable=True, arguments=delayed), ExchangeDeclareOk)
    client.call(QueueBind(GRAVE, "later", "dead"), QueueBindOk)
    declare(client, dead_letter_exchange="later")
    client.publish(SOURCE, body=b"dear")
    reject(client)
    assert take(client).method.exchange == "later"


def test_more_letters_than_may_wait_for_an_answer(world: FrontWorld, client: Client) -> None:
    declare(client, message_ttl=100)
    bodies = [f"{number}".encode() for number in range(TURN_MAX + 50)]
    for body in bodies:
        client.publish(SOURCE, body=body)
    world.pass_ms(200)
    assert [take(client).body for _ in bodies] == bodies
    assert waiting(world) == 0


# Crashes


class OneWay:
    """An office that brings letters to one broker, and keeps what the disk of the sender had at each step."""

    def __init__(self, disk: Path, target: World, *, keeps_images: bool = False) -> None:
        self.disk = disk
        self.keeps_images = keeps_images
        self.target = target
        self.images: list[Path] = []
        self.jobs: list[Any] = []

    def reached(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> dict[str, set[str]]:
        return {GRAVE_SHARD: {GRAVE}}

    def definitions(self) -> Any:
        raise AssertionError("there are no sinks here")

    def wake(self, job: Any) -> None:
        self.jobs.append(job)

    def post(self, shard_id: str, batch: OutboxBatch, done: Any) -> None:
        self.crash()
        with self.target.hub.locked() as core:
            taken = batches.take(core, batch)
        self.crash()
        done(taken)
        self.crash()

    def crash(self) -> None:
        """What would be left if the power failed now."""
        if self.keeps_images:
            image = self.disk.with_name(f"{self.disk.name}-{len(self.images)}")
            self.images.append(Path(copytree(self.disk, image)))

    def work(self, source: World) -> None:
        source.work()
        while self.jobs:
            self.jobs.pop(0)()
            source.work()


def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    target = World()
    target.core.declare_queue("/", GRAVE)
    target.core.bind("/", "amq.direct", GRAVE, "dead")
    first = OneWay(tmp_path / "disk", target, keeps_images=True)
    source = World(path=str(first.disk), segment_bytes=1 << 20)
    outbox = Outbox(SOURCE_SHARD, source.core, first)
    outbox.start(source.hub)
    arguments = {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "dead"}
    queue = source.core.declare_queue("/", SOURCE, arguments)
    for body in (b"one", b"two"):
        source.core.publish_through("/", "", SOURCE, Properties(delivery_mode=2), body)
    for held in queue.take(2):
        queue.reject(held, held.lease)
    first.work(source)
    source.close()
    images = [*first.images, first.disk]
    assert len(images) == 4
    for image in images:
        node = OneWay(image, target)
        again = World(path=str(image), segment_bytes=1 << 20)
        later = Outbox(SOURCE_SHARD, again.core, node)
        later.start(again.hub)
        node.work(again)
        kept = again.core.topology.vhosts[INTERNAL_VHOST].queues[OutboxDestination(GRAVE_SHARD).sender]
        assert (kept.depth, kept.leased) == (0, 0)
        again.close()
    [grave] = [each for each in target.core.queues.values() if each.name == GRAVE]
    assert sorted(held.message.body for held in grave.take(10)) == [b"one", b"two"]
    target.close()


def test_a_large_body_is_sent_whole_when_it_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = World()
    target.core.declare_queue("/", GRAVE)
    target.core.bind("/", "amq.direct", GRAVE, "dead")
    node = OneWay(tmp_path / "disk", target)
    source = World(path=str(node.disk), blob_bytes=1_000)
    outbox = Outbox(SOURCE_SHARD, source.core, node)
    outbox.start(source.hub)
    arguments = {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "dead"}
    queue = source.broker.queue(SOURCE, arguments=arguments)
    queue.send(bytes(5_000))
    [held] = queue.core.take(1)
    assert len(held.message.body) < 1_000
    queue.core.reject(held, held.lease)
    large = source.hub.runtime.large
    assert large is not None
    with monkeypatch.context() as away:
        away.setattr(large, "get", lambda pointer: bytes(1 // 0))
        node.work(source)
        source.pass_ms(PAUSE_MAX_MS)
    assert outbox.depth == 1
    outbox.retry()
    node.work(source)
    [grave] = [each for each in target.core.queues.values() if each.name == GRAVE]
    [came] = grave.take(1)
    assert came.message.body == bytes(5_000)
    source.close()
    target.close()


# Several nodes


def test_dead_letters_get_to_queues_of_other_nodes(cluster: Cluster) -> None:
    source, grave = name_in(0, "source"), name_in(1, "grave")
    with cluster.connect("a") as one:
        channel = one.channel()
        channel.queue_declare(grave, durable=True)
        channel.queue_bind(grave, "amq.direct", "dead")
        arguments = {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare(source, durable=True, arguments=arguments)
        channel.confirm_delivery()
        bodies = {f"{number}".encode() for number in range(20)}
        for body in bodies:
            channel.basic_publish("", source, body, pika.BasicProperties(delivery_mode=2))
        came: list[bytes] = []
        channel.basic_consume(source, lambda c, method, p, body: c.basic_reject(method.delivery_tag, requeue=False))
        channel.basic_consume(grave, lambda c, method, p, body: came.append(body), auto_ack=True)
        consume(one, lambda: len(came) == len(bodies))
        cluster.move("0", "b")
        channel.basic_publish("", source, b"after", pika.BasicProperties(delivery_mode=2))
        consume(one, lambda: b"after" in came)
        assert sorted(came) == sorted([*bodies, b"after"])
