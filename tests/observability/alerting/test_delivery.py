"""Notices on their way: in order, tried again, given up, never in the way of others, never more than can wait."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from leveret.observability.alerting import delivery as deliveries
from leveret.observability.alerting.delivery import Delivery
from leveret.observability.alerting.notifications import Notification
from leveret.observability.alerting.receivers import Receiver
from leveret.observability.alerting.transports import DeliveryFailed
from tests.observability.alerting.mail_server import notification
from tests.waiting import PATIENCE_S

URL = "https://example.org/hook"


class Scene:
    """A delivery whose sending is a function, and what became of everything."""

    def __init__(self, send: Callable[[Notification], None], waits_s: tuple[float, ...] = (0, 0)) -> None:
        self.told: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()
        self.gone: set[str] = set()
        self.delivery = Delivery(send, self.find, self.note, waits_s)

    def find(self, name: str) -> Receiver | None:
        return None if name in self.gone else notification(name=name, url=URL).receiver

    def note(self, outcome: str, told: Notification, reason: str) -> None:
        self.told.put_nowait((told.receiver.name, outcome, reason))

    async def next(self) -> tuple[str, str, str]:
        """What became of the next notice."""
        return await asyncio.wait_for(self.told.get(), PATIENCE_S)


def failing(count: int, again: bool = True) -> Callable[[Notification], None]:
    """Sends after so many failures."""
    left = [count]

    def send(told: Notification) -> None:
        if left[0]:
            left[0] -= 1
            raise DeliveryFailed("it answered 500", again)

    return send


def to(name: str) -> Notification:
    return notification(name=name, url=URL)


def test_what_fails_is_tried_again_until_it_is_taken() -> None:
    async def run() -> None:
        scene = Scene(failing(2))
        scene.delivery.post(to("ops"))
        assert await scene.next() == ("ops", "sent", "")
        assert scene.delivery.problems == {}

    asyncio.run(run())


def test_what_never_works_is_given_up() -> None:
    async def run() -> None:
        scene = Scene(failing(100))
        scene.delivery.post(to("ops"))
        assert await scene.next() == ("ops", "not sent", "it answered 500")
        assert scene.delivery.problems == {"ops": "it answered 500"}

    asyncio.run(run())


def test_what_was_refused_for_good_is_not_tried_again() -> None:
    async def run() -> None:
        scene = Scene(failing(1, again=False))
        scene.delivery.post(to("ops"))
        scene.delivery.post(to("ops"))
        assert await scene.next() == ("ops", "not sent", "it answered 500")
        assert await scene.next() == ("ops", "sent", "")

    asyncio.run(run())


def test_what_fails_in_an_unexpected_way_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    wrong = [True]

    def send(told: Notification) -> None:
        if wrong.pop() if wrong else False:
            raise ZeroDivisionError

    async def run() -> None:
        scene = Scene(send)
        scene.delivery.post(to("ops"))
        scene.delivery.post(to("ops"))
        assert (await scene.next())[1:] == ("not sent", "it failed here: the log of the server says why")
        assert (await scene.next())[1] == "sent"

    asyncio.run(run())
    assert any(record.exc_info for record in caplog.records)


def test_a_receiver_that_does_not_answer_is_in_nobodys_way() -> None:
    released = threading.Event()

    def send(told: Notification) -> None:
        if told.receiver.name == "slow":
            released.wait(PATIENCE_S)

    async def run() -> None:
        scene = Scene(send)
        scene.delivery.post(to("slow"))
        for _ in range(3):
            scene.delivery.post(to("quick"))
        assert [(await scene.next())[0] for _ in range(3)] == ["quick"] * 3
        with pytest.raises(DeliveryFailed, match="not answered"):
            await scene.delivery.once(to("slow"))
        released.set()
        assert await scene.next() == ("slow", "sent", "")

    asyncio.run(run())


def test_whoever_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "SEND_S", 0.01)
    released = threading.Event()

    def send(told: Notification) -> None:
        released.wait(PATIENCE_S)

    async def run() -> None:
        scene = Scene(send, waits_s=())
        scene.delivery.post(to("slow"))
        assert (await scene.next())[1:] == ("not sent", "it took over 0.01 s")
        released.set()

    asyncio.run(run())


def test_only_so_many_notices_wait_for_a_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "WAITING_MAX", 2)

    async def run() -> None:
        scene = Scene(lambda told: None)
        for _ in range(5):
            scene.delivery.post(to("ops"))
        outcomes = [(await scene.next())[1] for _ in range(5)]
        assert outcomes == ["not sent"] * 3 + ["sent"] * 2

    asyncio.run(run())


def test_a_receiver_that_is_gone_is_not_told() -> None:
    async def run() -> None:
        scene = Scene(failing(1))
        scene.gone.add("gone")
        scene.delivery.post(to("gone"))
        scene.delivery.post(to("ops"))
        assert (await scene.next())[0] == "ops"
        assert scene.told.empty()

    asyncio.run(run())


def test_when_it_stops_nobody_is_waited_for() -> None:
    async def run() -> None:
        scene = Scene(failing(100), waits_s=(3600,))
        scene.delivery.post(to("ops"))
        while not scene.delivery.problems:
            await asyncio.sleep(0)
        await scene.delivery.stop()
        assert scene.delivery.line_lengths() == {}

    asyncio.run(run())
