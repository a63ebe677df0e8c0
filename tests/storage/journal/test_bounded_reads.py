"""Questions to a database while everybody waits for whoever asks."""

import threading

import pytest

from leveret.core.errors import StoreUnreachable
from leveret.storage.journal.postgres import reader
from leveret.storage.journal.postgres.reader import Questions
from tests.waiting import PATIENCE_S, wait_until


def test_an_answer_that_comes_late_is_there_for_whoever_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "SOON_S", 0.01)
    answering, asked = threading.Event(), list[int]()

    def question(number: int) -> int:
        asked.append(number)
        answering.wait(PATIENCE_S)
        return number

    def answered() -> int | None:
        try:
            return questions.ask(question, 1)
        except StoreUnreachable:
            return None

    questions = Questions()
    questions.hurry()
    try:
        with pytest.raises(StoreUnreachable, match=r"no answer for 0\.01 s"):
            questions.ask(question, 1)
        with pytest.raises(StoreUnreachable, match="it has not answered the question before this one"):
            questions.ask(question, 2)
    finally:
        answering.set()
    assert wait_until(answered) == 1
    assert asked == [1]
    questions.close()


def test_who_asks_after_the_end_hears_of_it() -> None:
    questions = Questions()
    questions.hurry()
    questions.close()
    with pytest.raises(StoreUnreachable, match="it was closed"):
        questions.ask(lambda: 1)
