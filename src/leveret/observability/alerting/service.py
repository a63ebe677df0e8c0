"""Alerting at work: looks at the broker now and then, tells receivers, and answers those who ask.

book (what is defined) -> watch (figures) -> engine (states) -> notifications (groups) -> delivery (tries) -> receivers
                                                 |                                       |
                                                 +---------------- history --------------+
"""

import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any

from leveret.core.broker import Broker
from leveret.core.errors import Unreachable
from leveret.observability.alerting.book import Book
from leveret.observability.alerting.delivery import WAITS_S, Delivery
from leveret.observability.alerting.engine import FIRING, RESOLVED, Alert, AlertEngine, AlertEvent, Key, worst_first
from leveret.observability.alerting.notifications import Notification, Notifications, by_rule
from leveret.observability.alerting.receivers import Receiver
from leveret.observability.alerting.rules import DEFAULTS, AlertRuleSettings
from leveret.observability.alerting.silences import Silence
from leveret.observability.alerting.transports import DeliveryFailed, Transports
from leveret.observability.alerting.watch import GroupReaders, QueueWatch
from leveret.observability.chain import Row
from leveret.observability.logs import Log
from leveret.observability.rounds import make_rounds
from leveret.observability.row_file import FILE_BYTES_MAX, RowFile
from leveret.runtime.runtime import Runtime

LOGGED_MAX = 100  # events of one look: the history has all of them
LOG = Log("alerts")

Change = Callable[[Callable[[Broker], Any]], Awaitable[Any]]
"""Changes a definition, and gives what that gave."""


class Alerting:
    """Everything about alerts of one server, in the running loop."""

    def __init__(
        self,
        runtime: Runtime,
        readers: Callable[[Runtime], GroupReaders],
        transports: Transports,
        directory: str | None = None,
        waits_s: tuple[float, ...] = WAITS_S,
        *,
        shards: Callable[[], Sequence[Runtime]] | None = None,
        change: Change | None = None,
    ) -> None:
        """Take up what the last process left in a directory.

        On a node of a cluster `runtime` has the definitions, which `change` changes, and `shards` have the queues.
        """
        self._runtime = runtime
        self._change: Change = self._change_here if change is None else change
        with runtime as core:
            self.book = Book(core, transports.plain_remote)
        self.history = AlertHistory(directory)
        self.engine = AlertEngine()
        self._watch = QueueWatch(runtime, shards or (lambda: (runtime,)), self.engine, readers)
        self._notifications = Notifications()
        self._delivery = Delivery(transports.send, self._receiver, self._told, waits_s)
        self._too_many = False
        self._restore()

    # At work

    async def run(self, every_s: float) -> None:
        """Look now and then, until it is cancelled."""
        try:
            if every_s:
                await make_rounds(self.look, every_s, lambda error: LOG.warning("alerts not looked at", reason=error))
        finally:
            await self._delivery.stop()

    async def look(self) -> None:
        """Look once, and tell those who are to be told."""
        with self._runtime:
            rules = self.book.rules()
        events = await self._watch.look(rules)
        with self._runtime as core:
            now_ms = core.now_ms
            over = self.book.over(now_ms)
        over = await self._expire(now_ms) if over else []
        with self._runtime:
            # Each alert is held against all silences once, not for each receiver.
            is_silenced = cache(lambda key: self.book.silence_of(key) is not None)
            notifications = self._notifications.due(
                self.book.receivers(), self.engine.firing(), events, now_ms, is_silenced
            )
        self.history.note([*map(_event_row, events), *(_silence_row(UNSILENCED, each, now_ms) for each in over)])
        self._log(events)
        for notification in notifications:
            self._delivery.post(notification)

    async def _expire(self, now_ms: int) -> list[Silence]:
        """End the silences whose time has come; of all nodes that do, one is told which. The next look tries again."""
        try:
            ended: list[Silence] = await self._change(lambda core: self.book.expire(now_ms))
        except Unreachable as error:
            LOG.warning("silences not ended", reason=error)
            return []
        return ended

    async def test(self, name: str) -> Row:
        """Send a test to a receiver, once; Unreachable says why it was not taken."""
        with self._runtime as core:
            notification = test_notification(self.book.receiver(name), core.now_ms)
        try:
            await self._delivery.once(notification)
        except DeliveryFailed as failed:
            raise Unreachable(f"receiver '{name}' did not take the test: {failed}") from None
        return {"name": name, "status": SENT}

    def _log(self, events: list[AlertEvent]) -> None:
        """Say in the log what changed, and once if there is more than can be kept."""
        for event in events[:LOGGED_MAX]:
            _log_event(event)
        too_many, self._too_many = self._too_many, self.engine.left_out > 0
        if self._too_many and not too_many:
            LOG.warning("alerts left out", kept=len(self.engine.alerts), left_out=self.engine.left_out)

    async def _change_here(self, action: Callable[[Broker], Any]) -> Any:
        with self._runtime as core:
            return action(core)

    # For those who ask; under the lock

    def alerts(self) -> list[Row]:
        """What is wrong now, the worst first, and by whom it was silenced."""
        rows = []
        for alert in worst_first(self.engine.alerts.values()):
            silence = self.book.silence_of(alert.key)
            rows.append({**alert.to_dict(), "silence": None if silence is None else silence.name})
        return rows

    def receivers(self) -> list[Row]:
        waiting = self._delivery.line_lengths()
        return [
            {**each.shown(), "problem": self._delivery.problems.get(each.name), "waiting": waiting.get(each.name, 0)}
            for each in self.book.receivers()
        ]

    def firing_counts(self) -> dict[str, int]:
        """How many alerts of each rule are firing, of rules without any too."""
        counts = Counter(alert.rule.name for alert in self.engine.firing())
        return {rule.name: counts[rule.name] for rule in self.book.rules()}

    # What lasts is noted by who has changed it: what changes a definition may be run more than once

    def silenced(self, silence: Silence) -> None:
        self.history.note([_silence_row(SILENCED, silence, silence.since_ms)])

    def unsilenced(self, silence: Silence, by: str) -> None:
        """Note that a user has ended a silence before its time."""
        self.history.note([{**_silence_row(UNSILENCED, silence, self._runtime.clock.now_ms()), "by": by}])

    # Between the parts

    def _restore(self) -> None:
        """Know again what was firing, and who was told."""
        rules, now_ms = {rule.name: rule for rule in self.book.rules()}, self._runtime.clock.now_ms()
        last = {key: row for key, row in self.history.last_events().items() if key[0] in rules}
        known = {key: Alert.of_row(key, rules[key[0]], row) for key, row in last.items()}
        for alert in known.values():
            if alert.state == FIRING:
                self.engine.restore(alert, now_ms)
        alerts = by_rule(known.values())
        for (receiver, name), sent_ms in self.history.told().items():
            # An end after the last notification is news: a silence may have held it back.
            news = [each for each in alerts.get(name, ()) if each.state == FIRING or last[each.key]["at_ms"] > sent_ms]
            self._notifications.restore(receiver, name, news, sent_ms)

    def _receiver(self, name: str) -> Receiver | None:
        return next((each for each in self.book.receivers() if each.name == name), None)

    def _told(self, outcome: str, notification: Notification, reason: str) -> None:
        """Note what became of a notification."""
        row = {
            "at_ms": self._runtime.clock.now_ms(),
            "event": outcome,
            "receiver": notification.receiver.name,
            "rule": notification.rule.name,
            "alerts": len(notification.firing) + len(notification.resolved),
            "notice_ms": notification.at_ms,
        }
        self.history.note([{**row, "reason": reason} if outcome == NOT_SENT else row])


def begin_silence(book: Book, given: Row, by: str, now_ms: int, name: str | None = None) -> Silence:
    """A silence from now on, under a new name if none is given."""
    return book.put_silence(Silence.begin(given, name or secrets.token_hex(4), by, now_ms))


def test_notification(receiver: Receiver, now_ms: int) -> Notification:
    """What a receiver is told to see whether it can be."""
    rule: AlertRuleSettings = next(iter(DEFAULTS.values()))
    return Notification(receiver, rule, now_ms, (), (), test=True)


def _event_row(event: AlertEvent) -> Row:
    alert: Alert = event.alert
    row = alert.to_dict()
    wanted = ("rule", "vhost", "queue", "severity", "figure", "unit", "limit", "value", "worst", "since_ms")
    return {"at_ms": event.at_ms, "event": event.state, **{name: row[name] for name in wanted}}


def _silence_row(event: str, silence: Silence, now_ms: int) -> Row:
    return {"at_ms": now_ms, "event": event, "silence": silence.name, "rule": silence.rule, "by": silence.by}


def _log_event(event: AlertEvent) -> None:
    """Say in the log what changed."""
    rule, vhost, queue = event.alert.key
    facts = {"rule": rule, "vhost": vhost, "queue": queue, "value": event.alert.value}
    if event.state == FIRING:
        LOG.warning("alert firing", **facts)
    else:
        LOG.info("alert resolved", **facts)


EVENTS_MAX = 5_000  # in memory: as many as there may be alerts, so that each that is firing can be found again
SENT, NOT_SENT, SILENCED, UNSILENCED = "sent", "not sent", "silenced", "unsilenced"
NAME = "alerts"

LOG = Log("alerts")


class AlertHistory:
    """The events of one server."""

    def __init__(self, directory: str | None = None, *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._file = RowFile(directory, NAME, LOG, file_bytes_max)
        self._events: deque[Row] = deque(self._file.read(EVENTS_MAX), EVENTS_MAX)

    def note(self, rows: Iterable[Row]) -> None:
        """Some events, written together."""
        fresh = list(rows)
        self._events.extend(fresh)
        self._file.append(fresh)

    def recent(self, limit: int = 100, vhosts: frozenset[str] | None = None) -> list[Row]:
        """The last events, the newest first; of some virtual hosts, and of none in particular."""
        found: list[Row] = []
        for row in reversed(self._events):
            if len(found) >= limit:
                break
            if vhosts is None or row.get("vhost") is None or row["vhost"] in vhosts:
                found.append(row)
        return found

    def last_events(self) -> dict[Key, Row]:
        """Of each alert whether it was firing or resolved last, and since when it had been firing (`fired_ms`)."""
        last: dict[Key, Row] = {}
        for row in self._events:
            if row.get("event") in (FIRING, RESOLVED) and _has_numbers(row, "since_ms", "value", "at_ms"):
                key = str(row.get("rule")), str(row.get("vhost")), str(row.get("queue"))
                fired = row if row["event"] == FIRING or key not in last else last[key]
                last[key] = {**row, "fired_ms": fired.get("fired_ms", fired["at_ms"])}
        return last

    def told(self) -> dict[tuple[str, str], int]:
        """The time of the last notification about a rule that a receiver took, by receiver and rule."""
        return {
            (str(row.get("receiver")), str(row.get("rule"))): row["notice_ms"]
            for row in self._events
            if row.get("event") == SENT and _has_numbers(row, "notice_ms")
        }


def _has_numbers(row: Row, *names: str) -> bool:
    """Whether a row says what it should: a file can be changed by others."""
    return all(type(row.get(name)) in (int, float) for name in names)
