"""Notices for tests."""

from typing import Any

from leveret.observability.alerting.engine import Alert, AlertEngine
from leveret.observability.alerting.notifications import Notification
from leveret.observability.alerting.receivers import Receiver
from leveret.observability.alerting.rules import AlertRuleSettings

NOW_MS = 1_700_000_000_000
DEEP = AlertRuleSettings.from_dict(
    {"name": "deep", "figure": "waiting_max", "limit": 10_000, "severity": "critical", "says": "too many"}
)


def alerts(*queues: str) -> tuple[Alert, ...]:
    """Alerts that are firing."""
    engine = AlertEngine()
    for queue in queues:
        engine.judge(DEEP, "/", queue, 12_345, NOW_MS)
    engine.finish(NOW_MS)
    return tuple(engine.firing())


def notification(*queues: str, **receiver: Any) -> Notification:
    """A notice about queues, by webhook if nothing else is said."""
    base = {"name": "ops", "kind": "webhook"}
    return Notification(Receiver.from_dict({**base, **receiver}), DEEP, NOW_MS, alerts(*(queues or ("orders",))), ())
