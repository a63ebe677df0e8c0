"""Delays between retries."""

import pytest

from leveret.core.arguments import Backoff, delay_ms


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff(), [0, 0, 0]),
        (Backoff("exponential"), [2_000, 4_000, 8_000]),
        (Backoff("exponential", base_ms=100, max_ms=500), [200, 400, 500]),
        (Backoff("linear"), [1_000, 2_000, 3_000]),
        (Backoff("linear", max_ms=1_500), [1_000, 1_500, 1_500]),
        (Backoff("list", list_ms=(5, 70)), [5, 70, 70]),
    ],
)
def test_the_first_three_delays(backoff: Backoff, delays: list[int]) -> None:
    assert [delay_ms(backoff, deliveries) for deliveries in (1, 2, 3)] == delays


def test_exponential_ends_at_fifteen_minutes_however_often_it_was_delivered() -> None:
    assert delay_ms(Backoff("exponential"), 9) == 512_000
    assert delay_ms(Backoff("exponential"), 10) == 900_000
    assert delay_ms(Backoff("exponential"), 10**9) == 900_000


def test_jitter_takes_up_to_its_share() -> None:
    backoff = Backoff("linear", jitter=0.25)
    assert [delay_ms(backoff, 1, random) for random in (0.0, 0.5, 1.0)] == [1_000, 875, 750]
