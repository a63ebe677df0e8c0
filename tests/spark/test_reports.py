"""The tables of a report, on literal rows whose figures can be counted by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from leveret.core.errors import InvalidArgument, NotFound
from leveret.observability.alert_rules import RULES
from leveret.spark.columns import spark_schema
from leveret.spark.events import EVENTS
from leveret.spark.lifecycle import lifecycle
from leveret.spark.report import depth
from leveret.spark.report.comparison import compared
from leveret.spark.report.depth import oldest_periods
from leveret.spark.report.findings import QUEUES_SHOWN_MAX, gather, rows_of
from leveret.spark.report.period import PERIODS_MAX, span
from leveret.spark.report.service import Objective
from leveret.spark.report.streams import StreamLag, commit_times, lags
from leveret.spark.report.tables import Sources, alerts, extent, make
from tests.protocols.metrics.scene import scrape
from tests.server_process import ServerProcess
from tests.spark.history import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MINUTE_MS = 60_000
AGREED = Objective(5 * MINUTE_MS, 0.9)
TAGS = (
    "vhost string, queue string, queue_id bigint, seq bigint, "
    "x_death array<struct<queue:string,reason:string,exchange:string,count:bigint,time:timestamp>>, tenant string"
)
Table = list[dict[str, Any]]


def life(seq: int, minute: float, queue: str = "orders", priority: int = 0, **what: Any) -> list[dict[str, Any]]:
    """The events of a message: published at a minute, delivered and ended at others; given back before, perhaps."""
    known = {"vhost": "/", "queue": queue, "queue_id": len(queue), "seq": seq}
    rows = [{"event": "published", "at": at(minute * 60), "enqueued_at": at(minute * 60), "priority": priority}]
    rows[0]["bytes"] = 100
    deliveries = 0
    for taken, given_back in what.get("returned", ()):
        deliveries += 1
        rows += [
            {"event": "delivered", "at": at(taken * 60), "deliveries": deliveries, "consumer": "first"},
            {
                "event": "returned", "at": at(given_back * 60), "reason": "nacked", "consumer": "first",
                "held_ms": int((given_back - taken) * MINUTE_MS),
            },
        ]  # fmt: skip
    if "taken" in what:
        deliveries += 1
        rows.append(
            {"event": "delivered", "at": at(what["taken"] * 60), "deliveries": deliveries, "consumer": "second"}
        )
    if "ended" in what:
        rows.append({"event": "settled", "at": at(what["ended"] * 60), "reason": what.get("how", "acked")})
        if "taken" in what:
            held_ms = int((what["ended"] - what["taken"]) * MINUTE_MS)
            rows[-1] |= {"held_ms": held_ms, "consumer": "second", "deliveries": deliveries}
    return [dict.fromkeys(EVENTS) | known | row for row in rows]


def history() -> Table:
    """Six orders in three hours, mails of which the unimportant wait, and a dead letter that nobody looks at."""
    return [
        *life(1, 0, taken=1, ended=2),
        *life(2, 1, returned=[(2, 3)], taken=4, ended=6),
        *life(3, 2, taken=3, ended=70, how="rejected"),
        *life(4, 61, ended=130, how="expired"),
        *life(5, 121, taken=122, ended=123),
        *life(6, 130),
        *life(1, 0, "mails", 5, taken=1 / 60, ended=1),
        *life(2, 0, "mails", 0, taken=30, ended=31),
        *life(7, 0, "dead"),
        *life(1, 0, "exports", 0, taken=3, ended=4),
        *life(2, 0, "exports", 1),
    ]


def tags(spark: SparkSession) -> DataFrame:
    """Orders of two tenants; one message lies among the dead."""
    death = [("orders", "rejected", "", 1, at(0))]
    rows = [
        ("/", "orders", len("orders"), 1, None, "acorn"),
        ("/", "orders", len("orders"), 2, None, "birch"),
        ("/", "orders", len("orders"), 3, None, "birch"),
        ("/", "dead", len("dead"), 7, death, None),
    ]
    return spark.createDataFrame(rows, TAGS)


def frame(spark: SparkSession, rows: Table) -> DataFrame:
    """Rows as a table of events."""
    return spark.createDataFrame([tuple(row.values()) for row in rows], spark_schema(EVENTS)).coalesce(1)


def made(spark: SparkSession, rows: Table, tagged: DataFrame | None = None) -> dict[str, Table]:
    """Every table, by the hour; messages should be done within five minutes."""
    sources = Sources(frame(spark, rows), None if tagged is None else tagged.coalesce(1))
    _, found = make(sources, lambda name, table: table.localCheckpoint(), "hour", AGREED)
    return {name: rows_of(table) for name, table in found.items()}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, Table]:
    return made(spark, history(), tags(spark))


def told(table: Table, *columns: str, queue: str = "orders", by: str = "period") -> list[tuple[Any, ...]]:
    """Some columns of the rows of a queue, times as a number of hours since the start."""
    rows = sorted((row for row in table if row["queue"] == queue), key=lambda row: row[by])
    return [tuple(_hours(row[name]) if name == "period" else row[name] for name in columns) for row in rows]


def _hours(moment: datetime) -> int:
    return int((moment - at(0)).total_seconds()) // 3600


def test_counts_of_what_happened_in_each_hour(tables: dict[str, Table]) -> None:
    found = told(tables["history"], "period", "published", "delivered", "returned", "acked", "failed", "dead")
    assert found == [(0, 3, 4, 1, 2, 1, None), (1, 1, 0, 0, 0, 1, 1), (2, 2, 1, 0, 1, 0, 1)]


def test_depth_is_followed_within_hours(tables: dict[str, Table]) -> None:
    found = told(tables["history"], "period", "entered", "left", "depth_end", "depth_max", "waiting_max")
    assert found == [(0, 3, 2, 1, 2, 1), (1, 1, 1, 1, 2, 1), (2, 2, 2, 1, 2, 2)]


def test_the_average_depth_is_over_time(tables: dict[str, Table]) -> None:
    # One message until 1, two until 6, and one to the end of the hour.
    found = told(tables["history"], "depth_avg")
    assert found[0] == (pytest.approx((1 * 1 + 2 * 5 + 1 * 54) / 60),)


def test_ages_and_idle_times_reach_over_hours(tables: dict[str, Table]) -> None:
    found = told(tables["history"], "period", "oldest_ms", "idle_ms")
    # Order 3 lives from 2 to 70; order 4 waits from 61 until order 5 is taken at 122, and dies at 130.
    assert found == [
        (0, 58 * MINUTE_MS, MINUTE_MS),
        (1, 68 * MINUTE_MS, 59 * MINUTE_MS),
        (2, 69 * MINUTE_MS, 61 * MINUTE_MS),
    ]


def test_times_are_of_the_messages_that_came_in_the_hour(tables: dict[str, Table]) -> None:
    found = told(tables["history"], "messages", "waiting_p50_ms", "processing_p99_ms", "redelivered_share")
    assert found == [
        (3, float(MINUTE_MS), pytest.approx((3 + 64 * 0.98) * MINUTE_MS), pytest.approx(1 / 3)),
        (1, None, None, None),
        (2, float(MINUTE_MS), float(MINUTE_MS), 0.0),
    ]


def test_compliance_leaves_out_what_is_still_in_time(tables: dict[str, Table]) -> None:
    found = told(tables["history"], "judged", "in_time", "in_time_share")
    assert found == [(3, 2, pytest.approx(2 / 3)), (1, 0, 0.0), (1, 1, 1.0)]


def test_a_queue_has_its_figures_over_all_of_the_time(tables: dict[str, Table]) -> None:
    (row,) = [row for row in tables["queues"] if row["queue"] == "orders"]
    expected = {"messages": 6, "acked": 3, "dead": 2, "open": 1, "oldest_at": at(130 * 60), "oldest_open_ms": 0}
    assert {name: row[name] for name in expected} == expected
    assert row["error_share"] == pytest.approx(2 / 5)


def test_dead_letters_by_reason_and_by_origin(tables: dict[str, Table]) -> None:
    assert told(tables["dead_letters"], "period", "reason", "dead") == [(1, "rejected", 1), (2, "expired", 1)]
    assert told(tables["origins"], "origin", "reason", "messages", queue="dead", by="origin") == [
        ("orders", "rejected", 1)
    ]


def test_consumers_by_what_became_of_their_messages(tables: dict[str, Table]) -> None:
    found = told(tables["consumers"], "consumer", "acked", "returned", "failed", "held_p50_ms", by="consumer")
    assert found == [("first", 0, 1, 0, float(MINUTE_MS)), ("second", 3, 0, 1, 1.5 * MINUTE_MS)]


def test_a_priority_that_waits_far_longer_than_the_highest_is_starved(tables: dict[str, Table]) -> None:
    found = told(tables["priorities"], "priority", "waiting_p95_ms", "starved", queue="mails", by="priority")
    assert found == [(0, 30.0 * MINUTE_MS, True), (5, 1000.0, False)]
    # Nobody took the more important one: the other one did not wait for it.
    found = told(tables["priorities"], "priority", "starved", queue="exports", by="priority")
    assert found == [(0, False), (1, False)]


def test_fairness_to_tenants_is_jains_index(tables: dict[str, Table]) -> None:
    (row,) = tables["fairness"]
    assert (row["queue"], row["tenants"], row["messages"]) == ("orders", 2, 3)
    assert row["waiting_fairness"] == pytest.approx(1.0)
    assert row["load_fairness"] == pytest.approx(3**2 / (2 * (1**2 + 2**2)))


def test_alerts_name_what_was_worst_and_when(tables: dict[str, Table]) -> None:
    found = {
        (row["rule"], row["queue"]): (row["periods"], row["worst"], _hours(row["worst_at"])) for row in tables["alerts"]
    }
    assert found == {
        ("message_age", "exports"): (3, 130.0 * MINUTE_MS, 2),
        ("message_age", "mails"): (1, 31.0 * MINUTE_MS, 0),
        ("message_age", "orders"): (3, 69.0 * MINUTE_MS, 2),
        ("no_consumers", "exports"): (3, 127.0 * MINUTE_MS, 2),
        ("no_consumers", "mails"): (1, 30.0 * MINUTE_MS, 0),
        ("no_consumers", "orders"): (2, 61.0 * MINUTE_MS, 2),
        ("processing_time", "exports"): (1, float(MINUTE_MS), 0),
        ("processing_time", "mails"): (1, pytest.approx(60_000, rel=0.02), 0),
        ("processing_time", "orders"): (2, pytest.approx(60.6 * MINUTE_MS, rel=0.02), 0),
    }


def test_dead_letters_that_nobody_looks_at_are_not_late(tables: dict[str, Table]) -> None:
    (row,) = [row for row in tables["queues"] if row["queue"] == "dead"]
    assert (row["messages"], row["open"], row["judged"], row["in_time_share"]) == (1, 1, 0, None)
    assert told(tables["history"], "in_time_share", queue="dead")[0] == (None,)


def test_a_share_of_few_deliveries_is_no_reason_for_an_alert(spark: SparkSession) -> None:
    figures = sorted({rule.figure for rule in RULES} | {"ended"})
    rule = next(rule for rule in RULES if rule.name == "error_rate")
    known = [("/", name, at(0), *({"ended": ended, "error_share": 0.5}.get(each, 0.0) for each in figures))
             for name, ended in (("few", rule.sample_min - 1.0), ("many", float(rule.sample_min)))]  # fmt: skip
    columns = ", ".join(f"{each} double" for each in figures)
    history = spark.createDataFrame(known, f"vhost string, queue string, period timestamp, {columns}")
    assert [(row["rule"], row["queue"]) for row in alerts(history, None).collect()] == [("error_rate", "many")]


def test_plots_have_every_period_of_all_queues(spark: SparkSession) -> None:
    minutes, queues = 1_100, 3
    rows = [
        row
        for minute in range(minutes)
        for queue in range(queues if minute % 50 == 0 else 1)
        for row in life(minute + 1, minute, f"queue {queue}", ended=minute, how="expired")
    ]
    kept: dict[str, DataFrame] = {}
    sources = Sources(frame(spark, rows), None)
    covered, _ = make(sources, lambda name, table: kept.setdefault(name, table.localCheckpoint()), "minute", AGREED)
    found = gather(covered, AGREED, kept)
    for table, figure in (("totals", "published"), ("deaths", "dead")):
        told = found.over_time(found.of(table), figure)
        assert told == [queues if minute % 50 == 0 else 1 for minute in range(minutes)]


def test_queues_are_shown_by_trouble_and_depth_not_by_volume(spark: SparkSession) -> None:
    """Many queues with much traffic are well; one with a single message is not, and a deep one has few of them."""
    busy = [
        row
        for queue in range(QUEUES_SHOWN_MAX + 1)
        for seq in range(1, 5)
        for row in life(seq, seq, f"busy {queue:02}", taken=seq + 0.01, ended=seq + 0.02)
    ]
    deep = [row for seq in range(1, 4) for row in life(seq, 3, "deep", taken=3.1, ended=3.2)]
    bad = life(1, 1, "bad", taken=9, ended=20)
    kept: dict[str, DataFrame] = {}
    sources = Sources(frame(spark, [*busy, *deep, *bad]), None)
    covered, _ = make(sources, lambda name, table: kept.setdefault(name, table.localCheckpoint()), "hour", AGREED)
    found = gather(covered, AGREED, kept)
    assert (found.queues[0]["queue"], found.queues[0]["critical"], found.queues[0]["warnings"]) == ("bad", 1, 2)
    assert all(row["critical"] == row["warnings"] == 0 for row in found.queues[1:])
    assert "deep" not in [row["queue"] for row in found.queues]
    assert found.deepest[0]["queue"] == "deep"
    assert {row["queue"] for row in found.history} == {row["queue"] for row in found.deepest}


def test_what_dies_where_no_dead_letters_are_kept_is_discarded(spark: SparkSession) -> None:
    rule = next(rule for rule in RULES if rule.name == "dead_letters")
    rows = []
    for queue, kept in (("kept", True), ("lost", False), ("unknown", None)):
        told = [row for seq in range(int(rule.limit) + 1) for row in life(seq, 1, queue, ended=2, how="expired")]
        rows += [{**row, "dead_lettered": kept} if row["event"] == "settled" else row for row in told]
    found = made(spark, rows)
    counts = {row["queue"]: (row["dead"], row["discarded"]) for row in found["queues"]}
    many = int(rule.limit) + 1
    assert counts == {"kept": (many, 0), "lost": (0, many), "unknown": (many, 0)}
    assert {row["queue"] for row in found["alerts"] if row["rule"] == rule.name} == {"kept", "unknown"}


def test_the_outlook_is_a_line_through_the_periods(spark: SparkSession) -> None:
    """Each hour 60 messages come and 40 are done, each held for a minute: a backlog that grows by 20 an hour."""
    rows = []
    for hour in range(6):
        for number in range(60):
            minute = hour * 60 + number
            done: dict[str, Any] = {"taken": minute + 0.5, "ended": minute + 1.5} if number % 3 else {}
            rows += life(hour * 60 + number + 1, minute, **done)
    (found,) = made(spark, rows)["outlook"]
    assert found["depth_per_hour"] == pytest.approx(20, rel=0.1)
    assert found["depth_fit"] > 0.99
    assert found["depth_1d"] == pytest.approx(120 + 24 * 20, rel=0.1)
    assert found["full_in_h"] == pytest.approx((10_000 - 120) / 20, rel=0.1)
    assert found["log_bytes_per_day"] == pytest.approx(24 * 60 * (100 + 120), rel=0.01)
    assert found["log_bytes_30d"] == pytest.approx(30 * 24 * 60 * (100 + 120), rel=0.05)
    # One a minute, held for a minute, by consumers that are busy for 70 %.
    assert found["consumers_needed"] == 2


def test_a_queue_was_not_served_while_messages_waited_for_a_consumer(spark: SparkSession) -> None:
    rows = [*life(1, 0, taken=1, ended=2), *life(2, 10, taken=25, ended=30), *life(3, 60, taken=60, ended=60)]
    (found,) = made(spark, rows)["queues"]
    assert found["available_share"] == pytest.approx(1 - 15 / 60)


def test_what_is_open_now_is_older_than_at_the_last_event(spark: SparkSession) -> None:
    sources = Sources(frame(spark, life(1, 0)), None, at(1800))
    _, found = make(sources, lambda name, table: table.localCheckpoint(), "minute", AGREED)
    (row,) = rows_of(found["queues"])
    assert (row["oldest_open_ms"], row["depth_end"]) == (30 * MINUTE_MS, 1)
    assert (row["available_share"], row["critical"]) == (0, 1)


def test_two_periods_stand_beside_each_other(spark: SparkSession) -> None:
    histories = (
        [*life(1, 0, taken=1, ended=2), *life(2, 30, taken=50, ended=60)],
        [*life(1, 0, taken=1, ended=2), *life(2, 0, "gone", ended=30, how="expired")],
    )
    (now, span_now), (before, earlier) = (
        (found["queues"], covered)
        for covered, found in (
            make(Sources(frame(spark, rows), None), lambda name, table: table.localCheckpoint(), "hour", AGREED)
            for rows in histories
        )
    )
    found = {row["queue"]: row for row in rows_of(compared(now, span_now, before, earlier))}
    orders, gone = found["orders"], found["gone"]
    assert (orders["messages_per_hour_before"], orders["messages_per_hour"]) == (2, 2)
    assert (orders["waiting_p95_ms_before"], orders["waiting_p95_ms"]) == (MINUTE_MS, pytest.approx(19.05 * MINUTE_MS))
    assert (gone["dead_per_hour_before"], gone["dead_per_hour"]) == (2, None)


def test_what_was_given_back_waits_again_once_it_is_due(spark: SparkSession) -> None:
    """Given back after a minute for an hour from then on, taken again later; another one is purged while it waits."""
    rows = life(1, 0, returned=[(1, 2)], taken=180, ended=181) + life(2, 0, returned=[(1, 2), (30, 31)])
    for row in rows:
        if row["event"] == "returned":
            row["deliveries"] = 2 if row["at"] == at(31 * 60) else 1
            # The journal has the time of the commit, which is after the next delivery here.
            row["at"], row["due_at"] = at(31 * 60), at(62 * 60) if row["seq"] == 1 else None
    purge = {"event": "purged", "at": at(100 * 60), "vhost": "/", "queue": "orders", "queue_id": 6, "seq": 3}
    rows += [dict.fromkeys(EVENTS) | purge, *life(3, 0, taken=0, ended=0), *life(4, 300, taken=300, ended=300)]
    found = told(made(spark, rows)["history"], "period", "waiting_max")
    # The second one waits from its second return on, until it is purged; the first one from 62 to 180.
    assert found == [(0, 2), (1, 2), (2, 1), (3, 0), (4, 0), (5, 0)]


def test_what_was_never_delivered_has_no_processing_time(spark: SparkSession) -> None:
    rows = [*life(1, 0, taken=1, ended=2), *life(2, 0, ended=1, how="expired"), *life(3, 0, ended=1, how="expired")]
    # The journal says 0 ms of what no consumer held.
    rows = [{**row, "held_ms": 0} if row["reason"] == "expired" else row for row in rows]
    (row,) = made(spark, rows)["queues"]
    assert (row["processing_p50_ms"], row["processing_p99_ms"]) == (float(MINUTE_MS), float(MINUTE_MS))


def test_times_of_a_second_and_more_are_right_to_half_a_percent(spark: SparkSession) -> None:
    seconds = [0.001, 0.999, 1.2344, 12.3456, 4_000, 90_061.5]
    rows = [row for seq, each in enumerate(seconds, 1) for row in life(seq, 0, str(seq), taken=each / 60)]
    found = {row["queue"]: row["waiting_p99_ms"] for row in made(spark, rows)["queues"]}
    assert [found[str(seq)] for seq in (1, 2)] == [1.0, 999.0]
    assert [found[str(seq)] for seq, _ in enumerate(seconds, 1)] == pytest.approx(
        [each * 1000 for each in seconds], rel=0.005
    )


def test_dead_letters_that_are_looked_at_are_not_judged(spark: SparkSession) -> None:
    rows = [*life(1, 0, taken=1, ended=2), *life(7, 0, "dead", taken=60, ended=61)]
    found = {row["queue"]: row["judged"] for row in made(spark, rows, tags(spark))["queues"]}
    assert found == {"orders": 1, "dead": 0}


def test_long_lives_are_not_told_once_for_each_period(spark: SparkSession) -> None:
    """Each message lives through most of the periods, and none as long as another."""
    count = 400
    rows = [row for seq in range(1, count + 1) for row in life(seq, seq, ended=2 * count - seq)]
    lives = lifecycle(frame(spark, rows))
    covered = extent(lives, "minute")
    found = depth.ages(lives, covered).orderBy("period")
    told = oldest_periods(lives, covered).agg(F.sum(F.size("periods"))).head()
    assert told is not None
    assert told[0] <= len(covered.starts())
    ages = [row["oldest_ms"] for row in rows_of(found)]
    # The first message is the oldest one until it goes last; at the end of each minute it is a minute older.
    assert ages == [min(minute, 2 * count - 2) * MINUTE_MS for minute in range(1, len(ages) + 1)]


def test_every_rule_looks_at_a_figure_of_the_history(tables: dict[str, Table]) -> None:
    assert {rule.figure for rule in RULES} <= tables["history"][0].keys()
    assert {rule.sample for rule in RULES if rule.sample} <= tables["history"][0].keys()


def test_a_report_about_nothing_is_refused(spark: SparkSession, tables: dict[str, Table]) -> None:
    lives = spark.createDataFrame([], "enqueued_at timestamp, first_delivered_at timestamp, settled_at timestamp")
    with pytest.raises(NotFound, match="no message"):
        extent(lives, None)


@pytest.mark.parametrize(("hours", "period"), [(0.01, "second"), (1, "minute"), (24, "hour"), (24 * 14, "day")])
def test_the_period_follows_from_the_length_of_the_time(hours: float, period: str) -> None:
    assert span(at(0), at(hours * 3600), None).period == period


def test_periods_are_known_and_not_too_many() -> None:
    with pytest.raises(InvalidArgument, match="second, minute, hour, day"):
        span(at(0), at(1), "week")
    with pytest.raises(InvalidArgument, match="give a longer period"):
        span(at(0), at(PERIODS_MAX + 1), "second")


def test_a_span_knows_its_periods() -> None:
    found = span(datetime(2026, 1, 1, 12, 30, tzinfo=UTC), datetime(2026, 1, 1, 14, 0, tzinfo=UTC), "hour")
    assert [start.hour for start in found.starts()] == [12, 13, 14]


def test_the_lag_of_groups_is_that_of_the_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        clicks = client.stream("clicks", partitions=2)
        clicks.send_many([b"click"] * 30)
        client.stream("audit").send_many([b"entry"] * 3)
        for name, offsets in (("billing", {0: 5, 1: 10}), ("search", {})):
            group = clicks.group(name)
            group.commit("worker", group.join("worker").generation, offsets)
        assert lags(server.http_url) == [
            StreamLag("clicks", 30, "search", 30, False),
            StreamLag("clicks", 30, "billing", 15, False),
            StreamLag("audit", 3, None, None, False),
        ]
        for _ in range(10):
            clicks.send_many([b"click"] * 100)
        found = {row.group: row for row in lags(server.http_url) if row.group is not None}
        assert {name: (row.lag, row.warning) for name, row in found.items()} == {
            "search": (1_030, True),
            "billing": (1_015, True),
        }
        times = commit_times(server.http_url)
        assert times is not None
        assert times.commits > 10
        assert 0 < times.p50_ms <= times.p95_ms <= times.p99_ms
        # What is scraped, and alerts are about, is the same.
        seen = scrape(server, "/metrics/per-object")
        for name, row in found.items():
            assert seen.value("leveret_stream_group_lag", vhost="/", stream="clicks", group=name) == row.lag
