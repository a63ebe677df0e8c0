"""REST by whatever node: the same answers as of a single server, whoever has the queue."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from leveret.core.broker import Broker
from tests.cluster.cluster import SHARDS, name_in
from tests.cluster.web_cluster import WebCluster


@pytest.fixture
def cluster() -> Iterator[WebCluster]:
    made = WebCluster("a", "b", "c")
    yield made
    made.close()


@pytest.mark.parametrize("shard", [0, 1])
def test_the_life_of_a_message(cluster: WebCluster, shard: int) -> None:
    name = name_in(shard, "life")
    made = cluster.ask("a", f"PUT /queues/{name}", {"max_priority": 5})
    assert (made.status, made.json["ready"], made.json["name"]) == (201, 0, name)
    sent = cluster.ask("b", f"POST /queues/{name}/messages", {"payload": {"n": 1}, "priority": 3})
    assert sent.status == 201
    (taken,) = cluster.ok("c", f"POST /queues/{name}/dequeue", {"visibility_timeout": 60})["messages"]
    assert (taken["message_id"], taken["payload"]) == (sent.json["message_id"], {"n": 1})
    receipt = {"receipt_handle": taken["receipt_handle"]}
    cluster.ok("a", f"PATCH /queues/{name}/messages/-/visibility", {**receipt, "visibility_timeout": 90})
    assert cluster.ok("b", f"GET /queues/{name}")["leased"] == 1
    assert cluster.ask("b", f"DELETE /queues/{name}/messages/-", receipt).status == 204
    assert cluster.ask("a", f"DELETE /queues/{name}/messages/-", receipt).status == 409
    assert cluster.ok("c", f"GET /queues/{name}/stats")["acked"] == 1
    assert cluster.ok("a", f"DELETE /queues/{name}")["deleted"] == 0
    assert cluster.ask("b", f"GET /queues/{name}").status == 404


def test_a_message_wakes_who_waits_at_another_node(cluster: WebCluster) -> None:
    name = name_in(1, "waiting")
    cluster.ok("a", f"PUT /queues/{name}", {})
    got: list[str] = []

    def wait() -> None:
        got.extend(
            m["payload"] for m in cluster.ok("a", f"POST /queues/{name}/dequeue", {"wait_seconds": 60})["messages"]
        )

    waiting = threading.Thread(target=wait)
    waiting.start()
    cluster.wait_until(lambda: cluster.ok("c", f"GET /queues/{name}/stats")["waiters"] == 1)
    cluster.ok("c", f"POST /queues/{name}/messages", {"payload": "here"})
    waiting.join()
    assert got == ["here"]


def test_one_who_waits_at_another_node_and_loses_its_permission_waits_no_longer(cluster: WebCluster) -> None:
    name, access = name_in(1, "revoked"), cluster.at("b").proxies.access
    cluster.ok("a", f"PUT /queues/{name}", {})

    def add(core: Broker) -> str:
        access.add_user("ann", "")
        access.set_permission("ann", "/", "", "", ".*")
        return access.api_keys.add("ann", ["*:*"], core.now_ms)[1]

    token = cluster.run(cluster.at("b").node.decide(add))
    dequeue = f"POST /queues/{name}/dequeue"
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(cluster.ask, "a", dequeue, {"wait_seconds": 60}, token=token)
        cluster.wait_until(lambda: cluster.ok("c", f"GET /queues/{name}/stats")["waiters"] == 1)
        cluster.run(cluster.at("b").node.decide(lambda core: access.set_permission("ann", "/", "", "", "^other$")))
        assert waiting.result().json["messages"] == []
    assert cluster.ask("a", dequeue, {}, token=token).status == 403


def test_refusals_are_those_of_a_single_server(cluster: WebCluster) -> None:
    name = name_in(1, "refusing")
    cluster.ok("a", f"PUT /queues/{name}", {})
    for node in "ab":
        refused = cluster.ask(node, "POST /queues/nowhere/messages", {"payload": 1})
        assert (refused.status, refused.json["title"]) == (404, "Queue not found")
        assert refused.json["detail"] == "no queue 'nowhere' in vhost '/': create it first"
        assert cluster.ask(node, f"POST /queues/{name}/messages", {"payload": 1, "what": 2}).status == 400
        assert cluster.ask(node, f"POST /queues/{name}/messages", b"{").status == 400
        assert cluster.ask(node, f"GET /queues/{name}?what=2").status == 400
        assert cluster.ask(node, f"PUT /queues/{name}", {"max_priority": 3}).status == 409
        assert cluster.ask(node, f"GET /queues/{name}?vhost=other").status in (403, 404)
        assert cluster.ask(node, "GET /sinks").status == 422
        assert cluster.ask(node, f"POST /queues/{name}/what", {}).status == 404


def test_settings_are_changed_for_all_nodes(cluster: WebCluster) -> None:
    name = name_in(1, "settings")
    cluster.ok("a", f"PUT /queues/{name}", {"visibility_timeout": 5})
    cluster.ok("a", f"POST /queues/{name}/messages", {"payload": 1})
    again = cluster.ask("b", f"PUT /queues/{name}", {"visibility_timeout": 5})
    assert (again.status, again.json["ready"]) == (200, 1)
    tag = again.headers["etag"]
    changed = cluster.ask("c", f"PATCH /queues/{name}", {"visibility_timeout": 7}, If_Match=tag)
    assert (changed.status, changed.json["visibility_timeout"], changed.json["ready"]) == (200, 7, 1)
    assert cluster.ask("a", f"PATCH /queues/{name}", {"visibility_timeout": 9}, If_Match=tag).status == 412
    assert cluster.ask("a", f"POST /queues/{name}/pause", {}).status == 204
    assert cluster.ok("b", f"POST /queues/{name}/dequeue", {})["messages"] == []
    assert cluster.ok("c", f"GET /queues/{name}")["paused"] is True
    cluster.ok("b", f"POST /queues/{name}/resume", {})
    assert len(cluster.ok("a", f"POST /queues/{name}/dequeue", {})["messages"]) == 1
    acts = cluster.ok("c", "GET /audit?limit=1")["acts"]
    resumed = {"act": "POST /queues/{queue}/resume", "outcome": "done", "by": "guest", "node": "b"}
    assert [{name: act[name] for name in resumed} for act in acts] == [resumed]
    cluster.ask("c", f"DELETE /queues/{name}?if_empty=true&what=1")
    assert "what" in cluster.ok("c", "GET /audit?limit=1")["acts"][0]["outcome"]


def test_every_node_tells_when_a_queue_was_declared_and_what_people_call_it(cluster: WebCluster) -> None:
    name = name_in(1, "named")
    made = cluster.ok("a", f"PUT /queues/{name}", {"display_name": "Orders"})
    assert made["created_at"].startswith("2")
    cluster.ok("c", f"PATCH /queues/{name}", {"display_name": "All orders"})
    for node in "abc":
        (listed,) = [row for row in cluster.ok(node, "GET /queues")["queues"] if row["name"] == name]
        for row in (listed, cluster.ok(node, f"GET /queues/{name}")):
            assert (row["display_name"], row["created_at"]) == ("All orders", made["created_at"])


def test_lists_have_the_figures_of_all_shards(cluster: WebCluster) -> None:
    names = sorted(name_in(shard, "listed") for shard in range(SHARDS))
    for count, name in enumerate(names):
        cluster.ok("a", f"PUT /queues/{name}", {})
        cluster.ok("b", f"POST /queues/{name}/messages/batch", {"messages": [{"payload": 0}] * (count + 1)})
    for node in "abc":
        rows = cluster.ok(node, "GET /queues?prefix=listed&limit=3")
        assert [(row["name"], row["ready"]) for row in rows["queues"]] == [
            (name, n + 1) for n, name in enumerate(names)
        ][:3]
        rest = cluster.ok(node, f"GET /queues?prefix=listed&after={rows['next']}")
        assert [row["ready"] for row in rest["queues"]] == [4]


def test_an_exchange_reaches_queues_of_all_shards_once(cluster: WebCluster) -> None:
    names = [name_in(shard, "spread") for shard in range(SHARDS)]
    cluster.ok("a", "PUT /exchanges/spread", {"type": "topic"})
    for name in names:
        cluster.ok("b", f"PUT /queues/{name}", {})
        cluster.ok("c", "POST /exchanges/spread/bindings", {"destination": name, "routing_key": "all.#"})
    cluster.ok("c", "POST /exchanges/spread/bindings", {"destination": names[2], "routing_key": "one"})
    assert cluster.ok("a", "GET /exchanges/spread/bindings")["total"] == SHARDS + 1
    body = {"payload": "x", "routing_key": "all.of.you"}
    for node in "ab":  # the second one is known already, wherever it goes
        sent = cluster.ask(node, "POST /exchanges/spread/messages", body, Idempotency_Key="k1")
        assert (sent.status, sent.json["routed"]) == (201, True)
    assert cluster.ok("c", "POST /exchanges/spread/messages", {"payload": "y", "routing_key": "one"})["routed"]
    nowhere = cluster.ask("c", "POST /exchanges/spread/messages", {"payload": "z", "routing_key": "none"})
    assert (nowhere.status, nowhere.json) == (200, {"message_id": None, "routed": False})
    bodies = [
        [m["payload"] for m in cluster.ok("b", f"POST /queues/{name}/dequeue", {"max_messages": 9})["messages"]]
        for name in names
    ]
    assert bodies == [["x"], ["x"], ["x", "y"], ["x"]]


def test_a_stream_is_read_by_groups_and_tails_of_any_node(cluster: WebCluster) -> None:
    name = name_in(1, "stream")
    made = cluster.ask("a", f"PUT /streams/{name}", {"partitions": 2})
    assert (made.status, made.json["partitions"]) == (201, 2)
    records = [{"payload": n, "key": str(n)} for n in range(10)]
    cluster.ok("b", f"POST /streams/{name}/records/batch", {"records": records})
    assert [row["records"] for row in cluster.ok("c", "GET /streams")["streams"] if row["name"] == name] == [10]
    joined = cluster.ok("a", f"POST /streams/{name}/groups/g/join", {"member": "m"})
    asked = {"member": "m", "generation": joined["generation"], "offsets": joined["offsets"]}
    polled = cluster.ok("b", f"POST /streams/{name}/groups/g/poll", asked)
    assert sorted(record["payload"] for record in polled["records"]) == list(range(10))
    cluster.ok("c", f"POST /streams/{name}/groups/g/commit", {**asked, "offsets": polled["offsets"]})
    assert cluster.ok("a", f"GET /streams/{name}/groups/g")["total_lag"] == 0
    assert cluster.ok("c", f"DELETE /streams/{name}")["deleted"] == 10
    assert cluster.ask("a", f"GET /streams/{name}").status == 404


def test_a_receipt_is_good_after_its_shard_has_moved(cluster: WebCluster) -> None:
    name = name_in(1, "moved")
    cluster.ok("a", f"PUT /queues/{name}", {})
    cluster.ok("a", f"POST /queues/{name}/messages", {"payload": 1})
    taken = cluster.ok("a", f"POST /queues/{name}/dequeue", {})["messages"][0]
    cluster.move("1", "c")
    try:
        cluster.ok("a", f"DELETE /queues/{name}/messages/-", {"receipt_handle": taken["receipt_handle"]})
        assert cluster.ok("b", f"GET /queues/{name}")["leased"] == 0
    finally:
        cluster.move("1", "b")


def test_messages_are_moved_to_a_queue_of_another_shard(cluster: WebCluster) -> None:
    source, target = name_in(0, "from"), name_in(1, "to")
    cluster.ok("a", f"PUT /queues/{source}", {})
    cluster.ok("a", f"PUT /queues/{target}", {"max_length": 2, "overflow": "reject-publish"})
    cluster.ok("b", f"POST /queues/{source}/messages/batch", {"messages": [{"payload": n} for n in range(4)]})
    moved = cluster.ok("c", f"POST /queues/{source}/redrive", {"to": target})
    assert moved == {"matched": 4, "moved": 4, "skipped": 0}
    got: list[int] = []

    def all_came() -> bool:  # those for which there is no room wait
        for taken in cluster.ok("b", f"POST /queues/{target}/dequeue", {"max_messages": 9})["messages"]:
            got.append(taken["payload"])
            cluster.ok("a", f"DELETE /queues/{target}/messages/-", {"receipt_handle": taken["receipt_handle"]})
        return sorted(got) == list(range(4))

    cluster.wait_until(all_came)
    assert cluster.has(source, 0)
    refused = cluster.ask("c", f"POST /queues/{source}/redrive", {"to": "nowhere"})
    assert (refused.status, refused.json["title"]) == (404, "Queue not found")


def test_what_a_worker_has_done_is_remembered_beside_its_queue(cluster: WebCluster) -> None:
    name = name_in(1, "worked")
    for each in (name, f"{name}.processed"):
        cluster.ok("a", f"PUT /queues/{each}", {"dedup_window": 60})
    sent = cluster.ok("b", f"POST /queues/{name}/messages", {"payload": 1})["message_id"]
    taken = cluster.ok("a", f"POST /queues/{name}/dequeue", {})["messages"][0]
    finished = {"receipt_handle": taken["receipt_handle"], "worker": "w"}
    cluster.ok("c", f"POST /queues/{name}/messages/{sent}/finish", finished)
    assert cluster.ok("b", f"GET /queues/{name}/processed/{sent}?worker=w") == {"processed": True}


def test_a_node_that_cannot_say_what_was_done_on_it_is_named(
    cluster: WebCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.ok("a", "PUT /queues/orders", {})
    monkeypatch.setattr(cluster.at("b").audit, "recent", lambda limit: [][limit])
    for node in "ab":
        told = cluster.ask(node, "GET /audit")
        assert [row["node"] for row in told.json["acts"]] == ["a"]
        assert told.headers["x-leveret-unanswered"] == "b"


def test_rights_on_queues_of_other_shards_count_for_redrives_and_figures(cluster: WebCluster) -> None:
    dead, mine, theirs = name_in(1, "dead"), name_in(2, "mine"), name_in(3, "theirs")
    for name in (mine, theirs):
        cluster.ok("a", f"PUT /queues/{name}", {"dead_letter": dead})
        cluster.ok("b", f"POST /queues/{name}/messages", {"payload": name})
        (taken,) = cluster.ok("c", f"POST /queues/{name}/dequeue", {})["messages"]
        receipt = {"receipt_handle": taken["receipt_handle"]}
        cluster.ok("a", f"POST /queues/{name}/messages/{taken['message_id']}/reject", receipt)
    cluster.wait_until(lambda: cluster.ok("b", f"GET /queues/{dead}/stats")["ready"] == 2)
    access = cluster.at("b").proxies.access

    def add(core: Broker) -> str:
        access.add_user("ann", "")
        access.set_permission("ann", "/", "", f"^{mine}$", f"^{mine}$")
        return access.api_keys.add("ann", ["*:*"], core.now_ms)[1]

    token = cluster.run(cluster.at("b").node.decide(add))
    stats, redrive = f"GET /queues/{mine}/stats", f"POST /queues/{dead}/redrive"
    assert cluster.ask("a", stats, token=token).json["dlq_count"] is None
    assert cluster.ask("a", redrive, {}, token=token).status == 403
    reads = f"^({mine}|{dead})$"
    cluster.run(cluster.at("b").node.decide(lambda core: access.set_permission("ann", "/", "", f"^{mine}$", reads)))
    assert cluster.ask("a", stats, token=token).json["dlq_count"] == 2
    assert cluster.ask("c", redrive, {"to": theirs}, token=token).status == 403
    assert cluster.ask("c", redrive, {}, token=token).json == {"matched": 2, "moved": 1, "skipped": 1}
    cluster.wait_until(lambda: cluster.ok("b", f"GET /queues/{mine}/stats")["ready"] == 1)
