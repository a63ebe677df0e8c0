"""Tokens at nodes of a cluster: whichever node a client comes to, the owner of a queue knows what its token allows."""

from collections.abc import Iterator

import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from leveret.config import ServerOptions
from leveret.server.authentication import authentication_of
from tests.cluster.cluster import name_in
from tests.cluster.web_cluster import WebCluster
from tests.oauth.provider import Provider
from tests.waiting import wait_until

QUEUES = [name_in(shard, "tokens") for shard in (0, 1)]
ALL = " ".join(f"leveret.{access}:%2F/*" for access in ("configure", "write", "read"))


@pytest.fixture
def cluster(provider: Provider) -> Iterator[WebCluster]:
    made = WebCluster("a", "b")
    for name in "ab":
        member = made.at(name)
        chain = authentication_of(ServerOptions(oauth_issuer=provider.issuer), member.proxies.access)
        member.proxies.server.hub.authentication = chain
        member.web._auth._authentication = chain
    yield made
    made.close()


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("node", ["a", "b"])
def test_amqp_through_any_node(cluster: WebCluster, provider: Provider, node: str, queue: str) -> None:
    connection = cluster.connect(node, "x", provider.token("ada", ALL))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(queue)
    channel.basic_publish("", queue, b"one")
    assert channel.basic_get(queue, auto_ack=True)[2] == b"one"
    channel.basic_consume(queue, lambda *_: None)
    connection.update_secret(provider.token("ada", ALL.replace("leveret.write", "x")), "less")
    with pytest.raises(ChannelClosedByBroker, match=r"write access to exchange 'amq.default' .* user 'ada'"):
        channel.basic_publish("", queue, b"two")
    connection.close()


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("node", ["a", "b"])
def test_a_consumer_ends_that_a_new_token_does_not_allow(
    cluster: WebCluster, provider: Provider, node: str, queue: str
) -> None:
    connection = cluster.connect(node, "x", provider.token("ada", ALL))
    channel = connection.channel()
    channel.queue_declare(queue)
    channel.basic_consume(queue, lambda *_: None)
    connection.update_secret(provider.token("ada", "leveret.write:%2F/*"), "less")

    def is_cancelled() -> bool:
        connection.process_data_events(0)
        return not channel.consumer_tags

    wait_until(is_cancelled)
    assert channel.is_open
    with pytest.raises(
        ChannelClosedByBroker, match=f"read access to queue '{queue}' in vhost '/' refused for user 'ada'"
    ):
        channel.basic_consume(queue, lambda *_: None)
    connection.close()


@pytest.mark.parametrize("queue", QUEUES)
def test_a_connection_ends_with_its_token(cluster: WebCluster, provider: Provider, queue: str) -> None:
    connection = cluster.connect("a", "x", provider.token("ada", ALL, lifetime_s=-25))  # 30 s clocks may differ
    channel = connection.channel()
    channel.queue_declare(queue)
    channel.basic_consume(queue, lambda *_: None)
    with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - credential expired"):
        channel.start_consuming()


@pytest.mark.parametrize("queue", QUEUES)
def test_rest_through_any_node(cluster: WebCluster, provider: Provider, queue: str) -> None:
    token = provider.token("ada", ALL.replace("leveret.read", "x"))
    for node in "ab":
        assert cluster.ask(node, f"PUT /queues/{queue}", {}, token=token).status in (200, 201)
        assert cluster.ask(node, f"POST /queues/{queue}/messages", {"payload": 1}, token=token).status == 201
        refused = cluster.ask(node, f"POST /queues/{queue}/dequeue", {}, token=token)
        assert (refused.status, "refused for user 'ada'" in refused.json["detail"]) == (403, True)
