"""Sources and sinks over TLS: certificates of the server and of the client, and servers that hang."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import leveret
from leveret.core.errors import AccessRefused, InvalidArgument, Unreachable
from leveret.security.access import Access
from leveret.spark.server import Origin
from leveret.spark.source import LeveretSource
from tests.server.certificates import Authority
from tests.server_process import ServerProcess
from tests.spark.test_sink import close_clients

SCHEMA = StructType().add("value", "binary")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def options(tmp_path: Path, authority: Authority) -> Iterator[dict[str, str]]:
    """A server that knows user `etl` by the certificate alone."""
    with leveret.open(tmp_path / "data") as broker, broker.runtime as core:
        access = Access(core, ("guest", "guest"))
        access.add_user("etl", "", ["administrator"])
        access.set_permission("etl", "/", ".*", ".*", ".*")
    with leveret.open(tmp_path / "data") as broker:
        broker.stream("clicks")
    own, client = authority.issue("localhost", file="server"), authority.issue("etl", file="etl")
    flags = ("--tls-cert", str(own.cert), "--tls-key", str(own.key), "--tls-client-ca", str(authority.cert))
    with ServerProcess(tmp_path, *flags, "--http-cert-login") as server:
        url = f"https://127.0.0.1:{server.ports['https']}"
        found = {"url": url, "cafile": str(authority.cert), "certfile": str(client.cert), "keyfile": str(client.key)}
        yield found | {"requesttimeout": "60s"}
        close_clients()


def write(options: dict[str, str]) -> None:
    writer = LeveretSource({**options, "queue": "clicks"}).writer(SCHEMA, False)
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict({"value": [b"1", b"2"]})]))])


def read(options: dict[str, str]) -> list[Any]:
    told = {**options, "stream": "clicks", "retrytimeout": "0s"}
    reader = LeveretSource(told).reader(None)  # type: ignore[arg-type]
    try:
        batches: Iterator[Any] = (batch for each in reader.partitions() for batch in reader.read(each))
        return [row["value"] for batch in batches for row in batch.to_pylist()]
    finally:
        Origin.of(told).server.close()


def test_sinks_and_sources_show_their_certificate(options: dict[str, str]) -> None:
    write(options)
    assert read(options) == [b"1", b"2"]
    without = {name: text for name, text in options.items() if name not in ("certfile", "keyfile")}
    for work in (write, read):
        with pytest.raises(AccessRefused):
            work(without)
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        read({"url": options["url"]})
    with pytest.raises(InvalidArgument, match=r"certFile='nowhere.pem'.*name a file of certificates"):
        read(options | {"certfile": "nowhere.pem"})


def test_a_server_that_hangs_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unreachable, match="did not answer"):
            read({"url": url, "requesttimeout": "10ms"})
