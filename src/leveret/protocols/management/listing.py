"""Lists: filtered by name, sorted, cut into pages, reduced to some columns; long ones are sent in parts.

page, page_size     which part, at most 500 rows         sort, sort_reverse   by a column, `a.b` is b in a
name, use_regex     what is in the name, or matches it   columns              `a,b.c`: nothing but these
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from leveret.core.broker import Broker
from leveret.core.patterns import check_length, pattern
from leveret.protocols.http.cluster import awaited
from leveret.protocols.http.response import JSON, Answer, Answered, Streamed
from leveret.protocols.management.call import Endpoint, ManagementCall
from leveret.protocols.management.rates import SampleRange
from leveret.protocols.management.refusals import NO_CACHE, BadRequest, answer

Row = dict[str, Any]
Make = Callable[[Any], Row | None]
Key = Callable[[Any], Any]
Fetch = Callable[[list[Any], tuple[str, ...]], Coroutine[Any, Any, list[Row | None]]]

NO_KEYS: Mapping[str, Key] = MappingProxyType({})

PAGE_ROWS = 100
PAGE_ROWS_MAX = 500
STEP = 200  # rows that are made in one turn of the loop
FETCH_STEP = 1_000  # rows that are fetched from elsewhere together
KEYS_STEP = 5_000  # keys to sort by
SORTED_MAX = 100_000  # rows that are all made for one answer
COLUMNS_MAX = 100
NAME_CHARS_MAX = 255
PATTERN_CHARS_MAX = 200
FILTER_STEPS_MAX = 500  # of a compiled pattern: a name of 255 characters takes it a millisecond at worst
FILTER_STEP = 50  # names that a pattern is searched in during one turn of the loop
SAMPLES_MAX = 500  # points of one graph
RANGES = ("lengths", "msg_rates", "data_rates", "node_stats")


@dataclass(frozen=True, slots=True)
class ListingRequest:
    """What a request wants of a list."""

    page: int | None
    page_rows: int
    fits: Callable[[str], bool] | None
    by_pattern: bool
    sort: str | None
    reverse: bool
    columns: tuple[str, ...]


def wanted(call: ManagementCall) -> ListingRequest:
    """What the query says, checked."""
    query = call.request.query
    for name in RANGES:
        range_of(call, name)
    page, size = _whole(query.get("page")), _whole(query.get("page_size"))
    if size is not None and page is None:
        page = 1
    if page is not None:
        size = PAGE_ROWS if size is None else size
        if page < 1 or not 1 <= size <= PAGE_ROWS_MAX:
            reason = f"Invalid pagination parameters: page number {page}, page size {size}"
            raise BadRequest(reason, "invalid_pagination_parameters")
    sort = query.get("sort") or None
    reverse = query.get("sort_reverse") == "true"
    by_pattern = query.get("use_regex") == "true" and bool(query.get("name"))
    return ListingRequest(page, size or PAGE_ROWS, _filter(query), by_pattern, sort, reverse, columns_of(call))


def _whole(text: str | None) -> int | None:
    """A whole number, if there is one."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise BadRequest("Pagination parameters are invalid")
    return int(text)


def _filter(query: dict[str, str]) -> Callable[[str], bool] | None:
    """What names must be like."""
    name = query.get("name", "")
    if not name:
        return None
    if query.get("use_regex") != "true":
        if len(name) > NAME_CHARS_MAX:
            raise BadRequest(f"name has {len(name)} characters, the limit is {NAME_CHARS_MAX}: shorten it")
        folded = name.casefold()
        return lambda text: folded in text.casefold()
    found = pattern(check_length("name", name, PATTERN_CHARS_MAX), ignore_case=True)
    if found.steps > FILTER_STEPS_MAX:
        raise BadRequest(f"the pattern takes {found.steps} steps, the limit is {FILTER_STEPS_MAX}: write a smaller one")
    return found.matches


def columns_of(call: ManagementCall) -> tuple[str, ...]:
    """The columns that are asked for; none: all."""
    columns = tuple(each for each in call.request.query.get("columns", "").split(",") if each)
    if len(columns) > COLUMNS_MAX:
        raise BadRequest(f"{len(columns)} columns are asked for, the limit is {COLUMNS_MAX}")
    return columns


def range_of(call: ManagementCall, name: str) -> SampleRange | None:
    """The samples that are asked for beside rates."""
    age_s, step_s = call.number(f"{name}_age"), call.number(f"{name}_incr")
    if age_s is None or step_s is None:
        return None
    if not age_s or not step_s or age_s // step_s > SAMPLES_MAX:
        reason = f"Invalid range parameters: age {age_s}, incr {step_s}"
        raise BadRequest(reason, "invalid_range_parameters")
    return SampleRange(age_s, step_s)


# Answering


def as_it_is(row: Row) -> Row:
    """The row of a handle that is one."""
    return row


def named(row: Row) -> str:
    """The name of a row."""
    return str(row.get("name", ""))


def one(call: ManagementCall, row: Row) -> Answer:
    """The answer with a single object."""
    return answer(reduced(row, columns_of(call)))


def listed(
    call: ManagementCall,
    handles: Sequence[Any],
    make: Make = as_it_is,
    name: Callable[[Any], str] = named,
    keys: Mapping[str, Key] = NO_KEYS,
) -> Answered:
    """The answer with a list. `make` makes the row of a handle, None if it is gone; `name` is what filters see.

    `keys` give what is in a column without the row: a page that is sorted by one of them is all that is made.
    """
    want = wanted(call)
    if want.sort is None and want.page is not None and want.fits is None:
        return answer(_page(want, len(handles), len(handles), list(_rows(_slice(want, handles), make))))
    # In the order of this moment, whatever comes and goes while rows are made.
    handles = handles[:]
    if want.by_pattern and len(handles) > FILTER_STEP:

        async def later() -> Answer:
            return await awaited(_listed(want, len(handles), await _fitting(want, handles, name), make, keys))

        return later()
    fitting = handles if want.fits is None else [each for each in handles if want.fits(name(each))]
    return _listed(want, len(handles), fitting, make, keys)


def rows(find: Callable[[ManagementCall, Broker], Sequence[Row]], name: Callable[[Any], str] = named) -> Endpoint:
    """Lists what is found under the lock."""

    def answer_list(call: ManagementCall) -> Answered:
        with call.runtime as core:
            found = find(call, core)
        return listed(call, found, name=name)

    return answer_list


def row(find: Callable[[ManagementCall, Broker], Row]) -> Endpoint:
    """Shows what is found under the lock."""

    def answer_one(call: ManagementCall) -> Answered:
        with call.runtime as core:
            return one(call, find(call, core))

    return answer_one


async def _fitting(want: ListingRequest, handles: Sequence[Any], name: Callable[[Any], str]) -> Sequence[Any]:
    if want.fits is None:
        return handles
    step, found = FILTER_STEP if want.by_pattern else KEYS_STEP, []
    for start in range(0, len(handles), step):
        found += [each for each in handles[start : start + step] if want.fits(name(each))]
        await asyncio.sleep(0)
    return found


def _listed(want: ListingRequest, total: int, fitting: Sequence[Any], make: Make, keys: Mapping[str, Key]) -> Answered:
    """The answer with those of a list that are wanted."""
    if want.sort is None and want.page is not None:
        return answer(_page(want, total, len(fitting), list(_rows(_slice(want, fitting), make))))
    if len(fitting) <= STEP:
        return _answered(want, total, list(_rows(fitting, make)))
    if want.page is not None and want.sort is not None and want.sort in keys:
        return _sorted(want, total, fitting, make, keys[want.sort])
    if want.sort is None:

        async def fetch(some: list[Any], columns: tuple[str, ...]) -> list[Row | None]:
            return [reduced(row, columns) for row in _rows(some, make)]

        return Streamed(_parts(fitting, fetch, want.columns, STEP), JSON, NO_CACHE)
    if len(fitting) > SORTED_MAX:
        raise BadRequest(f"{len(fitting)} rows cannot be sorted, the limit is {SORTED_MAX}: ask for pages without sort")
    return _gathered(want, total, fitting, make)


async def fetched(
    call: ManagementCall, handles: Sequence[Any], fetch: Fetch, name: Callable[[Any], str], keys: Mapping[str, Key]
) -> Answer:
    """The answer with a list whose rows are elsewhere: `fetch` gets those of some handles, None for what is gone.

    `keys` give what is in a column without the rows: sorted by one of them, only those of a page are fetched.
    """
    want = wanted(call)
    handles = handles[:]
    fitting = await _fitting(want, handles, name)
    if want.sort is not None:
        if len(fitting) > SORTED_MAX:
            raise BadRequest(f"{len(fitting)} rows cannot be sorted, the limit is {SORTED_MAX}: ask for some by name")
        key = keys.get(want.sort)
        known = [key(each) for each in fitting] if key else await _fetched_keys(fitting, fetch, want.sort)
        order = sorted(range(len(fitting)), key=lambda index: sort_key(known[index]), reverse=want.reverse)
        fitting = [fitting[index] for index in order]
    if want.page is None:
        return Streamed(_parts(fitting, fetch, want.columns, FETCH_STEP), JSON, NO_CACHE)
    rows = [row for row in await fetch(list(_slice(want, fitting)), want.columns) if row is not None]
    return answer(_page(want, len(handles), len(fitting), rows))


async def _fetched_keys(handles: Sequence[Any], fetch: Fetch, column: str) -> list[Any]:
    """What is in one column of all rows."""
    path, found = column.split("."), []
    for start in range(0, len(handles), FETCH_STEP):
        found += [at(row, path) for row in await fetch(list(handles[start : start + FETCH_STEP]), (column,))]
    return found


def _rows(handles: Iterable[Any], make: Make) -> Iterable[Row]:
    return (row for row in map(make, handles) if row is not None)


async def _sorted(want: ListingRequest, total: int, handles: Sequence[Any], make: Make, key: Key) -> Answer:
    """A page of handles that are sorted before there are rows."""
    known: list[Any] = []
    for start in range(0, len(handles), KEYS_STEP):
        known += map(key, handles[start : start + KEYS_STEP])
        await asyncio.sleep(0)
    order = sorted(range(len(handles)), key=known.__getitem__, reverse=want.reverse)
    rows = list(_rows((handles[index] for index in _slice(want, order)), make))
    return answer(_page(want, total, len(handles), rows))


async def _gathered(want: ListingRequest, total: int, handles: Sequence[Any], make: Make) -> Answer:
    """Make all rows, some in each turn of the loop."""
    rows: list[Row] = []
    for start in range(0, len(handles), STEP):
        rows += _rows(handles[start : start + STEP], make)
        await asyncio.sleep(0)
    return _answered(want, total, rows)


async def _parts(
    handles: Sequence[Any], fetch: Fetch, columns: tuple[str, ...], step: int
) -> AsyncGenerator[bytes, None]:
    """A long list as JSON, some rows in each turn of the loop."""
    before = b"["
    for start in range(0, len(handles), step):
        rows = [row for row in await fetch(list(handles[start : start + step]), columns) if row is not None]
        if rows:
            yield before + json.dumps(rows, separators=(",", ":"))[1:-1].encode()
            before = b","
        await asyncio.sleep(0)
    yield b"]" if before == b"," else b"[]"


def _answered(want: ListingRequest, total: int, rows: list[Row]) -> Answer:
    """Rows that are all there, sorted and cut."""
    if want.sort is not None:
        path = want.sort.split(".")
        rows.sort(key=lambda row: sort_key(at(row, path)), reverse=want.reverse)
    if want.page is None:
        return answer([reduced(row, want.columns) for row in rows])
    return answer(_page(want, total, len(rows), _slice(want, rows)))


def _slice(want: ListingRequest, rows: Sequence[Any]) -> Sequence[Any]:
    assert want.page is not None, "only pages are cut"
    start = (want.page - 1) * want.page_rows
    if start >= len(rows) and want.page > 1:
        reason = f"Page out of range, page: {want.page} page size: {want.page_rows}, len: {len(rows)}"
        raise BadRequest(reason, "page_out_of_range")
    return rows[start : start + want.page_rows]


def _page(want: ListingRequest, total: int, filtered: int, rows: Sequence[Row]) -> Row:
    return {
        "filtered_count": filtered,
        "item_count": len(rows),
        "items": [reduced(row, want.columns) for row in rows],
        "page": want.page,
        "page_count": max(1, -(-filtered // want.page_rows)),
        "page_size": want.page_rows,
        "total_count": total,
    }


# Rows


def at(row: Any, path: list[str]) -> Any:
    """What lies at a path in a row."""
    for part in path:
        row = row.get(part) if isinstance(row, dict) else None
    return row


def sort_key(value: Any) -> tuple[int, Any]:
    """A place for every value: none, then numbers, then text, then the rest as text."""
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, value
    return (2, value) if isinstance(value, str) else (3, json.dumps(value, sort_keys=True))


def reduced(row: Any, columns: Iterable[str]) -> Any:
    """A row with some columns only; a column may be inside of another, or of the rows of a list."""
    columns = tuple(columns)
    if not columns:
        return row
    if isinstance(row, list):
        return [reduced(each, columns) for each in row]
    if not isinstance(row, dict):
        return row
    inside: dict[str, list[str]] = {}
    for column in columns:
        head, _, tail = column.partition(".")
        inside.setdefault(head, []).append(tail)
    return {
        key: value if "" in inside[key] else reduced(value, inside[key]) for key, value in row.items() if key in inside
    }
