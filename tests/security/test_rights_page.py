"""docs/security.md has the rights of every operation as the source has them."""

import pytest

from leveret.cli.actions import ACTIONS as COMMANDS
from leveret.operations.perform import handled
from leveret.operations.registry import OPERATIONS
from leveret.protocols.management.routes import ROUTES
from leveret.protocols.rest.api import OPERATIONS as REST
from leveret.protocols.sqs.authorization import ACTIONS
from tests.security.rights import METHODS, made
from tests.test_docs import table

ASKED_DIRECTLY = {"metrics.read", "operator.run", "console.use", "exchange.see", "queue.see"}
"""Operations that are in no table of a protocol: the code that serves them names them."""


@pytest.mark.parametrize("name", ["rights", "tags"])
def test_the_page_has_the_rights_of_every_operation(name: str) -> None:
    assert table("security.md", name) == made()[name], "write the page anew: python -m tests.security.rights"


def test_every_operation_is_one_of_a_protocol_and_every_protocol_has_known_ones() -> None:
    managed = {name for name, *_ in ROUTES.values()}
    named = {each.name for each in REST} | set(ACTIONS.values()) | set(handled()) | managed
    assert named <= OPERATIONS.keys()
    assert COMMANDS.keys() <= set(handled())
    assert named | METHODS | ASKED_DIRECTLY >= OPERATIONS.keys()
