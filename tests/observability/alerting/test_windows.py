"""Counts of the last minutes."""

from leveret.observability.alerting.figures import BucketWindow, Window

HOUR_MS = 3_600_000


def test_what_happened_within_the_time_counts_and_then_fades() -> None:
    window = Window(HOUR_MS, 0)
    window.add(100, 0)
    assert window.total(HOUR_MS - 1) == 100
    assert window.total(HOUR_MS + HOUR_MS // 2) == 50
    assert window.total(2 * HOUR_MS) == 0


def test_a_steady_stream_is_counted_as_what_comes_in_the_time() -> None:
    window = Window(HOUR_MS, 0)
    totals = []
    for minute in range(1, 300):
        window.add(10, minute * 60_000)
        totals.append(window.total(minute * 60_000))
    assert all(590 <= total <= 610 for total in totals[60:])


def test_after_a_long_silence_nothing_is_left() -> None:
    window = Window(HOUR_MS, 0)
    window.add(5, 0)
    window.add(1, 10 * HOUR_MS)
    assert window.total(10 * HOUR_MS) == 1


def test_a_histogram_is_what_was_added_to_it_lately() -> None:
    window = BucketWindow(1_000, (0, 0), 0)
    assert window.added((5, 1), 500) == (5, 1)
    assert window.added((5, 2), 1_000) == (5, 2)
    assert window.added((6, 2), 2_000) == (1, 0)
    assert window.added((6, 2), 3_000) == (0, 0)
