"""States of alerts: pending, firing, gone; around the limit; when queues and rules go; never more than can be kept."""

from hypothesis import given
from hypothesis import strategies as st

from leveret.observability.alerting import engine as engines
from leveret.observability.alerting.engine import FIRING, PENDING, RESOLVED, Alert, AlertEngine, AlertEvent, worst_first
from leveret.observability.alerting.rules import AlertRuleSettings

MINUTE_MS = 60_000


def rule(name: str = "deep", **fields: object) -> AlertRuleSettings:
    return AlertRuleSettings.from_dict(
        {"name": name, "figure": "waiting_max", "limit": 100, "clear": 80, "for_s": 60, **fields}
    )


def turn(engine: AlertEngine, now_ms: int, *values: float, about: AlertRuleSettings | None = None) -> list[str]:
    """Judge one queue after the other; say what changed."""
    for index, value in enumerate(values):
        engine.judge(about or rule(), "/", f"q{index}", value, now_ms)
    return [f"{event.state} {event.alert.key[2]}" for event in engine.finish(now_ms)]


def restored(queue: str) -> Alert:
    """An alert of the last process, which had fired."""
    row = {"event": FIRING, "since_ms": 5, "fired_ms": 5, "value": 200}
    return Alert.of_row(("deep", "/", queue), rule(), row)


def states(engine: AlertEngine) -> dict[str, str]:
    return {alert.key[2]: alert.state for alert in engine.alerts.values()}


def test_an_alert_fires_when_it_has_lasted_long_enough() -> None:
    engine = AlertEngine()
    assert turn(engine, 0, 101) == []
    assert states(engine) == {"q0": PENDING}
    assert turn(engine, MINUTE_MS - 1, 150) == []
    assert turn(engine, MINUTE_MS, 120) == ["firing q0"]
    assert [(alert.value, alert.worst, alert.since_ms) for alert in engine.firing()] == [(120, 150, 0)]


def test_what_is_at_the_limit_is_not_over_it() -> None:
    engine = AlertEngine()
    turn(engine, 0, 100)
    assert not engine.alerts


def test_what_ended_before_its_time_is_forgotten_and_begins_anew() -> None:
    engine = AlertEngine()
    turn(engine, 0, 101)
    turn(engine, MINUTE_MS - 1, 100)
    assert turn(engine, MINUTE_MS, 101) == []
    assert turn(engine, 2 * MINUTE_MS, 101) == ["firing q0"]


def test_what_goes_up_and_down_around_the_limit_is_one_alert() -> None:
    engine = AlertEngine()
    told = [turn(engine, minute * MINUTE_MS, value) for minute, value in enumerate([101, 101, 99, 81, 101, 80, 79])]
    assert told == [[], ["firing q0"], [], [], [], ["resolved q0"], []]


def test_without_a_time_it_fires_at_once() -> None:
    assert turn(AlertEngine(), 0, 101, about=rule(for_s=0)) == ["firing q0"]


def test_what_is_not_judged_any_more_is_over() -> None:
    engine = AlertEngine()
    turn(engine, 0, 101, 101, about=rule(for_s=0))
    assert turn(engine, 1, 101, about=rule(for_s=0)) == ["resolved q1"]
    assert turn(engine, 2) == ["resolved q0"]
    assert not engine.alerts


def test_an_alert_follows_its_rule() -> None:
    engine = AlertEngine()
    turn(engine, 0, 101, about=rule(for_s=0))
    turn(engine, 1, 101, about=rule(for_s=0, severity="critical"))
    (alert,) = engine.firing()
    assert alert.to_dict()["severity"] == "critical"


def test_what_was_firing_before_a_restart_is_no_news_unless_it_is_over() -> None:
    engine = AlertEngine()
    for queue in ("q0", "q1"):
        engine.restore(restored(queue), 6)
    assert turn(engine, 10, 150) == ["resolved q1"]
    assert states(engine) == {"q0": FIRING}


def test_what_was_restored_goes_on_until_its_figure_is_known() -> None:
    engine = AlertEngine()
    engine.restore(restored("q0"), 6)
    key = ("deep", "/", "q0")
    assert engine.finish(10, unknown={key}) == []
    assert states(engine) == {"q0": FIRING}
    assert [event.state for event in engine.finish(20)] == [RESOLVED]


def test_more_alerts_than_can_be_kept_are_counted() -> None:
    engine = AlertEngine()
    most = engines.ALERTS_MAX
    for number in range(most + 3):
        engine.judge(rule(for_s=0), "/", f"q{number}", 101, 0)
    assert len(engine.finish(0)) == most
    assert (len(engine.alerts), engine.left_out) == (most, 3)


def test_the_worst_come_first() -> None:
    engine = AlertEngine()
    engine.judge(rule("mild", for_s=0), "/", "a", 200, 0)
    engine.judge(rule("late", severity="critical"), "/", "b", 200, 1)
    engine.judge(rule("grave", for_s=0, severity="critical"), "/", "c", 200, 2)
    engine.finish(2)
    assert [alert.rule.name for alert in worst_first(engine.alerts.values())] == ["grave", "mild", "late"]


@given(st.lists(st.lists(st.integers(0, 200), max_size=4), max_size=30))
def test_every_end_has_a_beginning_and_nothing_begins_twice(turns: list[list[int]]) -> None:
    engine, firing = AlertEngine(), set[str]()
    for number, values in enumerate(turns):
        for index, value in enumerate(values):
            engine.judge(rule(for_s=2), "/", f"q{index}", value, number * 1_000)
        events: list[AlertEvent] = engine.finish(number * 1_000)
        for event in events:
            queue = event.alert.key[2]
            assert (event.state == RESOLVED) == (queue in firing)
            firing ^= {queue}
        assert firing == {alert.key[2] for alert in engine.firing()}
        assert all(alert.seen for alert in engine.alerts.values())
