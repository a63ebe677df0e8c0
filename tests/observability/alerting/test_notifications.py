"""Who is told what and when: grouped, repeated, silenced, by receivers that want it."""

from typing import Any

from leveret.observability.alerting.engine import FIRING, Alert, AlertEngine, AlertEvent
from leveret.observability.alerting.notifications import Notification, Notifications
from leveret.observability.alerting.receivers import Receiver
from leveret.observability.alerting.rules import AlertRuleSettings

MINUTE_MS = 60_000


def receiver(name: str = "ops", **fields: Any) -> Receiver:
    return Receiver.from_dict({"name": name, "kind": "webhook", "url": "https://example.org/hook", **fields})


class Scene:
    """An engine whose alerts are set by hand, and what is sent."""

    def __init__(self, *receivers: Receiver) -> None:
        self.receivers = list(receivers or [receiver()])
        self.engine = AlertEngine()
        self.notifications = Notifications()

    def turn(self, now_ms: int, *queues: str, silenced: tuple[str, ...] = (), rule: str = "deep") -> list[str]:
        """These queues are in a bad way; say what is sent to whom."""
        about = AlertRuleSettings.from_dict({"name": rule, "figure": "waiting_max", "limit": 1, "severity": "warning"})
        for queue in queues:
            self.engine.judge(about, "/", queue, 2, now_ms)
        events: list[AlertEvent] = self.engine.finish(now_ms)
        due = self.notifications.due(
            self.receivers, self.engine.firing(), events, now_ms, lambda key: key[2] in silenced
        )
        return [shown(notification) for notification in due]


def shown(notification: Notification) -> str:
    firing, resolved = (
        ",".join(alert.key[2] for alert in each) for each in (notification.firing, notification.resolved)
    )
    return f"{notification.receiver.name} {notification.status} +{firing} -{resolved}"


def test_what_begins_together_is_told_together() -> None:
    assert Scene().turn(0, "a", "b") == ["ops firing +a,b -"]


def test_a_notice_says_what_was_so_when_it_was_made() -> None:
    scene = Scene()
    about = AlertRuleSettings.from_dict({"name": "deep", "figure": "waiting_max", "limit": 1})
    scene.engine.judge(about, "/", "a", 2, 0)
    events = scene.engine.finish(0)
    (notification,) = scene.notifications.due(scene.receivers, scene.engine.firing(), events, 0, lambda key: False)
    scene.engine.judge(about, "/", "a", 500, 1_000)
    scene.engine.finish(1_000)
    scene.engine.finish(2_000)
    assert [(alert.state, alert.value) for alert in notification.firing] == [("firing", 2)]


def test_what_comes_later_waits_for_the_group() -> None:
    scene = Scene(receiver(group_s=60))
    scene.turn(0, "a")
    assert scene.turn(20_000, "a", "b") == []
    assert scene.turn(40_000, "b", "c") == []
    assert scene.turn(60_000, "b", "c") == ["ops firing +b,c -a"]


def test_the_end_is_told_once() -> None:
    scene = Scene(receiver(group_s=0))
    scene.turn(0, "a")
    assert scene.turn(1_000) == ["ops resolved + -a"]
    assert scene.turn(2_000) == []


def test_what_flaps_is_not_told_more_often_than_its_group() -> None:
    scene = Scene(receiver(group_s=60))
    told = [scene.turn(second * 1_000, *(["a"] if second % 2 == 0 else [])) for second in range(121)]
    assert [(second, notifications) for second, notifications in enumerate(told) if notifications] == [
        (0, ["ops firing +a -"]),
        (61, ["ops resolved + -a"]),
    ]


def test_what_goes_on_is_told_again() -> None:
    scene = Scene(receiver(repeat_s=3600))
    told = [scene.turn(minute * MINUTE_MS, "a") for minute in range(121)]
    assert [minute for minute, notifications in enumerate(told) if notifications] == [0, 60, 120]


def test_what_is_silenced_is_not_told_nor_its_end() -> None:
    scene = Scene(receiver(group_s=0))
    assert scene.turn(0, "a", silenced=("a",)) == []
    assert scene.turn(1_000) == []


def test_who_was_told_before_a_silence_hears_the_end_after_it() -> None:
    scene = Scene(receiver(group_s=0))
    scene.turn(0, "a", "b")
    assert scene.turn(1_000, "a", "b", silenced=("a", "b")) == []
    assert scene.turn(2_000, "a", silenced=("a",)) == ["ops resolved + -b"]
    assert scene.turn(3_000, silenced=("a",)) == []
    assert scene.turn(4_000) == ["ops resolved + -a"]
    assert scene.turn(5_000) == []


def test_what_has_begun_again_during_a_silence_has_not_ended() -> None:
    scene = Scene(receiver(group_s=0))
    scene.turn(0, "a")
    assert scene.turn(1_000, silenced=("a",)) == []
    assert scene.turn(2_000, "a", silenced=("a",)) == []
    assert scene.turn(3_000, "a") == ["ops firing +a -"]
    assert scene.turn(4_000) == ["ops resolved + -a"]


def test_what_still_fires_after_a_silence_is_told_again() -> None:
    scene = Scene(receiver(group_s=60, repeat_s=3600))
    scene.turn(0, "a")
    assert scene.turn(1_000, "a", silenced=("a",)) == []
    assert scene.turn(2_000, "a") == []
    assert scene.turn(60_000, "a") == ["ops firing +a -"]
    assert scene.turn(120_000, "a") == []


def test_a_queue_that_has_moved_is_not_told_to_be_well() -> None:
    scene = Scene(receiver(group_s=0))
    scene.turn(0, "a", "b")
    scene.turn(1_000, "a", "b", silenced=("b",))
    scene.engine.finish(2_000, lambda vhost, queue: True)
    assert scene.turn(3_000) == []
    assert scene.turn(4_000, "a", "b") == ["ops firing +a,b -"]


def test_what_is_no_longer_silenced_is_told() -> None:
    scene = Scene(receiver(group_s=0))
    scene.turn(0, "a", silenced=("a",))
    assert scene.turn(1_000, "a") == ["ops firing +a -"]


def test_receivers_get_the_rules_and_severities_that_they_want() -> None:
    scene = Scene(receiver("all"), receiver("deep", rules=["de*"]), receiver("grave", severity_min="critical"))
    assert scene.turn(0, "a") == ["all firing +a -", "deep firing +a -"]
    assert scene.turn(0, "a", rule="old") == ["all firing +a -"]


def test_a_receiver_that_comes_later_is_told_what_is_firing() -> None:
    scene = Scene()
    scene.turn(0, "a")
    scene.receivers.append(receiver("late"))
    assert scene.turn(1_000, "a") == ["late firing +a -"]


def test_a_receiver_that_was_deleted_and_made_again_begins_anew() -> None:
    scene = Scene()
    scene.turn(0, "a")
    kept, scene.receivers = scene.receivers, []
    scene.turn(1_000, "a")
    scene.receivers = kept
    assert scene.turn(2_000, "a") == ["ops firing +a -"]


def test_what_was_told_before_a_restart_is_not_told_again_but_the_rest_is() -> None:
    scene = Scene(receiver(group_s=0))
    about = AlertRuleSettings.from_dict({"name": "deep", "figure": "waiting_max", "limit": 1})
    for queue, since_ms in (("a", 1_000), ("b", 5_000)):
        row = {"event": FIRING, "since_ms": since_ms, "fired_ms": since_ms, "value": 2}
        scene.engine.restore(Alert.of_row(("deep", "/", queue), about, row), 5_500)
    scene.notifications.restore("ops", "deep", scene.engine.firing(), 3_000)
    assert scene.turn(6_000, "a", "b") == ["ops firing +a,b -"]
    assert scene.turn(7_000) == ["ops resolved + -a,b"]
