"""What one node lets another one do."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from leveret.cluster.rpc.calls import CallHandlers, call
from leveret.cluster.rpc.link import PeerLink
from leveret.cluster.rpc.wire import refusal
from leveret.core.errors import LeveretError, NotFound, NotSupported, Unreachable


class Direct:
    """A link that leads to the errands of the same process, or is lost, or answers nothing."""

    def __init__(self, call_handlers: CallHandlers | None, lost: bool = False) -> None:
        self._errands = call_handlers
        self._lost = lost

    def ask(self, request: bytes, answered: Callable[[bytes | None], None]) -> None:
        if self._lost:
            answered(None)
        elif self._errands is not None:
            try:
                self._errands.run(json.loads(request), answered)
            except LeveretError as error:
                answered(refusal(error))  # as a link does


def sent(link: Direct | None, errand: str = "double", timeout_s: float = 10) -> Any:
    """Let somebody double a number."""
    return asyncio.run(call(cast(PeerLink, link), errand, {"number": 21}, timeout_s))


async def double(about: dict[str, Any]) -> int:
    return int(about["number"]) * 2


async def refuse(about: dict[str, Any]) -> None:
    raise NotFound(f"there is no {about['number']}")


async def fail(about: dict[str, Any]) -> None:
    raise RuntimeError("hush")


@pytest.fixture
def call_handlers() -> CallHandlers:
    made = CallHandlers()
    made.works |= {"double": double, "refuse": refuse, "fail": fail}
    return made


def test_an_errand_gives_what_came_of_it(call_handlers: CallHandlers) -> None:
    assert sent(Direct(call_handlers)) == 42


def test_a_refusal_is_raised_as_what_it_was(call_handlers: CallHandlers) -> None:
    with pytest.raises(NotFound, match="no 21"):
        sent(Direct(call_handlers), "refuse")
    with pytest.raises(LeveretError, match="its log says why"):
        sent(Direct(call_handlers), "fail")
    with pytest.raises(NotSupported, match="different versions"):
        sent(Direct(call_handlers), "unheard of")


def test_a_node_that_does_not_answer_is_unreachable() -> None:
    for link in (None, Direct(None, lost=True), Direct(None)):
        with pytest.raises(Unreachable):
            sent(link, timeout_s=0.01)
