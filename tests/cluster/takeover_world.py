"""A front whose shards are on disks: one can lose its owner as in a power cut, and get another one."""

from functools import partial
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

from leveret.cluster.shards.shard import Shard
from leveret.cluster.transfer.outbox import Outbox
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.cluster.proxy_world import NODE, FrontWorld, place
from tests.protocols.amqp.client import Client, World
from tests.waiting import PATIENCE_S

HOME = "0"
SEGMENT_BYTES = 1 << 16
NAME = next(name for name in (f"q{number}" for number in range(100)) if place(name) == HOME)


class DiskWorld(World):
    """A broker on a disk."""

    slow = False
    """Whether it hears nothing of its disk."""

    def work(self) -> None:
        while self.jobs:
            self.jobs.popleft()()
        if not self.slow:
            self.write()

    def write(self) -> None:
        """Everything until now is on the disk, and the hub knows it."""
        store = self.broker.runtime.store
        assert store is not None
        store.commit.flush()
        while self.hub.waiting.count:
            self.hub.durable(self.frames.get(timeout=PATIENCE_S))


class TakeoverWorld(FrontWorld):
    """A front, and a shard that may have several owners, one after the other."""

    def __init__(self, disk: Path) -> None:
        self._disk = disk
        self._owners = 0
        self._gone: list[World] = []
        super().__init__()
        self.present = {NODE}
        """The nodes that can have clients."""
        self.hub.replies.node = NODE

    def shard_world(self, shard_id: str, limits: AmqpLimits | None, **options: Any) -> World:
        if shard_id != HOME:
            return World(limits, **options)
        return DiskWorld(limits, str(self._path), sync="never", spare_bytes=0, segment_bytes=SEGMENT_BYTES)

    @property
    def _path(self) -> Path:
        return self._disk / str(self._owners)

    @property
    def _image(self) -> Path:
        """What the next owner finds."""
        return self._disk / str(self._owners + 1)

    @property
    def disk(self) -> DiskWorld:
        """The shard that is on a disk."""
        found = self.worlds[HOME]
        assert isinstance(found, DiskWorld)
        return found

    @property
    def leased(self) -> int:
        """What is held in its queue."""
        leased: int = self.disk.core.topology.vhost("/").queues[NAME].leased
        return leased

    def freeze(self) -> None:
        """From now on nothing gets to the disk of the shard."""
        self.disk.slow = True
        copytree(self._path, self._image)

    def thaw(self) -> None:
        """Now it does."""
        rmtree(self._image)
        self.disk.slow = False
        self.work()

    def lose(self) -> None:
        """The owner of the shard is killed."""
        if not self.disk.slow:
            self.freeze()
        self._owners += 1
        self._gone.append(self.worlds[HOME])
        world = self.worlds[HOME] = self.shard_world(HOME, None)
        world.hub.access = self.access
        world.core.gone = partial(self._hear_gone, HOME)
        self.shards[HOME] = Shard(HOME, world.hub)
        self.shards[HOME].exclusive_consumers.is_present = self.present.__contains__
        self.shards[HOME].begin()
        self.outboxes[HOME] = Outbox(HOME, world.core, self)
        self.outboxes[HOME].start(world.hub)
        for shard_connection in [each for each in self.proxied_clients if each.shard_id == HOME]:
            del self.proxied_clients[shard_connection]
            shard_connection.lost("its owner was killed")
        self.work()

    def take_over(self) -> None:
        """The owner of the shard is killed, and everybody finds the next one."""
        self.lose()
        self.reattach()

    def close(self) -> None:
        super().close()
        for world in self._gone:
            world.close()


def client_of(world: TakeoverWorld, **arguments: Any) -> Client:
    """A client that has declared the queue."""
    client = world.client()
    client.call(QueueDeclare(NAME, durable=True, arguments=arguments), QueueDeclareOk)
    return client


def publish(client: Client, *bodies: bytes) -> None:
    for body in bodies:
        client.publish(NAME, body=body, delivery_mode=2)


def consume(client: Client, prefetch: int = 10, tag: str = "c", **options: Any) -> None:
    client.call(BasicQos(0, prefetch), BasicQosOk)
    client.call(BasicConsume(NAME, tag, **options), BasicConsumeOk)


def taken(client: Client) -> dict[bytes, int]:
    """What was delivered, with the tags."""
    return {each.body: each.method.delivery_tag for each in client.received()}


def depth(client: Client) -> int:
    return client.call(QueueDeclare(NAME, passive=True), QueueDeclareOk).message_count


def cut_off(world: TakeoverWorld, client: Client) -> None:
    """The node of a client does not reach the shard any more."""
    [shard_connection] = [
        each for each in world.proxied_clients if each.connection is client.connection and each.shard_id == HOME
    ]
    world.proxied_clients.pop(shard_connection).cut_off()
    shard_connection.lost("the link is down")
    world.work()
