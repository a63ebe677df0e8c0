"""The same scenarios for RabbitMQ and for Leveret: the same answers, but for the differences that are meant.

Without RabbitMQ on the machine Leveret is compared with what one said before; `make rabbitmq` asks it again.
"""

import os
import re
from collections.abc import Iterator

import pytest

from tests.rabbitmq import rabbit, servers
from tests.rabbitmq.differences import INTENDED, SAID, SCENARIOS, THEIRS, answered, expected, without
from tests.rabbitmq.transcripts import Transcripts, played, scripts
from tests.sources import ROOT

pytestmark = pytest.mark.timeout(600)  # all scenarios are played before the first test can look at one
PAGE = (ROOT / "docs" / "rabbitmq.md").read_text()


@pytest.fixture(scope="module")
def leveret(tmp_path_factory: pytest.TempPathFactory) -> Transcripts:
    """What Leveret says."""
    with servers.running(tmp_path_factory.mktemp("leveret")) as addresses:
        return answered(addresses, scripts())


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transcripts]:
    """What RabbitMQ says now."""
    if not os.environ.get("RABBITMQ"):
        pytest.skip("`make rabbitmq` asks a RabbitMQ again")
    if not rabbit.installed():
        pytest.skip("RabbitMQ is not installed: on Debian, `apt-get install rabbitmq-server`")
    with rabbit.playing(tmp_path_factory.mktemp("rabbitmq")) as addresses:
        yield played(addresses)


def test_all_scenarios_were_recorded() -> None:
    assert list(SAID) == list(scripts()), "run `python -m tests.rabbitmq.record` where RabbitMQ is installed"


@pytest.mark.parametrize("name", scripts())
def test_leveret_answers_as_rabbitmq_did(leveret: Transcripts, name: str) -> None:
    assert leveret[name] == expected(name)


def test_rabbitmq_still_answers_as_recorded(rabbitmq: Transcripts) -> None:
    assert {name: lines for name, lines in rabbitmq.items() if lines != SAID[name]} == {}


def test_each_difference_has_a_reason_and_is_one() -> None:
    assert set(INTENDED) == set(SCENARIOS)
    assert [name for name in INTENDED if INTENDED[name] == without(THEIRS, SAID[name])] == []


def test_the_compatibility_page_names_each_difference_and_its_reason() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", PAGE.partition("<!-- table: differences -->")[2], re.M)
    assert rows == list(SCENARIOS.items())


def test_the_compatibility_page_names_tests_and_scenarios_that_exist() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert {name for name in named if f"def {name}(" not in sources} == set()
    assert {name for name in re.findall(r"`(tests/[\w/.]+)`", PAGE) if not (ROOT / name).exists()} == set()
    topics = {name.partition(": ")[0] for name in scripts()}
    assert set(re.findall(r"scenarios `(\w+)`", PAGE)) == topics
