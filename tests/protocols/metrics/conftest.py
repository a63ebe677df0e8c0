"""A busy server, and the scrapes of it that most tests look at."""

from collections.abc import Iterator

import pytest

from tests.protocols.metrics.scene import Scrape, busy, scrape
from tests.server.certificates import Authority
from tests.server_process import ServerProcess

NOBODY = "redis://:hush@127.0.0.1:1/0"


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("metrics")
    authority = Authority(folder)
    own = authority.issue("localhost")
    tls = {"cert": own.cert, "key": own.key, "client-ca": authority.cert, "crl": authority.revoke()}
    flags = ["--archive-dir", str(folder / "archive"), "--redis", NOBODY, "--amqps-port", "0"]
    flags += ["--audit-forward", f"syslog+unix://{folder / 'nobody'}"]
    flags += [word for name, path in tls.items() for word in (f"--tls-{name}", str(path))]
    with ServerProcess(folder, *flags) as running, busy(running):
        yield running


@pytest.fixture(scope="package")
def whole(server: ServerProcess) -> Scrape:
    return scrape(server)


@pytest.fixture(scope="package")
def per_object(server: ServerProcess) -> Scrape:
    return scrape(server, "/metrics/per-object")
