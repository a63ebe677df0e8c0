"""A provider, and a server that takes its tokens."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oauth.provider import Provider
from tests.server_process import ServerProcess


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider on this machine."""
    made = Provider()
    yield made
    made.close()


@pytest.fixture
def server(tmp_path: Path, provider: Provider) -> Iterator[ServerProcess]:
    """A server that takes tokens of the provider."""
    with ServerProcess(tmp_path, "--oauth-issuer", provider.issuer) as running:
        yield running
