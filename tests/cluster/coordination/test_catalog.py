"""The catalog: nodes that change definitions at once agree on all of them, whatever the log does."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from leveret.cluster.catalog import catalog as catalog_module
from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.catalog.changes import DefinitionChange, apply, change_of, concerns
from leveret.cluster.catalog.log import CatalogLog, LogEntry, PostgresLog, packed
from leveret.cluster.catalog.replica import Replica
from leveret.core.broker import Broker
from leveret.core.definition_log import Kind
from leveret.core.errors import BrokerClosed, LeveretError, PreconditionFailed, TooMany, Unreachable
from leveret.core.policy import Policy
from leveret.core.properties import Properties
from leveret.core.topology import VhostDetails
from tests.cluster.coordination.memory_log import MemoryLog
from tests.waiting import PATIENCE_S

Play = Callable[[ClusterCatalog, ClusterCatalog], Coroutine[Any, Any, None]]
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture(params=["memory", "postgres"])
def open_log(request: pytest.FixtureRequest) -> Callable[[], CatalogLog]:
    """What opens one and the same log, as often as there are nodes."""
    if request.param == "memory":
        log = MemoryLog()
        return lambda: log
    url = request.getfixturevalue("store_url")
    return lambda: PostgresLog(url)


@asynccontextmanager
async def nodes(*logs: CatalogLog) -> AsyncIterator[list[ClusterCatalog]]:
    """A catalog for each log."""
    found = [ClusterCatalog(log, f"node-{number}", 8) for number, log in enumerate(logs)]
    try:
        yield found
    finally:
        for each in found:
            await each.close()
        for log in logs:
            if isinstance(log, PostgresLog):
                await log.close()


def run(open_log: Callable[[], CatalogLog], play: Play) -> None:
    """Let two nodes do something, and see that they agree in the end."""

    async def main() -> None:
        async with nodes(open_log(), open_log()) as (first, second), asyncio.timeout(PATIENCE_S):
            await play(first, second)
            await first.catch_up()
            await second.catch_up()
            assert told(first) == told(second)
            assert first.version == second.version

    asyncio.run(main())


def told(catalog: ClusterCatalog) -> dict[str, Any]:
    """All that a copy says: as the log has it, and as the broker behaves by it."""
    virtual_hosts = catalog.replica.broker.topology.vhosts
    return {
        "changes": sorted(catalog.replica.changes()),
        "queues": {name: sorted(virtual_host.queues) for name, virtual_host in virtual_hosts.items()},
        "exchanges": {name: sorted(virtual_host.exchanges) for name, virtual_host in virtual_hosts.items()},
        "bindings": {
            name: sorted(str(each.to_dict()) for each in virtual_host.bindings())
            for name, virtual_host in virtual_hosts.items()
        },
        "policies": {name: sorted(virtual_host.policies) for name, virtual_host in virtual_hosts.items()},
        "types": {name: virtual_host.details.default_queue_type for name, virtual_host in virtual_hosts.items()},
    }


def declare(name: str, arguments: dict[str, Any] | None = None) -> Callable[[Broker], str]:
    return lambda broker: broker.declare_queue("/", name, arguments).name


def everything(broker: Broker) -> None:
    """One of each kind."""
    broker.declare_vhost("shop", VhostDetails("for orders"))
    broker.declare_exchange("shop", "orders", "topic", arguments={"alternate-exchange": "lost"})
    broker.declare_exchange("shop", "brief", "fanout", auto_delete=True)
    broker.declare_queue("shop", "new", {"x-max-length": 5})
    broker.declare_queue("shop", "events", {"x-queue-type": "stream"})
    broker.declare_queue("shop", "amq.gen-1", server_named=True)
    broker.bind("shop", "orders", "new", "order.#")
    broker.bind("shop", "orders", "brief", "all", destination_type="exchange")
    broker.bind("shop", "brief", "new")
    broker.set_policy("shop", Policy("life", "^n", definition={"message-ttl": 80}))
    broker.define(Kind.USER, {"name": "ada", "tags": []})
    broker.define(Kind.PERMISSION, {"user": "ada", "vhost": "shop", "read": ".*"})


def test_a_change_on_one_node_is_a_change_on_all(open_log: Callable[[], CatalogLog]) -> None:
    async def play(first: ClusterCatalog, second: ClusterCatalog) -> None:
        await first.change(everything)
        await second.catch_up()
        queue = second.replica.broker.topology.vhost("shop").queue("new")
        assert (queue.policy.max_length, queue.policy.message_ttl_ms) == (5, 80)
        assert second.replica.broker.route_through("shop", "orders", "order.1", Properties()) == [queue]
        assert second.replica.broker.catalog.get(Kind.USER, name="ada") is not None
        await second.change(lambda broker: broker.unbind("shop", "brief", "new"))
        await first.catch_up()
        assert "brief" not in first.replica.broker.topology.vhost("shop").exchanges
        await first.change(lambda broker: broker.delete_vhost("shop"))
        await second.catch_up()
        assert list(second.replica.broker.topology.vhosts) == ["/"]

    run(open_log, play)


def test_of_two_declarations_at_once_one_is_equivalent_or_refused(open_log: Callable[[], CatalogLog]) -> None:
    async def play(first: ClusterCatalog, second: ClusterCatalog) -> None:
        same = [first.change(declare("same", {"x-max-length": 1})), second.change(declare("same", {"x-max-length": 1}))]
        assert await asyncio.gather(*same) == ["same", "same"]
        other = [first.change(declare("other", {"x-max-length": 1})), second.change(declare("other"))]
        outcomes = await asyncio.gather(*other, return_exceptions=True)
        assert sorted(type(each).__name__ for each in outcomes) == ["PreconditionFailed", "str"]

    run(open_log, play)


def test_nodes_that_change_much_at_once_agree(open_log: Callable[[], CatalogLog]) -> None:
    chance = random.Random(7)

    async def change(catalog: ClusterCatalog) -> None:
        with suppress(LeveretError):
            await catalog.change(chance.choice(CHANGES)(chance))

    async def play(first: ClusterCatalog, second: ClusterCatalog) -> None:
        for _ in range(12):
            await asyncio.gather(*(change(chance.choice((first, second))) for _ in range(6)))

    run(open_log, play)


@pytest.mark.parametrize("seed", range(30))
def test_nodes_agree_whoever_was_away_and_whoever_was_faster(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_module, "SNAPSHOT_VERSIONS", 5)
    chance, log = random.Random(seed), MemoryLog()

    async def change(catalog: ClusterCatalog) -> None:
        with suppress(LeveretError):
            await catalog.change(chance.choice(CHANGES)(chance))

    async def main() -> None:
        async with nodes(log, log, log) as found:
            for _ in range(12):
                awake = found[: chance.randrange(1, 4)]
                await asyncio.gather(*(change(chance.choice(awake)) for _ in range(6)))
            for each in found:
                await each.catch_up()
            assert told(found[0]) == told(found[1]) == told(found[2])

    asyncio.run(main())


CHANGES: list[Callable[[random.Random], Callable[[Broker], Any]]] = [
    lambda chance: declare(f"q{chance.randrange(4)}", {"x-max-length": chance.randrange(2)}),
    lambda chance: declare(f"q{chance.randrange(4)}", chance.choice((None, DEAD))),
    lambda chance: _delete(f"q{chance.randrange(4)}"),
    lambda chance: _bind(f"e{chance.randrange(2)}", f"q{chance.randrange(4)}"),
    lambda chance: _bind_exchanges(f"e{chance.randrange(2)}", f"e{chance.randrange(2)}"),
    lambda chance: _exchange(f"e{chance.randrange(2)}", chance.choice(("fanout", "topic")), chance.random() < 0.5),
    lambda chance: _remove_exchange(f"e{chance.randrange(2)}"),
]


def _delete(name: str) -> Callable[[Broker], Any]:
    return lambda broker: broker.delete_queue(broker.topology.vhost("/").queue(name))


def _bind(exchange: str, queue: str) -> Callable[[Broker], Any]:
    return lambda broker: broker.bind("/", exchange, queue, "key")


def _bind_exchanges(source: str, destination: str) -> Callable[[Broker], Any]:
    return lambda broker: broker.bind("/", source, destination, "key", destination_type="exchange")


def _exchange(name: str, type: str, auto_delete: bool) -> Callable[[Broker], Any]:
    return lambda broker: broker.declare_exchange("/", name, type, auto_delete=auto_delete).name


def _remove_exchange(name: str) -> Callable[[Broker], Any]:
    return lambda broker: broker.delete_exchange("/", name)


def test_what_comes_together_is_one_entry(open_log: Callable[[], CatalogLog]) -> None:
    async def play(first: ClusterCatalog, second: ClusterCatalog) -> None:
        await asyncio.gather(*(first.change(declare(f"q{number}")) for number in range(20)))
        assert first.version <= 2
        assert await first.change(declare("q1")) == "q1"
        assert first.version <= 2

    run(open_log, play)


def test_a_refused_verb_leaves_nothing(open_log: Callable[[], CatalogLog]) -> None:
    def half(broker: Broker) -> None:
        everything(broker)
        raise PreconditionFailed("no")

    def broken(broker: Broker) -> None:
        broker.declare_queue("/", "gone")
        raise ZeroDivisionError

    async def play(first: ClusterCatalog, second: ClusterCatalog) -> None:
        before = told(first)
        refused = await asyncio.gather(
            first.change(half), first.change(broken), first.change(declare("kept")), return_exceptions=True
        )
        assert [type(each) for each in refused] == [PreconditionFailed, ZeroDivisionError, str]
        await first.change(lambda broker: broker.delete_queue(broker.topology.vhost("/").queue("kept")))
        assert told(first) == before

    run(open_log, play)


def test_queues_keep_the_shard_that_they_got(open_log: Callable[[], CatalogLog]) -> None:
    async def play(first: ClusterCatalog, second: ClusterCatalog) -> None:
        await first.change(declare("work", DEAD))
        await second.catch_up()
        await second.change(declare("dead"))
        await second.change(lambda broker: broker.pause_queue(broker.topology.vhost("/").queue("work"), True))
        await first.catch_up()
        shard_ids = {each.replica.shard_ids["/", name] for each in (first, second) for name in ("work", "dead")}
        assert len(shard_ids) == 1
        assert first.replica.broker.topology.vhost("/").queue("work").paused

    run(open_log, play)


def test_a_node_that_was_away_begins_with_the_snapshot(
    open_log: Callable[[], CatalogLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_module, "SNAPSHOT_VERSIONS", 4)

    async def play(first: ClusterCatalog, second: ClusterCatalog) -> None:
        await second.change(declare("old", {"x-max-length": 1}))
        await second.change(declare("stays"))
        await second.change(lambda broker: broker.declare_exchange("/", "e", "fanout").name)
        await first.catch_up()
        heard: list[Any] = []
        second.on_resync = heard.extend
        await first.change(_delete("old"))
        await first.change(declare("old", {"x-max-length": 2}))
        await first.change(_remove_exchange("e"))
        await first.change(_exchange("e", "topic", False))
        await first.change(_bind("e", "stays"))
        await first.change(everything)
        await first.change(lambda broker: broker.declare_vhost("shop", VhostDetails(default_queue_type="quorum")).name)
        await second.catch_up()
        assert {change.kind for change in heard} >= {Kind.QUEUE, Kind.EXCHANGE, Kind.BINDING, Kind.VHOST}
        assert not any(change.removed and b"stays" in change.payload for change in heard)
        assert (await first.log.read(1, 100))[0].version == 8

    run(open_log, play)


class Flaky(MemoryLog):
    """Loses requests and answers, and what was not acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.chance = random.Random(3)
        self.late: list[LogEntry] = []

    async def append(self, entry: LogEntry) -> bool:
        fate = self.chance.random()
        if fate < 0.2:
            raise Unreachable("the request was lost")
        if fate < 0.3:
            self.late.append(entry)
            raise Unreachable("the request comes late")
        done = await super().append(entry)
        if fate < 0.5:
            raise Unreachable("the answer was lost")
        for late in self.late:
            await super().append(late)
        self.late = []
        return done


class FailingOver(MemoryLog):
    """Loses the answer to every other append, and then to a read: each session finds out for itself."""

    def __init__(self) -> None:
        super().__init__()
        self._appends = 0
        self._loses_read = False

    async def append(self, entry: LogEntry) -> bool:
        done = await super().append(entry)
        self._appends += 1
        self._loses_read = self._appends % 2 == 1
        if self._loses_read:
            raise Unreachable("the answer was lost")
        return done

    async def read(self, version: int, limit: int) -> list[LogEntry]:
        if self._loses_read:
            self._loses_read = False
            raise Unreachable("the connection is not good any more")
        return await super().read(version, limit)


@pytest.mark.parametrize("make_log", [Flaky, FailingOver])
def test_answers_that_are_lost_cost_nothing(
    monkeypatch: pytest.MonkeyPatch, make_log: Callable[[], CatalogLog]
) -> None:
    monkeypatch.setattr(catalog_module, "PAUSE_S", 0)
    log = make_log()

    async def play(first: ClusterCatalog, second: ClusterCatalog) -> None:
        for number in range(60):
            catalog = (first, second)[number % 2]
            # Not idempotent: were it done twice, the second time would be refused.
            await catalog.change(lambda broker, number=number: _new_queue(broker, f"q{number}"))  # type: ignore[misc]
        await first.catch_up()
        assert len(first.replica.broker.topology.vhost("/").queues) == 60

    run(lambda: log, play)


def _new_queue(broker: Broker, name: str) -> None:
    if name in broker.topology.vhost("/").queues:
        raise PreconditionFailed("it is there")
    broker.declare_queue("/", name)


class Silent(MemoryLog):
    """Answers nothing."""

    async def append(self, entry: LogEntry) -> bool:
        raise Unreachable("no answer")

    async def barrier(self) -> int:
        raise Unreachable("no answer")


def test_a_log_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_module, "PAUSE_S", 0)

    async def main() -> None:
        async with nodes(Silent()) as (catalog,):
            before = told(catalog)
            outcomes = await asyncio.gather(
                catalog.change(everything), catalog.change(declare("q")), return_exceptions=True
            )
            assert [type(each) for each in outcomes] == [Unreachable, Unreachable]
            assert told(catalog) == before

    asyncio.run(main())


class Busy(MemoryLog):
    """Has always a newer version."""

    async def append(self, entry: LogEntry) -> bool:
        await super().append(LogEntry(self._version + 1, "other", []))
        return await super().append(entry)


def test_a_node_that_always_comes_second_gives_up() -> None:
    async def main() -> None:
        async with nodes(Busy()) as (catalog,):
            with pytest.raises(Unreachable, match="other nodes"):
                await catalog.change(declare("q"))
            assert not catalog.replica.broker.topology.vhost("/").queues

    asyncio.run(main())


def test_what_a_failover_lost_is_forgotten_by_those_who_saw_it() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with nodes(log, log) as (first, second):
            await first.change(declare("kept"))
            await first.change(declare("lost"))
            await second.catch_up()
            lost = second.replica.history.newest
            log._entries.pop()
            log._version -= 1
            await ClusterCatalog(log, "third", 8).change(declare("instead"))
            for each in (first, second):
                heard: list[DefinitionChange] = []
                each.on_resync = heard.extend
                await each.catch_up()
                assert sorted(each.replica.broker.topology.vhost("/").queues) == ["instead", "kept"]
                assert [(change.definition["name"], change.removed) for change in heard] == [
                    ("lost", True),
                    ("instead", False),
                ]
                assert (each.version, each.replica.history.has(lost)) == (lost.version, False)

    asyncio.run(main())


def test_followers_hear_by_a_hint_or_by_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        log = MemoryLog()
        async with nodes(log, log) as (first, second), asyncio.timeout(PATIENCE_S):
            heard = asyncio.Event()
            second.listeners.append(lambda changes: heard.set())
            following = asyncio.create_task(second.follow())
            monkeypatch.setattr(second.read_lease, "lease_s", 3600)
            await asyncio.sleep(0)
            await first.change(declare("hinted"))
            second.hint(first.version)
            await heard.wait()
            monkeypatch.setattr(second.read_lease, "lease_s", 0.01)
            heard.clear()
            second.hint(first.version + 1)  # of a version that was never made
            await first.change(declare("looked for"))
            await heard.wait()
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    asyncio.run(main())


def test_who_waits_when_the_catalog_is_closed_is_told() -> None:
    class Stuck(MemoryLog):
        async def append(self, entry: LogEntry) -> bool:
            await asyncio.Event().wait()
            return True

    async def main() -> None:
        async with nodes(Stuck()) as (catalog,):
            waiting = asyncio.create_task(catalog.change(declare("q")))
            while catalog._committing is None:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            await catalog.close()
            with pytest.raises(BrokerClosed, match="may have been made"):
                await waiting

    asyncio.run(main())


def test_an_entry_has_a_limit() -> None:
    with pytest.raises(TooMany, match="smaller steps"):
        packed([change_of(Kind.USER, {"name": "x" * 50})], 50)


def test_a_shard_is_told_what_concerns_it() -> None:
    log = MemoryLog()

    async def main() -> None:
        async with nodes(log) as (catalog,):
            await catalog.change(everything)
            shard_ids = catalog.replica.shard_ids
            shards = [Replica(8).broker for _ in range(8)]
            for change in catalog.replica.changes():
                for number, broker in enumerate(shards):
                    if concerns(change, str(number), shard_ids):
                        apply(broker, change)
            shard_id = shard_ids["shop", "new"]
            for number, broker in enumerate(shards):
                vhost = broker.topology.vhost("shop")
                assert {"orders", "brief"} <= set(vhost.exchanges)
                assert ("new" in vhost.queues) == (str(number) == shard_id)

    asyncio.run(main())
