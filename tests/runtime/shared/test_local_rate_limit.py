"""Buckets of tokens."""

import pytest

from leveret.core.errors import InvalidArgument
from leveret.runtime.shared.limits import RateLimit

NOW_MS = 1_000_000


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    limit = RateLimit(10, 5)
    assert [limit.take("a", NOW_MS) for _ in range(6)] == [0, 0, 0, 0, 0, 100]
    assert limit.take("a", NOW_MS + 99) == 1
    assert limit.take("a", NOW_MS + 100) == 0
    assert limit.take("a", NOW_MS + 100) == 100


def test_keys_do_not_share_a_bucket() -> None:
    limit = RateLimit(1, 1)
    assert [limit.take(key, NOW_MS) for key in "aabb"] == [0, 1000, 0, 1000]


def test_a_bucket_is_never_fuller_than_the_burst() -> None:
    limit = RateLimit(1, 2)
    assert limit.take("a", NOW_MS) == 0
    assert [limit.take("a", NOW_MS + 10**9) for _ in range(3)] == [0, 0, 1000]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    limit = RateLimit(1, 1)
    assert limit.take("a", NOW_MS) == 0
    assert limit.take("a", NOW_MS - 10**9) == 1000


def test_a_cost_over_the_burst_is_paid_later() -> None:
    limit = RateLimit(1, 2)
    assert limit.take("a", NOW_MS, cost=5) == 0
    assert limit.take("a", NOW_MS) == 4000


def test_the_number_of_buckets_is_limited() -> None:
    limit = RateLimit(1, 1, keys_max=10)
    for number in range(1_000):
        limit.take(str(number), NOW_MS)
    assert len(limit) == 10
    assert limit.take("999", NOW_MS) > 0


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_limit_that_allows_nothing_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(InvalidArgument, match="rate above 0"):
        RateLimit(rate, burst)
