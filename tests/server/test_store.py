"""A server whose messages are in PostgreSQL: every protocol, restarts, takeovers, and a database that is away."""

import base64
import http.client
import json
from pathlib import Path

import boto3
import pika
import pytest
from botocore import UNSIGNED
from botocore.config import Config

from leveret.core.errors import InvalidArgument, NotFound, StoreUnreachable
from leveret.server.addresses import exit_code
from leveret.server.control import connect
from leveret.server.settings import server_options
from tests.postgres_server import PostgresServer
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

EXIT_FENCED = 77
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def on_store(folder: Path, url: str) -> ServerProcess:
    folder.mkdir(exist_ok=True)
    return ServerProcess(folder, "--store", url, "--sqs-auth", "off")


def publish(server: ServerProcess, body: bytes, queue: str = "orders") -> None:
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", queue, body, PERSISTENT)


def taken(server: ServerProcess, queue: str = "orders") -> list[bytes]:
    """All messages of a queue, acknowledged."""
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        bodies = []
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            bodies.append(got[2])
        return bodies


def send_by_sqs(server: ServerProcess, body: str) -> None:
    endpoint = f"http://127.0.0.1:{server.ports['sqs']}"
    client = boto3.client("sqs", "us-east-1", endpoint_url=endpoint, config=Config(signature_version=UNSIGNED))
    client.send_message(QueueUrl=client.get_queue_url(QueueName="orders")["QueueUrl"], MessageBody=body)
    client.close()


def manage(server: ServerProcess, method: str, path: str, body: object = None) -> str:
    """Ask the management API."""
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)
    login = base64.b64encode(b"guest:guest").decode()
    connection.request(method, path, json.dumps(body), {"Authorization": f"Basic {login}"})
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer


def test_metrics_tell_of_the_connections_to_the_store(store_url: str, tmp_path: Path) -> None:
    with on_store(tmp_path, store_url) as server:
        publish(server, b"a")
        lines = manage(server, "GET", "/metrics").splitlines()
        figures = dict(line.rsplit(" ", 1) for line in lines if line.startswith("leveret_postgres_"))
    assert int(figures.pop("leveret_postgres_connections")) >= 1
    assert int(figures.pop("leveret_postgres_connections_in_use")) >= 0
    assert int(figures.pop("leveret_postgres_waits_total")) >= 0
    assert figures == {"leveret_postgres_reconnects_total": "0", "leveret_postgres_errors_total": "0"}


def test_every_protocol_uses_it_and_nothing_is_lost_by_a_kill(tmp_path: Path, store_url: str) -> None:
    with on_store(tmp_path, store_url) as server:
        publish(server, b"by AMQP")
        with server.client() as client:
            client.queue("orders").send("by REST")
        send_by_sqs(server, "by SQS")
        manage(server, "PUT", "/api/users/alice", {"password": "secret-of-alice", "tags": ""})
        server.kill()
        server.start()
        assert taken(server) == [b"by AMQP", b"by REST", b"by SQS"]
        assert "alice" in manage(server, "GET", "/api/users")
        assert not list(server.data.glob("seg-*")), "nothing of it is in files"


def test_a_second_server_takes_over_and_the_first_one_says_so(tmp_path: Path, store_url: str) -> None:
    first, second = on_store(tmp_path / "first", store_url).start(), on_store(tmp_path / "second", store_url)
    publish(first, b"kept")
    with second:
        assert first.wait() == EXIT_FENCED
        assert "has taken over this store" in first.text
        assert taken(second) == [b"kept"]


def test_a_database_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    with PostgresServer() as database, on_store(tmp_path, database.url()) as server:
        publish(server, b"before")
        database.crash()
        with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
            channel = connection.channel()
            channel.basic_publish("", "orders", b"meanwhile", PERSISTENT)
            server.wait_for("store does not answer")
            database.start()
            server.wait_for("store answers again")
        assert taken(server) == [b"before", b"meanwhile"]


def test_a_store_that_is_no_url_of_a_database() -> None:
    with pytest.raises(InvalidArgument, match="store is a URL such as postgresql://user@host/database"):
        server_options({"store": "mysql://host/db"}, {})
    assert exit_code(StoreUnreachable("away")) == 74


def test_a_command_does_not_take_a_store_over(tmp_path: Path, store_url: str) -> None:
    with pytest.raises(NotFound, match="no server listens"), connect(str(tmp_path), {}, store_url):
        raise AssertionError("it was opened")
