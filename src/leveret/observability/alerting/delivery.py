"""Notifications on their way: a line for each receiver, tried again after longer and longer waits, given up in the end.

One thread at a time waits for a receiver, so that neither the loop nor another receiver does.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from leveret.observability.alerting.notifications import Notification
from leveret.observability.alerting.receivers import Receiver
from leveret.observability.alerting.transports import DeliveryFailed
from leveret.observability.logs import Log

WAITS_S = (5.0, 15.0, 45.0, 135.0, 405.0)  # before each further try: ten minutes in all
WAITING_MAX = 100  # notifications for one receiver
SEND_S = 30.0  # for one try, whatever the other side does

LOG = Log("alerts")

Note = Callable[[str, Notification, str], None]
"""Hears what became of a notification: "sent" or "not sent", and why not."""


class Delivery:
    """The lines of all receivers, in the running loop."""

    def __init__(
        self,
        send: Callable[[Notification], None],
        find: Callable[[str], Receiver | None],
        note: Note,
        waits_s: tuple[float, ...] = WAITS_S,
    ) -> None:
        """`send` sends once and may wait; `find` gives a receiver as it is now, None when it is gone."""
        self._send = send
        self._find = find
        self._note = note
        self._waits_s = waits_s
        self._lines: dict[str, deque[Notification]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked: set[str] = set()
        """Receivers whose thread has not come back."""
        self.problems: dict[str, str] = {}
        """Why the last try failed, of receivers whose last try did."""

    def post(self, notification: Notification) -> None:
        """Send a notification as soon as those before it are."""
        name = notification.receiver.name
        line = self._lines.setdefault(name, deque())
        if len(line) >= WAITING_MAX:
            self._note("not sent", line.popleft(), "too many notices wait for this receiver")
        line.append(notification)
        if name not in self._tasks:
            self._tasks[name] = asyncio.get_running_loop().create_task(self._work(name))

    async def once(self, notification: Notification) -> None:
        """Send a notification now, and once; raises Failed."""
        name = notification.receiver.name
        if name in self._asked:
            raise DeliveryFailed("it has not answered the notice before", again=True)
        try:
            await self._in_thread(notification)
        except DeliveryFailed as failed:
            self.problems[name] = str(failed)
            raise
        self.problems.pop(name, None)

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, name: str) -> None:
        """Send what is in a line until it is empty."""
        line = self._lines[name]
        try:
            while line:
                await self._deliver(line.popleft())
        finally:
            del self._lines[name], self._tasks[name]

    async def _deliver(self, notification: Notification) -> None:
        """Try until it is taken, refused, or given up."""
        for wait_s in (*self._waits_s, None):
            receiver = self._find(notification.receiver.name)
            if receiver is None:
                self.problems.pop(notification.receiver.name, None)
                return
            try:
                await self.once(notification._replace(receiver=receiver))
            except DeliveryFailed as failed:
                LOG.warning("alert not sent", receiver=receiver.name, reason=failed, again=failed.again)
                if not failed.again or wait_s is None:
                    self._note("not sent", notification, str(failed))
                    return
                await asyncio.sleep(wait_s)
            else:
                self._note("sent", notification, "")
                return

    async def _in_thread(self, notification: Notification) -> None:
        """Send in a thread that may be left behind: the timeout of a socket would begin anew with each byte."""
        name, loop = notification.receiver.name, asyncio.get_running_loop()
        answer: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            try:
                self._send(notification)
            except DeliveryFailed as failed:
                tell(failed)
            except Exception as error:
                LOG.error("alert not sent", error)
                tell(DeliveryFailed("it failed here: the log of the server says why", again=False))
            else:
                tell(None)

        def tell(error: DeliveryFailed | None) -> None:
            with suppress(RuntimeError):  # the loop has ended: the result is not needed any more
                loop.call_soon_threadsafe(finish, error)

        def finish(error: DeliveryFailed | None) -> None:
            self._asked.discard(name)
            if not answer.done():
                answer.set_result(None) if error is None else answer.set_exception(error)

        self._asked.add(name)
        Thread(target=work, name="leveret-alert", daemon=True).start()
        try:
            async with asyncio.timeout(SEND_S):
                await answer
        except TimeoutError:
            raise DeliveryFailed(f"it took over {SEND_S:g} s", again=True) from None

    def line_lengths(self) -> dict[str, int]:
        """How many notifications wait for each receiver."""
        return {name: len(line) for name, line in self._lines.items()}
