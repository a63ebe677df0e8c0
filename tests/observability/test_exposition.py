import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from leveret.core.histogram import Histogram
from leveret.observability.exposition import (
    EDGES_OF_COUNTS,
    EDGES_S_OF_MS,
    OPEN_METRICS,
    TEXT,
    Family,
    escaped,
    histogram,
    labels,
    sample,
    wanted,
)

COUNTER = Family("leveret_things_total", "counter", "Things that happened")


@pytest.mark.parametrize("value", ["/", 'a "quoted" \\ name', "two\nlines", "Bücher", "", "a,b={}"])
def test_labels_come_back_as_they_were(value: str) -> None:
    text = TEXT.head(COUNTER) + sample(COUNTER.name, labels(name=value), 3)
    (family,) = parse(text)
    assert family.samples[0].labels == {"name": value}


def test_bytes_that_are_no_text_are_told_apart() -> None:
    one, other = b"\xff".decode("utf-8", "surrogateescape"), b"\xfe".decode("utf-8", "surrogateescape")
    assert escaped(one).encode() == rb"\\xff"
    assert escaped(one) != escaped(other)


@pytest.mark.parametrize(
    ("accept", "format"),
    [
        ("", TEXT),
        ("text/plain", TEXT),
        ("application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPEN_METRICS),
    ],
)
def test_the_format_is_the_one_that_is_asked_for(accept: str, format: object) -> None:
    assert wanted(accept) is format


def test_a_counter_is_named_without_its_end_in_open_metrics() -> None:
    line = sample(COUNTER.name, "", 3)
    (family,) = parse_open(OPEN_METRICS.head(COUNTER) + line + OPEN_METRICS.end)
    assert (family.name, family.type, family.samples[0].name) == ("leveret_things", "counter", COUNTER.name)


def counted(text: str) -> dict[float, float]:
    (family,) = parse("# TYPE h histogram\n" + text)
    return {
        math.inf if each.labels["le"] == "+Inf" else float(each.labels["le"]): each.value
        for each in family.samples
        if each.name.endswith("_bucket")
    }


@pytest.mark.parametrize("named", ["", labels(queue="q")])
def test_buckets_add_up(named: str) -> None:
    times = Histogram()
    for value_ms in (0, 3, 3, 1_000, 10**9):
        times.observe(value_ms)
    found = counted(histogram("h", named, times.buckets, times.sum / 1000, EDGES_S_OF_MS))
    assert (found[0.001], found[0.002], found[0.004], found[1.024], found[math.inf]) == (1, 1, 3, 4, 5)


def test_a_number_is_counted_up_to_its_edge() -> None:
    sizes = Histogram()
    for size in (1, 4, 7):
        sizes.observe(size)
    found = counted(histogram("h", "", sizes.buckets, sizes.sum, EDGES_OF_COUNTS))
    assert (found[0], found[1], found[3], found[7]) == (0, 1, 1, 3)
