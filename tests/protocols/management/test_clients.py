"""Connections, channels and consumers as they are, and sending somebody away."""

import time
from collections.abc import Iterator
from urllib.parse import quote

import pika
import pytest

from tests.protocols.management.scene import VHOST, Api
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def connection(server: ServerProcess) -> Iterator[pika.BlockingConnection]:
    opened = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", server.port, VHOST, client_properties={"connection_name": "reader"})
    )
    yield opened
    if opened.is_open:
        opened.close()


def path_of(api: Api, kind: str = "connections") -> str:
    return f"/{kind}/{quote(api.get(f'/{kind}')[-1]['name'], safe='')}"


def test_a_connection_tells_who_it_is(api: Api, connection: pika.BlockingConnection) -> None:
    row = api.get(path_of(api))
    assert (row["user"], row["vhost"], row["state"]) == ("guest", VHOST, "running")
    assert row["user_provided_name"] == row["client_properties"]["connection_name"] == "reader"
    assert row["name"] == f"{row['peer_host']}:{row['peer_port']} -> {row['host']}:{row['port']}"
    assert row["recv_oct"] > 0 < row["send_oct"]
    assert api.get(f"/vhosts/{VHOST}/connections")[-1]["name"] == row["name"]
    assert api.get("/vhosts/%2F/connections") == []
    assert row["name"] in {each["name"] for each in api.get("/connections/username/guest")}


def test_consumers_of_a_queue_tell_which_one_is_active(api: Api, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    for name, arguments in (("shared", {}), ("single", {"x-single-active-consumer": True})):
        channel.queue_declare(name, exclusive=True, arguments=arguments)
        for each in ("first", "second"):
            channel.basic_consume(name, lambda *_: None, consumer_tag=f"{name}-{each}")
    told = {row["consumer_tag"]: (row["active"], row["activity_status"]) for row in api.get(f"/consumers/{VHOST}")}
    assert told["shared-first"] == told["shared-second"] == (True, "up")
    assert (told["single-first"], told["single-second"]) == ((True, "single_active"), (False, "waiting"))


def test_a_channel_counts(api: Api, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("counted", durable=True)
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=7)
    channel.basic_qos(prefetch_count=9, global_qos=True)
    for _ in range(3):
        channel.basic_publish("", "counted", b"")
    channel.basic_get("counted", auto_ack=True)
    method, _, _ = channel.basic_get("counted")
    channel.basic_nack(method.delivery_tag)
    method, _, _ = channel.basic_get("counted")
    channel.basic_ack(method.delivery_tag)
    tag = channel.basic_consume("counted", lambda *_: None)
    connection.process_data_events(0)
    row = api.get(path_of(api, "channels"))
    assert (row["confirm"], row["transactional"], row["consumer_count"]) == (True, False, 1)
    assert (row["prefetch_count"], row["global_prefetch_count"], row["messages_unacknowledged"]) == (7, 9, 1)
    stats = row["message_stats"]
    names = ("publish", "confirm", "get", "deliver", "deliver_get", "ack", "redeliver")
    assert [stats[name] for name in names] == [3, 3, 3, 1, 4, 1, 1]
    assert row["consumer_details"][0]["consumer_tag"] == tag
    queue = api.get(f"/queues/{VHOST}/counted")
    assert [queue["message_stats"][name] for name in names if name != "confirm"] == [3, 3, 1, 4, 2, 1]
    assert (queue["messages_unacknowledged"], queue["consumers"]) == (1, 1)
    assert [each["consumer_tag"] for each in queue["consumer_details"]] == [tag]
    assert api.get(f"/consumers/{VHOST}")[-1]["queue"] == {"name": "counted", "vhost": VHOST}


def test_uncommitted_work_is_told(api: Api, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.tx_select()
    channel.basic_publish("", "orders", b"")
    channel.basic_publish("", "orders", b"")
    channel.queue_declare("orders", passive=True)
    row = api.get(path_of(api, "channels"))
    assert (row["transactional"], row["messages_uncommitted"], row["acks_uncommitted"]) == (True, 2, 0)
    channel.tx_rollback()


def test_a_connection_is_closed_for_a_reason(api: Api, connection: pika.BlockingConnection) -> None:
    answer = api.call("DELETE", path_of(api), headers={"X-Reason": "time to go"})
    assert answer.status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - time to go"):
        connection.process_data_events(PATIENCE_S)


def test_an_overlong_reason_is_refused(api: Api, connection: pika.BlockingConnection) -> None:
    answer = api.call("DELETE", path_of(api), headers={"X-Reason": "x" * 300})
    assert (answer.status, answer.body["error"]) == (400, "bad_request")
    assert connection.is_open


def test_all_connections_of_a_user_are_closed(api: Api, connection: pika.BlockingConnection) -> None:
    api.delete("/connections/username/guest")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(PATIENCE_S)
    assert api.get("/connections/username/alice") == []


def test_who_is_no_monitor_sees_and_closes_only_his_own(api: Api, connection: pika.BlockingConnection) -> None:
    alice = Api(api.port, "alice", "wonderland")
    assert alice.get("/connections") == alice.get("/channels") == []
    assert alice.call("DELETE", path_of(api)).status == 401
    parameters = pika.ConnectionParameters(
        "127.0.0.1", int(api.get("/overview")["listeners"][0]["port"]), VHOST,
        credentials=pika.PlainCredentials("alice", "wonderland"),
    )  # fmt: skip
    own = pika.BlockingConnection(parameters)
    alice.delete(path_of(alice))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        own.process_data_events(PATIENCE_S)


def test_an_exclusive_queue_is_not_for_the_api(api: Api, connection: pika.BlockingConnection) -> None:
    connection.channel().queue_declare("mine", exclusive=True)
    assert api.get(f"/queues/{VHOST}/mine")["exclusive"]
    for method, path, body in (
        ("DELETE", "", None),
        ("DELETE", "/contents", None),
        ("POST", "/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
        ("POST", "/move", {"destination": "orders"}),
    ):
        status, told, _ = api.call(method, f"/queues/{VHOST}/mine{path}", body)
        assert status == 400
        assert "cannot obtain exclusive access" in told["reason"]


def test_churn_is_counted(api: Api, server: ServerProcess) -> None:
    before = api.get("/overview")["churn_rates"]
    with pika.BlockingConnection(pika.URLParameters(server.url)) as opened:
        opened.channel()
    after = api.get("/overview")["churn_rates"]
    assert after["connection_created"] == before["connection_created"] + 1
    assert after["channel_created"] == before["channel_created"] + 1


def test_leases_tell_who_holds_which_message(api: Api, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("held", durable=True)
    channel.basic_qos(prefetch_count=1)
    for _ in range(2):
        channel.basic_publish("", "held", b"x")
    received: list[int] = []
    channel.basic_consume("held", lambda _, got, *rest: received.append(got.delivery_tag), consumer_tag="holder")
    while not received:
        connection.process_data_events(0.05)
    (lease,) = api.get(f"/queues/{VHOST}/held/leases")
    (consumer,) = api.get(f"/queues/{VHOST}/held")["consumer_details"]
    assert (lease["deliveries"], lease["ends_at"], lease["holder"]["name"]) == (1, None, "holder")
    assert lease["holder"]["connection_name"] == consumer["channel_details"]["connection_name"]
    assert lease["enqueued_at"] <= lease["taken_at"]
    alice = Api(api.port, "alice", "wonderland")
    api.put(f"/permissions/{VHOST}/alice", {"configure": "^orders", "write": ".*", "read": "^orders"})
    assert alice.call("GET", f"/queues/{VHOST}/held/leases").status == 401
    api.put(f"/permissions/{VHOST}/alice", {"configure": "^orders", "write": ".*", "read": ".*"})
    api.delete(f"/queues/{VHOST}/held")
    assert api.call("GET", f"/queues/{VHOST}/held/leases").status == 404


def test_a_consumer_tells_when_it_was_last_active(api: Api, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("lively", exclusive=True)
    taken: list[int] = []
    channel.basic_consume("lively", lambda _, method, *__: taken.append(method.delivery_tag))

    def active_at() -> int:
        (row,) = [each for each in api.get(f"/consumers/{VHOST}") if each["queue"]["name"] == "lively"]
        at: int = row["last_activity_at"]
        return at

    subscribed = active_at()
    (row,) = api.get(f"/queues/{VHOST}/lively")["consumer_details"]
    assert row["last_activity_at"] == subscribed >= api.get(f"/queues/{VHOST}/lively")["created_at"] > 0
    wait_until(lambda: int(time.time() * 1000) > subscribed)
    channel.basic_publish("", "lively", b"")
    while not taken:
        connection.process_data_events(1)
    delivered = active_at()
    assert delivered > subscribed
    wait_until(lambda: int(time.time() * 1000) > delivered)
    assert active_at() == delivered
    channel.basic_ack(taken[0])
    channel.queue_declare("lively", passive=True)
    assert active_at() > delivered
