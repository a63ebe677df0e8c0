"""What is defined on one node holds on every other."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, ProbableAuthenticationError

from leveret.cluster.coordination.placement import LOCAL
from leveret.cluster.shards.shard import Shard
from leveret.core.changes import DeclareQueue, DeleteQueue
from leveret.core.errors import PreconditionFailed
from leveret.core.policy import Policy
from leveret.security.passwords import hash_password
from tests.cluster.cluster import SHARDS, Cluster, Served, name_in
from tests.cluster.dead_letters import consume
from tests.protocols.amqp.client import CHEAP


def decide(cluster: Cluster, node: str, verb: Callable[[Any], Any]) -> Any:
    """Run a verb as an operator of a node would."""
    return cluster.run(cluster.members[node].node.decide(verb))


def queues_everywhere(cluster: Cluster) -> list[set[str]]:
    """The queues that each node knows, and then those that are in its shards."""

    def look() -> list[set[str]]:
        found = []
        for member in cluster.members.values():
            shards = [served.server.hub.core for served in member.shards.values()]
            found.append(set(member.catalog.replica.broker.topology.vhost("/").queues))
            found.append({name for core in shards for name in core.topology.vhost("/").queues})
        return found

    return cluster.call(look)


def test_a_queue_is_usable_where_its_definition_is_not_known_yet(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tell_nobody(version: int) -> None:
        return

    monkeypatch.setattr(cluster.members["a"].node._propagation, "_all_know", tell_nobody)
    with cluster.connect("a") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(3):
            name = name_in(1, f"new{number}-")
            channel.queue_declare(name, arguments={"x-max-length": 5})
            channel.basic_publish("", name, b"there", mandatory=True)
            assert channel.basic_get(name)[2] == b"there"


def test_who_is_deleted_on_one_node_has_to_leave_the_others(cluster: Cluster) -> None:
    access = cluster.members["a"].proxies.access
    decide(cluster, "a", lambda core: access.add_user("ada", hash_password("secret", CHEAP)))
    decide(cluster, "a", lambda core: access.set_permission("ada", "/", ".*", ".*", ".*"))
    connection = cluster.connect("b", "ada", "secret")
    for shard in range(SHARDS):
        connection.channel().queue_declare(name_in(shard, "hers"))
    decide(cluster, "a", lambda core: access.delete_user("ada"))
    cluster.sweep()
    with pytest.raises(ConnectionClosedByBroker, match="user 'ada' is deleted"):
        consume(connection, lambda: False)


def test_a_vhost_that_is_deleted_on_one_node_loses_its_clients_on_all(cluster: Cluster) -> None:
    access = cluster.members["a"].proxies.access
    decide(cluster, "a", lambda core: access.declare_vhost("v"))
    decide(cluster, "a", lambda core: access.set_permission("guest", "v", ".*", ".*", ".*"))
    connection = cluster.connect("b", vhost="v")
    channel = connection.channel()
    for name in ("q0", "q1", "q2", "q3"):
        channel.queue_declare(name)
        channel.basic_consume(name, lambda *delivery: None)
    decide(cluster, "a", lambda core: access.delete_vhost("v"))
    cluster.sweep()
    with pytest.raises(ConnectionClosedByBroker, match="vhost 'v' is deleted"):
        consume(connection, lambda: False)  # its consumers may be cancelled first
    with cluster.connect("b") as other:
        assert other.channel().queue_declare("", exclusive=True)


def test_a_permission_that_is_taken_on_one_node_is_gone_on_the_others(cluster: Cluster) -> None:
    access = cluster.members["a"].proxies.access
    with cluster.connect("b") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        name = name_in(0, "theirs")
        channel.queue_declare(name)
        channel.basic_publish("", name, b"may")
        decide(cluster, "a", lambda core: access.set_permission("guest", "/", ".*", "", ".*"))
        with pytest.raises(ChannelClosedByBroker, match="403"):
            channel.basic_publish("", name, b"may not")


def test_a_user_of_one_node_logs_in_at_another_until_he_is_deleted(cluster: Cluster) -> None:
    access = cluster.members["a"].proxies.access
    stored = hash_password("secret", CHEAP)
    decide(cluster, "a", lambda core: access.add_user("ada", stored))
    decide(cluster, "a", lambda core: access.set_permission("ada", "/", "", ".*", "^mine$"))
    decide(cluster, "b", lambda core: core.declare_queue("/", "mine").name)
    with cluster.connect("b", "ada", "secret") as connection:
        assert connection.channel().basic_get("mine") == (None, None, None)
        with pytest.raises(ChannelClosedByBroker, match="403"):
            connection.channel().queue_declare("other")
    decide(cluster, "a", lambda core: access.delete_user("ada"))
    with pytest.raises(ProbableAuthenticationError):
        cluster.connect("b", "ada", "secret")


def test_a_user_that_two_nodes_add_is_the_same_on_both(cluster: Cluster) -> None:
    async def add_on(name: str, password: str) -> Any:
        access, stored = cluster.members[name].proxies.access, hash_password(password, CHEAP)
        return await cluster.members[name].node.decide(lambda core: access.add_user("eve", stored))

    async def add_on_both() -> list[Any]:
        return [*await asyncio.gather(add_on("a", "one"), add_on("b", "two"), return_exceptions=True)]

    outcomes = cluster.run(add_on_both())
    assert [type(each) for each in outcomes if isinstance(each, Exception)] == [PreconditionFailed]
    first, second = (member.proxies.access.users.get("eve") for member in cluster.members.values())
    assert first.password_hash == second.password_hash


def test_the_default_user_is_made_once(cluster: Cluster) -> None:
    stored = [
        member.proxies.access.users.get("guest").password_hash for member in cluster.members.values()
    ]  # each hash of the same password has its own salt
    assert stored[0] == stored[1]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_policy_of_one_node_holds_in_the_shards_of_all(cluster: Cluster, shard: int) -> None:
    name = name_in(shard, "short")
    with cluster.connect("b") as connection:
        channel = connection.channel()
        channel.queue_declare(name)
        decide(cluster, "a", lambda core: core.set_policy("/", Policy("short", "^short", definition={"max-length": 1})))
        channel.confirm_delivery()
        for body in (b"old", b"new"):
            channel.basic_publish("", name, body)
        assert channel.basic_get(name, auto_ack=True)[2] == b"new"
        decide(cluster, "b", lambda core: core.delete_policy("/", "short"))
        for body in (b"old", b"new"):
            channel.basic_publish("", name, body)
        assert channel.basic_get(name, auto_ack=True)[2] == b"old"


@pytest.mark.parametrize("options", [{"auto_delete": True}, {"exclusive": True, "auto_delete": True}, {}])
def test_a_queue_that_goes_by_itself_goes_everywhere(cluster: Cluster, options: dict[str, bool]) -> None:
    expiring = {} if options else {"x-expires": 1_500}
    with cluster.connect("b") as connection:
        channel = connection.channel()
        channel.queue_declare(name_in(0, "brief"), arguments=expiring, **options)
        if options:  # otherwise it may have gone by now
            assert any(queues_everywhere(cluster))
            channel.basic_cancel(channel.basic_consume(name_in(0, "brief"), print))
        cluster.wait_until(lambda: not any(queues_everywhere(cluster)))


def test_a_queue_with_consumers_moves_with_its_messages(cluster: Cluster) -> None:
    name = name_in(1, "moving")
    with cluster.connect("a") as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True, auto_delete=True)
        channel.confirm_delivery()
        for body in (b"1", b"2"):
            channel.basic_publish("", name, body)
        taken: set[bytes] = set()
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(name, lambda channel, method, properties, body: taken.add(body))
        cluster.move("1", "a")
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume(name, lambda channel, method, properties, body: taken.add(body))
        consume(connection, lambda: taken == {b"1", b"2"})


def test_a_queue_that_was_declared_again_stays(cluster: Cluster) -> None:
    name = name_in(1, "again")
    shard = cluster.members["b"].shards["1"].server.hub

    def expire_and_return() -> None:
        with shard.locked() as core:
            core.delete_queue(core.topology.vhost("/").queue(name))
            core.declare_queue("/", name)

    with cluster.connect("a") as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        cluster.call(expire_and_return)  # before the node has heard of the first
        cluster.run(cluster.settled())
        assert channel.queue_declare(name, passive=True).method.message_count == 0


def test_of_two_nodes_that_declare_otherwise_one_is_refused(cluster: Cluster) -> None:
    for round in range(5):
        refusals: list[int] = []

        def declare(node: str, length: int, name: str, refusals: list[int] = refusals) -> None:
            with cluster.connect(node) as connection:
                try:
                    connection.channel().queue_declare(name, arguments={"x-max-length": length})
                except ChannelClosedByBroker as error:
                    refusals.append(error.reply_code)

        threads = [
            threading.Thread(target=declare, args=(node, length, f"q{round}")) for node, length in (("a", 1), ("b", 2))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert refusals == [406]
    entries = cluster.run(cluster.log.read(1, 1000))
    assert sum(b"max-length" in change.payload for entry in entries for change in entry.changes) == 5


def test_an_exchange_that_goes_with_its_last_binding_stays_while_another_shard_has_one(cluster: Cluster) -> None:
    with cluster.connect("a") as one, cluster.connect("b") as two:
        channel = one.channel()
        channel.exchange_declare("passing", "fanout", auto_delete=True)
        names = [name_in(shard, "passing") for shard in (0, 1)]
        for name in names:
            channel.queue_declare(name)
            channel.queue_bind(name, "passing")
        channel.queue_unbind(names[0], "passing")
        channel.queue_bind(names[0], "passing")
        publisher = two.channel()
        publisher.confirm_delivery()
        publisher.basic_publish("passing", "", b"both")
        assert [channel.basic_get(name, auto_ack=True)[2] for name in names] == [b"both", b"both"]
        for name in names:
            channel.queue_unbind(name, "passing")
        with pytest.raises(ChannelClosedByBroker, match="404"):
            two.channel().exchange_declare("passing", passive=True)


def test_queues_of_a_node_that_has_gone_are_removed(cluster: Cluster) -> None:
    decide(cluster, "b", DeclareQueue("/", "orphan", owner="b/7").apply)
    decide(cluster, "b", DeclareQueue("/", "child", owner="a/7").apply)
    cluster.remove("b")
    cluster.wait_until(lambda: queues_everywhere(cluster) == [{"child"}, {"child"}])


def test_nobody_deletes_what_is_somebody_elses_by_now(cluster: Cluster) -> None:
    decide(cluster, "a", DeclareQueue("/", "child", owner="a/7").apply)
    decide(cluster, "b", DeleteQueue("/", "child", "a/6").apply)
    assert queues_everywhere(cluster)[2] == {"child"}
    decide(cluster, "b", DeleteQueue("/", "child", "a/7").apply)
    assert not any(queues_everywhere(cluster))


def test_a_shard_that_was_away_has_what_the_others_have(cluster: Cluster) -> None:
    name, other = name_in(0, "kept"), name_in(0, "dropped")
    stale = cluster.call(lambda: Served(cluster.members["a"].proxies.access))
    with stale.broker.runtime as core:
        core.declare_queue("/", name, {"x-max-length": 1})
        core.declare_queue("/", other)
        core.declare_exchange("/", "was", "fanout")
        core.declare_exchange("/", "is", "fanout")
        core.declare_vhost("left")
        core.set_policy("/", Policy("old", ".*", definition={"max-length": 1}))
    decide(cluster, "a", lambda core: core.declare_queue("/", name, {"x-max-length": 2}).name)
    decide(cluster, "a", lambda core: core.declare_exchange("/", "is", "topic").name)
    decide(cluster, "a", lambda core: core.bind("/", "is", name, "#"))
    replica = cluster.members["a"].catalog.replica
    cluster.call(lambda: Shard("0", stale.server.hub).reconcile(replica))
    with stale.broker.runtime as core:
        virtual_host = core.topology.vhost("/")
        assert {each: queue.arguments for each, queue in virtual_host.queues.items()} == {name: {"x-max-length": 2}}
        assert (virtual_host.exchanges["is"].type, "was" in virtual_host.exchanges, virtual_host.policies) == (
            "topic",
            False,
            {},
        )
        assert list(core.topology.vhosts) == ["/"]
        assert [binding.destination.name for binding in virtual_host.bindings()] == [name]
    cluster.run(stale.close())


def test_exclusive_queues_are_at_home_on_their_node(cluster: Cluster) -> None:
    with cluster.connect("b") as connection:
        name = connection.channel().queue_declare("", exclusive=True).method.queue
        assert {member.catalog.replica.shard_ids["/", name] for member in cluster.members.values()} == {LOCAL + "b"}
    cluster.wait_until(lambda: not any(queues_everywhere(cluster)))
