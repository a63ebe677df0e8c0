"""The verbs of streams and groups as requests and the reading of their answers; see calls.py."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from leveret.client.calls import ATTRIBUTES, ClientCall, Page, Row, nothing, page_of, path_of, row_of
from leveret.client.message import RemoteRecord
from leveret.core.arguments import max_age as max_age_ms
from leveret.core.errors import InvalidArgument
from leveret.core.jsonable import encode
from leveret.core.membership import Assignment
from leveret.embedded.records import Place
from leveret.embedded.stream import Appended, PartitionStats, StreamStats
from leveret.http_client import Answer
from leveret.runtime.bodies import encode as encode_body


class FetchedRecords(NamedTuple):
    """Records of one partition, and the offset to go on at."""

    records: list[RemoteRecord]
    next_offset: int


# Streams


def declare(
    name: str,
    partitions: int | None,
    max_age: str | float | timedelta | None,
    max_bytes: int | None,
    segment_bytes: int | None,
) -> ClientCall[Row]:
    """Make a stream."""
    options = {
        "partitions": partitions,
        "max_age": None if max_age is None else _seconds(max_age),
        "max_bytes": max_bytes,
        "segment_bytes": segment_bytes,
    }
    return ClientCall(
        "PUT", path_of("streams", name), row_of, {key: each for key, each in options.items() if each is not None}
    )


def _seconds(age: str | float | timedelta) -> float:
    """An age such as 7D in seconds."""
    if isinstance(age, timedelta):
        return age.total_seconds()
    if not isinstance(age, str):
        return age
    try:
        return max_age_ms(age) / 1000
    except ValueError:
        raise InvalidArgument(f"max_age is seconds, a timedelta or a text such as 7D, not {age!r}") from None


def describe(name: str) -> ClientCall[Row]:
    """Look at a stream."""
    return ClientCall("GET", path_of("streams", name), row_of)


def list_streams(after: str) -> ClientCall[Page]:
    """One page of streams, and where the next one begins."""
    return ClientCall("GET", f"/streams?{urlencode({'after': after, 'limit': 1000})}", page_of("streams"))


def delete(name: str) -> ClientCall[int]:
    """Delete a stream."""
    return ClientCall("DELETE", path_of("streams", name), lambda answer: int(answer.json()["deleted"]))


def stats(name: str) -> ClientCall[StreamStats]:
    """The figures of a stream."""

    def read(answer: Answer) -> StreamStats:
        row = answer.json()
        partitions = tuple(PartitionStats(**each) for each in row["partition_stats"])
        known = {each.name: row[each.name] for each in fields(StreamStats) if each.name != "partitions"}
        return StreamStats(**known, partitions=partitions)

    return ClientCall("GET", path_of("streams", name), read)


# Records


def record_json(
    body: Any, headers: Mapping[str, Any] | None, properties: Mapping[str, Any] | None, **labels: Any
) -> Row:
    """A record as it is sent: its bytes as they are."""
    content_type, data = encode_body(body)
    attributes = {"content_type": content_type, **(properties or {})}
    told: dict[str, Any] = {
        "payload_base64": base64.b64encode(data).decode(),
        "attributes": {ATTRIBUTES.get(name, name): value for name, value in attributes.items()},
        "headers": encode(headers) if headers else None,
        **labels,
    }
    return {name: value for name, value in told.items() if value is not None}


def numbered(bodies: Iterable[Any], options: dict[str, Any]) -> list[Row]:
    """Records with the same options; a `sequence` counts on from record to record."""
    first = options.get("sequence")
    labels = {name: value for name, value in options.items() if name not in ("headers", "properties", "sequence")}
    return [
        record_json(
            body,
            options.get("headers"),
            options.get("properties"),
            **labels,
            sequence=None if first is None else first + place,
        )
        for place, body in enumerate(bodies)
    ]


def append(name: str, records: list[Row]) -> ClientCall[list[Appended]]:
    """Append records; repeated only if they are numbered, since others would be there twice."""
    numbered = all("producer" in record for record in records)
    path = path_of("streams", name, "records", "batch")

    def read(answer: Answer) -> list[Appended]:
        return [Appended(row["partition"], row["offset"]) for row in answer.json()["records"]]

    return ClientCall("POST", path, read, {"records": records}, again=numbered)


def read(name: str, partition: int, place: Place, wait_s: float, **options: Any) -> ClientCall[FetchedRecords]:
    """Read a partition."""
    query: dict[str, Any] = {"partition": partition, "encoding": "base64", **options}
    if isinstance(place, datetime):
        query["timestamp"] = max(0.0, place.timestamp())
    else:
        query["offset"] = place
    if wait_s:
        query["wait_seconds"] = wait_s

    def pieced(answer: Answer) -> FetchedRecords:
        found = answer.json()
        return FetchedRecords([RemoteRecord(row) for row in found["records"]], found["next_offset"])

    return ClientCall("GET", f"{path_of('streams', name, 'records')}?{urlencode(query)}", pieced, wait_s=wait_s)


# Groups


def declare_group(stream: str, group: str) -> ClientCall[Row]:
    """Make a group."""
    return ClientCall("PUT", path_of("streams", stream, "groups", group), row_of)


def describe_group(stream: str, group: str) -> ClientCall[Row]:
    """Look at a group."""
    return ClientCall("GET", path_of("streams", stream, "groups", group), row_of)


def list_groups(stream: str, after: str) -> ClientCall[Page]:
    """One page of groups, and where the next one begins."""
    query = urlencode({"after": after, "limit": 100})
    path = f"{path_of('streams', stream, 'groups')}?{query}"
    return ClientCall("GET", path, page_of("groups"))


def delete_group(stream: str, group: str) -> ClientCall[None]:
    """Forget a group."""
    return ClientCall("DELETE", path_of("streams", stream, "groups", group), nothing)


def reset(stream: str, group: str, to: str | datetime) -> ClientCall[dict[int, int]]:
    """Let a group read on from elsewhere."""
    body = {"timestamp": max(0.0, to.timestamp())} if isinstance(to, datetime) else {"to": to}
    path = path_of("streams", stream, "groups", group, "reset")
    return ClientCall("POST", path, lambda answer: by_partition(answer.json()["offsets"]), body)


class JoinedGroup(NamedTuple):
    """What a member reads, and from where on."""

    assignment: Assignment
    offsets: dict[int, int]


def join(stream: str, group: str, member: str, session_s: float) -> ClientCall[JoinedGroup]:
    """Come in."""

    def read(answer: Answer) -> JoinedGroup:
        found = answer.json()
        assignment = Assignment(found["generation"], tuple(found["partitions"]))
        return JoinedGroup(assignment, by_partition(found["offsets"]))

    path = path_of("streams", stream, "groups", group, "join")
    return ClientCall("POST", path, read, {"member": member, "session_seconds": session_s})


def heartbeat(stream: str, group: str, member: str, generation: int) -> ClientCall[None]:
    """Give a sign of life."""
    path = path_of("streams", stream, "groups", group, "heartbeat")
    return ClientCall("POST", path, nothing, {"member": member, "generation": generation})


def leave(stream: str, group: str, member: str) -> ClientCall[None]:
    """Go."""
    return ClientCall("POST", path_of("streams", stream, "groups", group, "leave"), nothing, {"member": member})


def commit(stream: str, group: str, member: str, generation: int, offsets: Mapping[int, int]) -> ClientCall[None]:
    """Note how far a member has read."""
    body = {"member": member, "generation": generation, "offsets": _named(offsets)}
    return ClientCall("POST", path_of("streams", stream, "groups", group, "commit"), nothing, body)


class Polled(NamedTuple):
    """Records of some partitions, and the offsets to go on at."""

    records: list[RemoteRecord]
    offsets: dict[int, int]


def poll(
    stream: str, group: str, member: str, generation: int, offsets: Mapping[int, int], max_records: int, wait_s: float
) -> ClientCall[Polled]:
    """Read the partitions of a member."""
    body = {
        "member": member,
        "generation": generation,
        "offsets": _named(offsets),
        "max_records": max_records,
        "wait_seconds": wait_s,
        "encoding": "base64",
    }

    def read(answer: Answer) -> Polled:
        found = answer.json()
        return Polled([RemoteRecord(row) for row in found["records"]], by_partition(found["offsets"]))

    return ClientCall("POST", path_of("streams", stream, "groups", group, "poll"), read, body, wait_s=wait_s)


def members_of(row: Row) -> dict[str, tuple[int, ...]]:
    """The members of a group that was looked at, with their partitions."""
    return {name: tuple(partitions) for name, partitions in row["members"].items()}


def by_partition(told: Mapping[str, int]) -> dict[int, int]:
    """A number for each partition, from JSON."""
    return {int(partition): value for partition, value in told.items()}


def _named(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}
