"""The listeners of a node have the budgets, login limits and PROXY headers of a single server."""

import json
from pathlib import Path

from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import Nodes
from tests.protocols.net.test_proxy_protocol import header
from tests.server.test_connection_flood import FLOODING, asked, flooded
from tests.server.test_proxy_protocol import rest_of
from tests.waiting import PATIENCE_S

LIMITS = ("--half-open-max", "20", "--handshake-timeout-s", str(PATIENCE_S), "--sqs-auth", "off")
LIST_QUEUES = {"X_Amz_Target": "AmazonSQS.ListQueues", "Content_Type": "application/x-amz-json-1.0"}


def test_a_node_serves_others_while_silent_sockets_flood_each_of_its_ports(
    tmp_path: Path, etcd: EtcdProcess, store_url: str
) -> None:
    with Nodes(tmp_path, etcd.url, store_url) as nodes:
        nodes.use(*LIMITS, "--proxy-protocol", "amqps,https")
        nodes.start("a")
        ports = nodes.ports("a")
        with flooded(ports["amqp"]), flooded(ports["http"]), flooded(ports["sqs"]):
            with nodes.connect("a") as client:
                client.channel().queue_declare("orders", durable=True)
            assert asked(ports["http"], "GET", "/health/live") == 200
            assert asked(ports["sqs"], "POST", "/", json.dumps({}), **LIST_QUEUES) == 200
        assert f"connection evicted listener=amqp peer={FLOODING}:" in nodes.log("a")


def test_a_node_takes_addresses_from_load_balancers(tmp_path: Path, etcd: EtcdProcess, store_url: str) -> None:
    with Nodes(tmp_path, etcd.url, store_url) as nodes:
        nodes.use("--proxy-protocol", "http")
        nodes.start("a")
        request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert rest_of(nodes.http_port("a"), header() + request).startswith(b"HTTP/1.1 200 ")
        assert rest_of(nodes.http_port("a"), request) == b""
        assert "proxy header refused listener=http" in nodes.log("a")
