"""The management API by whatever node: it tells of the whole cluster, and what it changes is known on every node."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pika import BlockingConnection
from pika.exceptions import ConnectionClosedByBroker

from leveret.cluster.forwarding import dispatcher, forwarder
from leveret.cluster.forwarding.dispatcher import ClusterRows
from leveret.core.errors import NotFound, TooMany, Unreachable
from leveret.protocols.http.cluster import UNANSWERED
from leveret.protocols.http.request import HttpPeer, Request
from leveret.protocols.http.response import Answer, Response, Streamed
from leveret.protocols.management import listing, queues
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.metrics.broker import CLUSTER
from leveret.security.identity import Identity
from tests.cluster.cluster import SHARDS, name_in
from tests.cluster.managed_cluster import ManagedCluster
from tests.protocols.management.scene import Api

NAMES = [name_in(shard, "orders") for shard in range(SHARDS)]
TEXT = {"payload_encoding": "string", "properties": {}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ManagedCluster]:
    made = ManagedCluster("a", "b")
    made.start_threads()
    for name in NAMES:
        made.api("a").put(f"/queues/%2F/{name}", {"durable": True})
    yield made
    made.close()


@pytest.fixture
def fresh() -> Iterator[ManagedCluster]:
    """One that a test has for itself."""
    made = ManagedCluster("a", "b")
    yield made
    made.close()


def publish(api: Api, key: str, exchange: str = "amq.default", payload: str = "hello") -> Any:
    return api.post(f"/exchanges/%2F/{exchange}/publish", {**TEXT, "routing_key": key, "payload": payload})


def emptied(cluster: ManagedCluster) -> None:
    for name in NAMES:
        cluster.api("a").delete(f"/queues/%2F/{name}/contents")


@pytest.mark.parametrize("node", ["a", "b"])
def test_every_node_lists_all_queues_with_what_is_in_them(cluster: ManagedCluster, node: str) -> None:
    emptied(cluster)
    for count, name in enumerate(NAMES):
        for _ in range(count):
            assert publish(cluster.api("a"), name) == {"routed": True}
    rows = {row["name"]: row for row in cluster.api(node).get("/queues/%2F")}
    assert {name: rows[name]["messages"] for name in NAMES} == {name: count for count, name in enumerate(NAMES)}
    assert {name: rows[name]["node"] for name in NAMES} == {name: "ab"[count % 2] for count, name in enumerate(NAMES)}
    assert [rows[name]["shard"] for name in NAMES] == list(range(SHARDS))
    assert cluster.api(node).get(f"/queues/%2F/{NAMES[3]}")["messages_ready"] == 3


def test_a_page_asks_for_its_own_rows_only(cluster: ManagedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = ClusterRows._ask

    def counted(self: ClusterRows, owner: str, wanted: dict[str, Any]) -> Any:
        asked.extend(wanted["names"])
        return original(self, owner, wanted)

    monkeypatch.setattr(ClusterRows, "_ask", counted)
    page = cluster.api("b").get("/queues?page=2&page_size=1&name=orders&sort=name")
    assert (page["filtered_count"], [row["name"] for row in page["items"]]) == (SHARDS, asked)


def test_queues_are_sorted_by_what_only_shards_know(cluster: ManagedCluster) -> None:
    emptied(cluster)
    publish(cluster.api("a"), NAMES[1])
    query = "page=1&page_size=2&name=orders&sort=messages&sort_reverse=true&columns=name,messages"
    (first, second) = cluster.api("a").get(f"/queues?{query}")["items"]
    assert first == {"name": NAMES[1], "messages": 1}
    assert second["messages"] == 0


def test_a_queue_that_goes_while_a_list_is_made_is_left_out(cluster: ManagedCluster) -> None:
    name = name_in(1, "passing")
    cluster.api("a").put(f"/queues/%2F/{name}")
    context = cluster.managed("a").context
    with context.async_broker.runtime as core:
        going = core.topology.vhost("/").queues[name]
    cluster.api("b").delete(f"/queues/%2F/{name}")
    call = ManagementCall(Request("GET", b"/api/queues", {}, HttpPeer("127.0.0.1", 1)), context)
    call.request.identity = Identity("guest", frozenset({"administrator"}))
    assert cluster.run(queues.fetch_of(call)([going], ())) == [None]


def test_what_is_gathered_is_bounded(cluster: ManagedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SORTED_MAX", 1)
    told = cluster.api("a").call("GET", "/queues?sort=messages")
    assert (told.status, "ask for some by name" in told.body["reason"]) == (400, True)
    monkeypatch.setattr(dispatcher, "ROWS_MAX", 0)
    assert {row["state"] for row in cluster.api("a").get("/queues")} == {"down"}
    monkeypatch.setattr(dispatcher, "ANSWER_BYTES_MAX", 3)

    async def parts() -> AsyncGenerator[bytes, None]:
        yield b"[1,"
        yield b"2]"

    with pytest.raises(TooMany, match="ask for some by name"):
        asyncio.run(dispatcher.value_of(Streamed(parts())))


def test_who_does_not_come_to_the_end_of_an_answer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "ASKED_S", 0.05)
    ended = []

    async def hanging() -> AsyncGenerator[bytes, None]:
        try:
            yield b"["
            await asyncio.Event().wait()
        finally:
            ended.append("hanging")

    async def lost() -> AsyncGenerator[bytes, None]:
        yield b"["
        raise Unreachable("the node was lost in the middle of an answer")

    answers: dict[str, Answer] = {
        "a": Response(200, b"[1]"),
        "b": Streamed(hanging()),
        "c": Streamed(lost()),
        "d": Response(404, b"{}"),
    }
    assert asyncio.run(dispatcher.values_of(answers)) == {"a": [1]}
    assert ended == ["hanging"]


def test_a_queue_of_another_node_is_read_purged_and_deleted(cluster: ManagedCluster) -> None:
    name = name_in(1, "other")
    api = cluster.api("a")
    api.put(f"/queues/%2F/{name}")
    for _ in range(2):
        publish(api, name)
    got = api.post(f"/queues/%2F/{name}/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
    assert [row["payload"] for row in got] == ["hello"]
    assert api.call("DELETE", f"/queues/%2F/{name}?if-empty=true").status == 400
    api.delete(f"/queues/%2F/{name}/contents")
    assert api.get(f"/queues/%2F/{name}")["messages"] == 0
    api.delete(f"/queues/%2F/{name}")
    for node in "ab":
        assert cluster.api(node).call("GET", f"/queues/%2F/{name}").status == 404


def test_messages_are_moved_to_a_queue_of_another_shard(cluster: ManagedCluster) -> None:
    emptied(cluster)
    api = cluster.api("a")
    for _ in range(2):
        publish(api, NAMES[1])
    moved = {"matched": 2, "moved": 2, "skipped": 0}
    assert cluster.api("b").post(f"/queues/%2F/{NAMES[1]}/move", {"destination": NAMES[2]}) == moved
    cluster.wait_until(lambda: api.get(f"/queues/%2F/{NAMES[2]}")["messages"] == 2)
    assert api.call("POST", f"/queues/%2F/{NAMES[2]}/move", {"destination": "nowhere"}).status == 404


def test_one_publish_reaches_queues_of_several_shards(cluster: ManagedCluster) -> None:
    emptied(cluster)
    api = cluster.api("b")
    api.put("/exchanges/%2F/all", {"type": "fanout"})
    assert publish(api, "", "all") == {"routed": False}
    for name in NAMES:
        api.post(f"/bindings/%2F/e/all/q/{name}")
    assert publish(cluster.api("a"), "", "all") == {"routed": True}
    assert [cluster.api("a").get(f"/queues/%2F/{name}")["messages"] for name in NAMES] == [1] * SHARDS
    api.delete("/exchanges/%2F/all")


def test_definitions_are_on_every_node_when_the_answer_comes(cluster: ManagedCluster) -> None:
    a, b = cluster.api("a"), cluster.api("b")
    a.put("/vhosts/shop", {"description": "a shop"})
    assert b.get("/vhosts/shop")["cluster_state"] == {"a": "running", "b": "running"}
    b.put("/users/ada", {"password": "right one", "tags": "management"})
    assert cluster.api("a", "ada", "right one").get("/whoami")["name"] == "ada"
    b.post("/definitions", {"queues": [{"name": "taken", "vhost": "shop", "durable": True, "arguments": {}}]})
    assert a.get("/queues/shop/taken")["messages"] == 0
    a.delete("/vhosts/shop")
    assert b.call("GET", "/vhosts/shop").status == 404
    b.delete("/users/ada")


def test_totals_are_those_of_all_nodes(cluster: ManagedCluster) -> None:
    emptied(cluster)
    cluster.sample()
    for name in NAMES:
        publish(cluster.api("a"), name)
    cluster.sample()
    with cluster.connect("a"), cluster.connect("b") as other:
        other.channel()
        told = [cluster.api(node).get("/overview?lengths_age=60&lengths_incr=5") for node in "ab"]
    for node, each in zip("ab", told, strict=True):
        assert each["node"] == node
        assert each["queue_totals"]["messages_ready"] == SHARDS
        assert each["queue_totals"]["messages_ready_details"]["samples"][0]["sample"] == SHARDS
        assert each["message_stats"]["publish"] >= SHARDS
        totals = each["object_totals"]
        assert (totals["connections"], totals["channels"], totals["queues"]) == (2, 1, len(NAMES))
    (shard_id,) = [row for row in cluster.api("b").get("/vhosts") if row["name"] == "/"]
    assert shard_id["messages_ready"] == SHARDS


def test_clients_are_listed_and_sent_away_by_any_node(cluster: ManagedCluster) -> None:
    connection = cluster.connect("b")
    connection.channel().basic_consume(NAMES[0], lambda *_: None, consumer_tag="mine")
    api = cluster.api("a")
    (row,) = api.get("/connections")
    assert (row["node"], row["channels"]) == ("b", 1)
    (opened,) = api.get("/channels")
    assert (opened["node"], opened["consumer_count"]) == ("b", 1)
    (consumer,) = api.get("/consumers")
    details = consumer["channel_details"]
    assert (details["name"], details["connection_name"], details["node"]) == (opened["name"], row["name"], "b")
    found = api.get(f"/channels/{quote(opened['name'])}")
    assert [each["consumer_tag"] for each in found["consumer_details"]] == ["mine"]
    assert len(api.get(f"/queues/%2F/{NAMES[0]}")["consumer_details"]) == 1
    api.delete(f"/connections/{quote(row['name'])}")
    with pytest.raises(ConnectionClosedByBroker):
        wait_for_the_end(connection)
    cluster.wait_until(lambda: api.get("/connections") == [])
    assert api.call("DELETE", f"/connections/{quote(row['name'])}").status == 404


def test_a_channel_counts_what_it_does_in_whatever_shards(cluster: ManagedCluster) -> None:
    emptied(cluster)
    with cluster.connect("a") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for name in NAMES:
            channel.basic_publish("", name, b"x")
        channel.basic_publish("", "nowhere", b"x")
        for name in NAMES[:2]:
            channel.basic_ack(channel.basic_get(name)[0].delivery_tag)
            assert channel.basic_get(name) == (None, None, None)
        channel.basic_get(NAMES[2])
        connection.process_data_events(0)
        told = cluster.api("b").get("/channels")[0]
    stats = {name: told["message_stats"][name] for name in ("publish", "confirm", "get", "ack", "redeliver")}
    assert stats == {"publish": 5, "confirm": 5, "get": 3, "ack": 2, "redeliver": 0}
    assert (told["messages_unconfirmed"], told["messages_unacknowledged"]) == (0, 1)
    text = cluster.ask("a", "GET /metrics").json.decode()
    for line in ("get_empty_total 2", "messages_acked_total 2", "messages_unroutable_dropped_total 1"):
        assert f"\nrabbitmq_channel_{line}\n" in text


def wait_for_the_end(connection: BlockingConnection) -> None:
    while True:
        connection.process_data_events(1)


def test_streams_and_groups_are_managed_by_any_node(fresh: ManagedCluster) -> None:
    names = sorted(name_in(shard, "log") for shard in (0, 1))
    for name in names:
        assert fresh.operate("a", "streams.create", name=name, partitions=2)["partitions"] == 2
    assert [row["name"] for row in fresh.operate("b", "streams.list")] == names
    assert len(fresh.operate("b", "streams.show", name=names[0])) == 2
    for name in names:
        fresh.operate("a", "groups.create", stream=name, name="readers")
    assert [(row["stream"], row["lag"]) for row in fresh.operate("b", "groups.list")] == [(name, 0) for name in names]
    with pytest.raises(NotFound, match="nobody"):
        fresh.operate("a", "groups.show", stream=names[0], name="nobody")
    fresh.operate("b", "streams.delete", name=names[0])
    assert [row["name"] for row in fresh.operate("a", "streams.list")] == names[1:]


def test_every_node_is_told_of_and_asked(cluster: ManagedCluster) -> None:
    rows = cluster.api("b").get("/nodes")
    assert [(row["name"], row["running"]) for row in rows] == [("a", True), ("b", True)]
    assert [row["cluster_links"] for row in rows] == [[{"name": "b"}], [{"name": "a"}]]
    assert cluster.api("b").get("/nodes/a")["name"] == "a"
    assert cluster.api("b").get("/nodes/a/storage")["versions"]["Leveret"]
    assert cluster.api("b").call("GET", "/nodes/c").status == 404


def test_exclusive_queues_are_those_of_their_connections(cluster: ManagedCluster) -> None:
    with cluster.connect("b") as connection:
        name = connection.channel().queue_declare("", exclusive=True).method.queue
        row = cluster.api("a").get(f"/queues/%2F/{name}")
        assert (row["exclusive"], row["node"]) == (True, "b")
        assert "shard" not in row
        taken = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        assert cluster.api("a").call("POST", f"/queues/%2F/{name}/get", taken).status == 400


def test_dead_letters_and_scheduled_messages_of_all_shards(fresh: ManagedCluster) -> None:
    api = fresh.api("a")
    dead = name_in(1, "graves")
    api.put(f"/queues/%2F/{dead}")
    api.put("/exchanges/%2F/dying", {"type": "fanout"})
    api.post(f"/bindings/%2F/e/dying/q/{dead}")
    dying = [name_in(shard, "dying") for shard in (0, 2)]
    for name in dying:
        api.put(f"/queues/%2F/{name}", {"arguments": {"x-dead-letter-exchange": "dying", "x-message-ttl": 1}})
        publish(api, name)
    fresh.wait_until(lambda: fresh.api("b").get(f"/queues/%2F/{dead}")["messages"] == 2)
    told = fresh.api("b").get("/dead-letters/%2F")
    assert [(row["queue"], row["origin"]) for row in told["groups"]] == [(dead, name) for name in sorted(dying)]
    for name in NAMES[1:3]:
        api.put(f"/queues/%2F/{name}")
    for seconds, name in ((60, NAMES[1]), (30, NAMES[2])):
        fresh.ok("a", f"POST /queues/{name}/messages", {"payload": 1, "delay_seconds": seconds})
    told = fresh.api("b").get("/scheduled/%2F?limit=1")
    assert ([row["queue"] for row in told["messages"]], told["total"]) == ([NAMES[2]], 2)


def test_operators_drain_another_node_and_rebalance(cluster: ManagedCluster) -> None:
    api = cluster.api("a")
    assert api.post("/nodes/b/drain", {"stay": True}) == {"node": "b", "stays": True}
    assert cluster.api("b").call("GET", "/health/checks/is-in-service").status == 503
    assert [row["being_drained"] for row in api.get("/nodes")] == [False, True]
    cluster.managed("b").operator.draining = False
    api.post("/rebalance/queues")
    assert cluster.managed("a").operator.rebalanced == 1
    assert [act["act"] for act in cluster.managed("a").audit.recent(2)] == [
        "POST /api/rebalance/queues",
        "POST /api/nodes/b/drain",
    ]


def test_scrapes_tell_of_the_node_that_is_asked(cluster: ManagedCluster) -> None:
    emptied(cluster)
    for name in NAMES[1:]:
        publish(cluster.api("a"), name)
    with cluster.connect("a"):
        for node, ready, connections in (("a", 1, 1), ("b", 2, 0)):
            text = cluster.ask(node, "GET /metrics").json.decode()
            assert f"\nrabbitmq_queue_messages_ready {ready}\n" in text
            assert f"\nrabbitmq_connections {connections}\n" in text
            assert [each.family.name for each in CLUSTER if f"\n{each.family.name}" not in text] == []
            assert f'leveret_cluster_link_up{{peer="{"ab".replace(node, "")}"}} 1' in text
    text = cluster.ask("b", "GET /metrics/per-object").json.decode()
    assert f'rabbitmq_queue_messages_ready{{vhost="/",queue="{NAMES[1]}"}} 1' in text
    assert NAMES[2] not in text


def test_counters_do_not_go_back_when_a_shard_leaves(cluster: ManagedCluster) -> None:
    def published(node: str) -> int:
        text = cluster.ask(node, "GET /metrics").json.decode()
        return int(text.split("\nrabbitmq_queue_messages_published_total ")[1].split("\n")[0])

    publish(cluster.api("a"), NAMES[0])
    before = published("a")
    cluster.move("0", "b")
    assert published("a") == before
    cluster.move("0", "a")


def test_a_shard_and_a_node_that_do_not_answer_are_told(
    cluster: ManagedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = cluster.owners.pop("3")
    with monkeypatch.context() as hurry:
        hurry.setattr(forwarder, "PATIENCE_S", -1.0)
        found = cluster.api("a").call("GET", "/queues?page=1&columns=name,state,messages")
        (row,) = [row for row in found.body["items"] if row["name"] == NAMES[3]]
        assert row == {"name": NAMES[3], "state": "down"}
        assert cluster.api("a").call("GET", "/health/checks/virtual-hosts").status == 503
    cluster.owners["3"] = lost
    cluster.addresses["gone"] = ("127.0.0.1", 1)
    told = cluster.api("a").call("GET", "/connections")
    assert (told.status, told.headers[UNANSWERED.lower()]) == (200, "gone")
    assert [row["running"] for row in cluster.api("a").get("/nodes")] == [True, True, False]
    del cluster.addresses["gone"]


def test_alert_rules_are_of_the_cluster_and_alerts_of_the_owner(cluster: ManagedCluster) -> None:
    emptied(cluster)
    rule = {**cluster.api("a").get("/alerts/rules")[0], "figure": "depth_max", "limit": 1, "clear": 0, "for_s": 0}
    rule = {name: rule[name] for name in rule if name not in ("unit", "changed")} | {"queue": NAMES[1]}
    cluster.api("b").put("/alerts/rules/mine", {**rule, "name": "mine"})
    for _ in range(3):
        publish(cluster.api("a"), NAMES[1])
    looked_at(cluster)
    assert [row["rule"] for row in cluster.managed("b").alerts.alerts()] == ["mine"]
    for node in "ab":
        rows = cluster.api(node).get("/alerts")
        assert [(row["rule"], row["queue"], row["node"]) for row in rows] == [("mine", NAMES[1], "b")]
        events = cluster.api(node).get("/alerts/history?limit=1")
        assert [(row["event"], row["queue"], row["node"]) for row in events] == [("firing", NAMES[1], "b")]
        assert [row["node"] for row in cluster.operate(node, "alerts.firing")] == ["b"]
        (event,) = cluster.operate(node, "alerts.history", limit=1)
        assert (event["queue"], event["node"]) == (NAMES[1], "b")
    cluster.move("1", "a")
    looked_at(cluster)
    assert [row["node"] for row in cluster.api("b").get("/alerts")] == ["a"]
    events = [(row["event"], row["node"]) for row in cluster.api("b").get("/alerts/history")]
    assert events == [("firing", "a"), ("firing", "b")]
    cluster.api("a").delete(f"/queues/%2F/{NAMES[1]}/contents")
    looked_at(cluster)
    assert cluster.api("b").get("/alerts/history?limit=1")[0]["event"] == "resolved"
    cluster.move("1", "b")
    cluster.api("a").delete("/alerts/rules/mine")


def looked_at(cluster: ManagedCluster) -> None:
    for node in "ab":
        cluster.run(cluster.managed(node).alerts.look())


def test_a_silence_holds_on_every_node_and_ends_once(fresh: ManagedCluster) -> None:
    until_ms = fresh.managed("a").context.async_broker.runtime.clock.now_ms() + 60_000
    made = fresh.api("a").post("/alerts/silences", {"until_ms": until_ms, "why": "we know"})
    for node in "ab":
        alerts = fresh.managed(node).alerts
        assert alerts.book.silence_of(("any", "/", "queue")) is not None
    later = replace(alerts.book.silence(made["name"]), until_ms=1)
    fresh.run(fresh.managed("b").node.decide(lambda core: alerts.book.put_silence(later)))
    looked_at(fresh)
    events = fresh.api("b").get("/alerts/history")
    assert [(row["event"], row["node"]) for row in events] == [("unsilenced", "a"), ("silenced", "a")]


def test_what_each_node_noted_is_one_list(fresh: ManagedCluster, tmp_path: Path) -> None:
    for node in "ab":
        fresh.api(node).put(f"/vhosts/of-{node}")
    for node in "ab":
        acts = fresh.ok(node, "GET /audit?limit=2")["acts"]
        assert [(row["act"], row["node"]) for row in acts] == [(f"PUT /api/vhosts/of-{name}", name) for name in "ba"]
    fresh.addresses["gone"] = ("127.0.0.1", 1)
    for path in ("/audit", "/api/alerts/history", "/api/alerts/receivers", "/api/reports"):
        told = fresh.ask("a", f"GET {path}")
        assert (told.status, told.headers[UNANSWERED.lower()]) == (200, "gone")
    del fresh.addresses["gone"]


def test_reports_of_all_nodes_are_listed_and_shown(fresh: ManagedCluster, tmp_path: Path) -> None:
    for node, name in (("a", "monday"), ("b", "monday"), ("b", "tuesday")):
        folder = tmp_path / node / name
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(f"of {node}")
        os.utime(folder / "index.html", (0, len(name) if node == "b" else 0))
        fresh.managed(node).context.reports._folder = tmp_path / node
    rows = fresh.api("a").get("/reports")
    assert [(row["name"], row["node"]) for row in rows] == [("tuesday", "b"), ("monday", "b"), ("monday", "a")]
    assert fresh.ask("a", "GET /api/reports/tuesday/page").json == b"of b"
    assert fresh.ask("a", "GET /api/reports/monday/page?node=b").json == b"of b"
    assert fresh.ask("a", "GET /api/reports/monday/page?node=c").status == 404
