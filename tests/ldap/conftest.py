"""A slapd with some users and groups, for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ldap.slapd_process import ENTRIES, MAPPING, SlapdProcess
from tests.server.certificates import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs the certificate of the directory."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def slapd(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[SlapdProcess]:
    """A directory that no test changes."""
    with SlapdProcess(tmp_path_factory.mktemp("slapd"), authority) as process:
        process.add(ENTRIES)
        yield process


@pytest.fixture
def own_slapd(tmp_path: Path) -> Iterator[SlapdProcess]:
    """A directory of one test, which may stop and change it."""
    folder = tmp_path / "slapd"
    folder.mkdir()
    with SlapdProcess(folder) as process:
        process.add(ENTRIES)
        yield process


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    """What the groups may do."""
    path = tmp_path / "groups.toml"
    path.write_text(MAPPING)
    return path
