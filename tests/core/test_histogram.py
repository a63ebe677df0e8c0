import pytest

from leveret.core.histogram import BOUNDS, Histogram, quantile


def counted(*values: int) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    return histogram


@pytest.mark.parametrize(("value", "bucket"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11)])
def test_a_value_is_below_the_bound_of_its_bucket(value: int, bucket: int) -> None:
    assert [index for index, count in enumerate(counted(value).buckets) if count] == [bucket]
    assert (BOUNDS[bucket - 1] if bucket else 0) <= value < BOUNDS[bucket]


def test_the_last_bucket_takes_whatever_is_larger() -> None:
    histogram = counted(BOUNDS[-1] - 1, BOUNDS[-1], 2**64 - 1)
    assert histogram.buckets[-2:] == (1, 2)


def test_sums_and_buckets_of_others_are_added() -> None:
    histogram = counted(1, 5)
    histogram.add(counted(5, 100))
    assert (histogram.sum, sum(histogram.buckets), histogram.buckets[3]) == (111, 4, 2)


def test_a_quantile_is_found_within_its_bucket() -> None:
    buckets = counted(*[1] * 90, *[1000] * 10).buckets
    assert quantile(buckets, 0.5) == pytest.approx(1 + 50 / 90)
    assert quantile(buckets, 0.95) == pytest.approx(512 + 512 * 5 / 10)


def test_without_values_there_is_no_quantile() -> None:
    assert quantile(Histogram().buckets, 0.95) is None


def test_values_beyond_the_last_bound_count_as_that_bound() -> None:
    assert quantile(counted(2**40).buckets, 0.95) == BOUNDS[-1]
