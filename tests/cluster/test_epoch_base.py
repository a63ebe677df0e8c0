"""Another region takes over: the same database, an etcd that counts from the start, and a raised base of epochs."""

from pathlib import Path

import pika
import psycopg

from leveret.cli.main import main
from leveret.cluster.coordination.keys import REVISION_BITS
from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.peer import CLUSTER_SECRET
from tests.cluster.processes import LEASE_S, SHARDS
from tests.server_process import ServerProcess


def node(folder: Path, etcd: str, store: str, base: int) -> ServerProcess:
    """The only node of a cluster, running."""
    flags = ["--node", "one", "--cluster", "orders", "--etcd", etcd, "--store", store, "--cluster-port", "0"]
    flags += ["--cluster-shards", str(SHARDS), "--cluster-lease-s", str(LEASE_S), "--cluster-epoch-base", str(base)]
    folder.mkdir()
    return ServerProcess(folder, *flags, environ={"LEVERET_CLUSTER_SECRET": CLUSTER_SECRET}).start()


def connect(server: ServerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.ports["amqp"]))


def bases(store: str) -> set[int]:
    """Those that the owners of all shards have."""
    with psycopg.connect(store) as connection:
        return {epoch >> REVISION_BITS for (epoch,) in connection.execute("select epoch from leveret_shard")}


def test_a_region_with_an_etcd_of_its_own_goes_on_with_a_higher_base(
    tmp_path: Path, etcd: EtcdProcess, store_url: str
) -> None:
    first = node(tmp_path / "first", etcd.url, store_url, base=0)
    try:
        with connect(first) as connection:
            channel = connection.channel()
            channel.queue_declare("q", durable=True)
            channel.confirm_delivery()
            channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
    finally:
        first.kill()
    (tmp_path / "etcd").mkdir()
    with EtcdProcess(tmp_path / "etcd") as in_thread:
        second = node(tmp_path / "second", in_thread.url, store_url, base=1)
        try:
            assert main(["status", "--data", str(second.data)]) == 0, "what probes ask"
            with connect(second) as connection:
                assert connection.channel().basic_get("q", auto_ack=True)[2] == b"kept"
        finally:
            second.kill()
    assert bases(store_url) == {1}
