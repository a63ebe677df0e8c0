"""Questions to a database that other threads wait for as well: reads under the lock of a broker.

An answer that does not come soon is not waited for. TCP finds out after seconds that a peer is gone, and never that a
server stands still; a node would serve none of its shards meanwhile, wherever those are, and lose all of them.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, ParamSpec, TypeVar

from leveret.core.errors import StoreUnreachable
from leveret.storage.journal.postgres.table import Unknown

SOON_S = 2.0
"""Half of the lease that nodes have unless they are told otherwise."""

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def asked(question: Callable[Given, Answer], *given: Given.args, **named: Given.kwargs) -> Answer:
    """The answer of a table to a question, asked again when the connection had been lost meanwhile."""
    try:
        return question(*given, **named)
    except Unknown:
        pass
    try:
        return question(*given, **named)
    except Unknown as unknown:
        raise unreachable(str(unknown)) from unknown


def unreachable(why: str) -> StoreUnreachable:
    """The error of a caller that gets no answer."""
    return StoreUnreachable(f"the store in PostgreSQL does not answer: {why}; try again later")


class Late(NamedTuple):
    """A question that was not answered soon."""

    question: tuple[object, ...]
    answer: Future[Any]


class Questions:
    """What is asked about one shard."""

    def __init__(self) -> None:
        """Wait for every answer: no other thread waits yet."""
        self.away: str | None = None
        """Why the database cannot be asked just now: the next reader need not find it out again."""
        self._thread: ThreadPoolExecutor | None = None
        self._late: Late | None = None

    def hurry(self) -> None:
        """Wait for no answer for long from now on."""
        self._thread = self._thread or ThreadPoolExecutor(1, "leveret-reader")

    def ask(self, question: Callable[Given, Answer], *given: Given.args, **named: Given.kwargs) -> Answer:
        """The answer to a question; StoreUnreachable when there is none soon, or the database is known to be away."""
        if self.away is not None:
            raise unreachable(self.away)
        if self._thread is None:
            return question(*given, **named)
        asking, late = (question, given, named), self._late
        if late is not None and not late.answer.done():
            raise unreachable("it has not answered the question before this one")
        self._late = None
        if late is not None and late.question == asking:
            heard: Answer = late.answer.result()  # else an answer that always takes longer would never be used
            return heard
        try:
            answer = self._thread.submit(question, *given, **named)
        except RuntimeError:
            raise unreachable("it was closed") from None
        try:
            return answer.result(SOON_S)
        except TimeoutError:
            self._late = Late(asking, answer)
            raise unreachable(f"no answer for {SOON_S:g} s") from None

    def close(self) -> None:
        """Refuse all questions from now on; the connections have ended."""
        if self._thread is not None:
            self._thread.shutdown()
