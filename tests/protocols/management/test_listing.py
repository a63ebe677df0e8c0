"""Pages, sorting, columns and filters."""

import asyncio
import json
from collections.abc import Mapping
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leveret
from leveret.protocols.http.request import HttpPeer, Request
from leveret.protocols.http.response import Response, Streamed
from leveret.protocols.management import listing, queues
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import AdminContext
from leveret.protocols.management.rates import Rates
from leveret.protocols.management.refusals import BadRequest
from tests.protocols.management.scene import VHOST, Api

NAMES = st.lists(st.text("abAB.", max_size=4), max_size=30)


def asked(query: str, rows: list[dict[str, Any]], keys: Mapping[str, listing.Key] = listing.NO_KEYS) -> Any:
    """What a list answers to a query."""
    call = ManagementCall(
        Request("GET", f"/api/x?{query}".encode(), {}, HttpPeer("127.0.0.1", 1)), cast("AdminContext", None)
    )
    answer = listing.listed(call, rows, keys=keys)
    if not isinstance(answer, Response | Streamed):
        answer = asyncio.run(cast("Any", answer))
    if isinstance(answer, Streamed):
        answer = Response(body=asyncio.run(collected(answer)))
    return json.loads(cast("Response", answer).body)


async def collected(stream: Streamed) -> bytes:
    return b"".join([part async for part in stream.parts])


@given(names=NAMES, size=st.integers(1, 10), reverse=st.booleans())
def test_pages_together_are_the_sorted_list(names: list[str], size: int, reverse: bool) -> None:
    rows = [{"name": name, "at": {"number": number}} for number, name in enumerate(names)]
    sort = f"sort=at.number&sort_reverse={'true' if reverse else 'false'}"
    whole = asked(sort, rows)
    assert [row["at"]["number"] for row in whole] == sorted(range(len(rows)), reverse=reverse)
    pages = max(1, -(-len(rows) // size))
    gathered = []
    for page in range(1, pages + 1):
        found = asked(f"page={page}&page_size={size}&{sort}", rows)
        assert (found["page_count"], found["total_count"]) == (pages, len(rows))
        assert found["item_count"] == len(found["items"]) <= size
        gathered += found["items"]
    assert gathered == whole
    if rows:
        with pytest.raises(BadRequest, match="Page out of range"):
            asked(f"page={pages + 1}&page_size={size}", rows)


@given(numbers=st.lists(st.integers(0, 50), min_size=201, max_size=300), page=st.integers(1, 4), reverse=st.booleans())
@settings(max_examples=20)
def test_a_key_sorts_as_its_column_does(numbers: list[int], page: int, reverse: bool) -> None:
    rows = [{"name": str(index), "count": number} for index, number in enumerate(numbers)]
    query = f"page={page}&page_size=50&sort=count&sort_reverse={'true' if reverse else 'false'}"
    assert asked(query, rows, {"count": itemgetter("count")}) == asked(query, rows)


def test_the_keys_of_queues_are_what_their_rows_say() -> None:
    with leveret.open() as broker:
        queue = broker.queue("orders")
        queue.send_many([b"1", b"22", b"333"])
        assert queue.receive()
        rates = Rates(broker.runtime, dict)
        for _ in range(2):
            asyncio.run(rates.sample())
        context = cast("AdminContext", SimpleNamespace(rates=rates, process=SimpleNamespace(node="here"), shard=None))
        with broker.runtime as core:
            row = queues.shown(context, core, queue.core, None, None)
            for column, key in queues.sort_keys(context).items():
                assert key(queue.core) == listing.at(row, column.split(".")), column


@given(names=NAMES, part=st.text("abAB.", min_size=1, max_size=2))
def test_a_filter_leaves_what_has_the_text_in_its_name(names: list[str], part: str) -> None:
    rows = [{"name": name} for name in names]
    found = asked(f"page=1&page_size=500&name={part}", rows)
    assert [row["name"] for row in found["items"]] == [name for name in names if part.lower() in name.lower()]
    assert (found["filtered_count"], found["total_count"]) == (found["item_count"], len(names))


def test_a_pattern_filters() -> None:
    rows = [{"name": name} for name in ("abc", "bcd", "cde")]
    found = asked("page=1&name=^(a|b).*d?$&use_regex=true", rows)
    assert [row["name"] for row in found["items"]] == ["abc", "bcd"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab", max_size=3),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from("abc"), inside, max_size=3),
    max_leaves=10,
)
ROW = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(rows=st.lists(ROW, max_size=8), sort=st.sampled_from("abc"))
def test_whatever_is_in_a_column_can_be_sorted_by(rows: list[dict[str, Any]], sort: str) -> None:
    found = asked(f"sort={sort}", list(rows))
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, rows))


@given(row=ROW, columns=st.lists(st.sampled_from(["a", "b.a", "c.b.a"]), min_size=1))
def test_columns_leave_nothing_else(row: dict[str, Any], columns: list[str]) -> None:
    found = listing.reduced(row, columns)
    assert set(found) == set(row) & {column.partition(".")[0] for column in columns}
    assert listing.reduced(found, columns) == found
    for name in set(columns) & set(row):
        assert found[name] == row[name]


def test_a_long_list_comes_in_parts() -> None:
    rows = [{"name": str(number), "other": 1} for number in range(3 * listing.STEP + 1)]
    assert asked("columns=name", rows) == [{"name": row["name"]} for row in rows]
    assert asked("sort=name&page=1&page_size=1", rows)["items"] == [rows[0]]


def test_rows_that_are_gone_are_left_out() -> None:
    call = ManagementCall(Request("GET", b"/api/x", {}, HttpPeer("127.0.0.1", 1)), cast("AdminContext", None))
    rows = list(range(2 * listing.STEP))
    answer = listing.listed(call, rows, lambda number: {"name": number} if number % 2 else None, str)
    found = json.loads(asyncio.run(collected(cast("Streamed", answer))))
    assert [row["name"] for row in found] == rows[1::2]
    gone = listing.listed(call, rows, lambda number: None, str)
    assert json.loads(asyncio.run(collected(cast("Streamed", gone)))) == []


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("page=0", "invalid_pagination_parameters"),
        ("page=1&page_size=0", "invalid_pagination_parameters"),
        ("page=1&page_size=501", "invalid_pagination_parameters"),
        ("page=x", "bad_request"),
        ("page=-1", "bad_request"),
        ("page=99999999999", "bad_request"),
        ("page=2&page_size=500", "page_out_of_range"),
        (f"name={'x' * 256}&page=1", "bad_request"),
        (f"name={'x' * 201}&use_regex=true&page=1", "bad_request"),
        ("name=(&use_regex=true&page=1", "bad_request"),
        ("name=(?<!a)b&use_regex=true&page=1", "bad_request"),
        ("name=(a{1000}){1000}&use_regex=true&page=1", "bad_request"),
        ("name=.{100}&use_regex=true&page=1", "bad_request"),
        (f"columns={','.join(['a'] * 101)}", "bad_request"),
        *((f"{name}_age=60000000&{name}_incr=1", "invalid_range_parameters") for name in listing.RANGES),
        *((f"{name}_age=60&{name}_incr=0", "invalid_range_parameters") for name in listing.RANGES),
        *((f"{name}_age=x&{name}_incr=1", "bad_request") for name in listing.RANGES),
        *((f"{name}_age={'9' * 30}&{name}_incr=1", "bad_request") for name in listing.RANGES),
    ],
)
def test_a_query_is_refused(api: Api, query: str, error: str) -> None:
    status, told, _ = api.call("GET", f"/queues?{query}")
    assert (status, told["error"]) == (400, error)


@pytest.mark.parametrize("pattern", [".%3F" * 20 + "a" * 20 + "!", "(a%2B)%2B!", "(.*a){20}!", "(x%2Bx%2B)%2By"])
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    """An engine that backtracks takes longer for one of these names than the test may run."""
    rows = [{"name": letter * 255} for letter in "ax" for _ in range(listing.FILTER_STEP)]
    assert asked(f"name={pattern}&use_regex=true", rows) == []


@pytest.mark.parametrize("count", [listing.FILTER_STEP, listing.FILTER_STEP + 1, 3 * listing.STEP])
@pytest.mark.parametrize("more", ["", "&page=1&page_size=2", "&sort=name&page=1&page_size=2"])
def test_many_names_are_filtered_by_a_pattern(count: int, more: str) -> None:
    rows = [{"name": f"{'Odd' if number % 2 else 'even'}-{number:04}"} for number in range(count)]
    found = asked(f"name=^odd.*%5Cd$&use_regex=true{more}", rows)
    assert (found["items"] if more else found) == (rows[1:4:2] if more else rows[1::2])


def test_too_many_rows_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SORTED_MAX", listing.STEP)
    with pytest.raises(BadRequest, match="cannot be sorted"):
        asked("sort=name", [{"name": "x"}] * (listing.STEP + 1))


def test_queues_are_listed_by_page(api: Api) -> None:
    found = api.get(f"/queues/{VHOST}?page=1&page_size=1&name=ORD&columns=name,message_stats.publish_details.rate")
    assert found["items"] == [{"name": "orders", "message_stats": {"publish_details": {"rate": 0.0}}}]
    assert api.get("/queues/detailed?columns=name") == api.get("/queues?columns=name")
