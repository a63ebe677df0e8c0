"""Streams over REST: made, appended to, read from any place, waited for, deleted."""

import threading
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.protocols.http import tails
from leveret.protocols.rest.streams import FILTERS_MAX, READ_BYTES_MAX, READ_RECORDS_MAX
from tests.protocols.rest.world import RestWorld
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def clicks(world: RestWorld) -> str:
    world.ok("PUT /streams/clicks", {"partitions": 2})
    return "/streams/clicks/records"


def payloads(answer: Any) -> list[Any]:
    return [row["payload"] for row in answer["records"]]


def test_a_stream_from_start_to_end(world: RestWorld) -> None:
    made = world.call(
        "PUT /streams/clicks", {"partitions": 2, "max_age": 3600, "max_bytes": 10**9, "segment_bytes": 10**6}
    )
    assert (made.status, made.json["partitions"], made.json["max_age"]) == (201, 2, 3600)
    assert world.call("PUT /streams/clicks", {"partitions": 2}).status == 200
    sent = world.ok("POST /streams/clicks/records", {"payload": {"page": 1}, "key": "ann"})
    assert sent == {"partition": sent["partition"], "offset": 0, "duplicate": False}
    found = world.ok(f"GET /streams/clicks/records?partition={sent['partition']}")
    (record,) = found["records"]
    assert (record["offset"], record["payload"], record["key"]) == (0, {"page": 1}, "ann")
    assert found["next_offset"] == 1
    shown = world.ok("GET /streams/clicks")
    assert (shown["records"], len(shown["partition_stats"])) == (1, 2)
    assert world.ok("DELETE /streams/clicks") == {"deleted": 1}
    assert world.call("GET /streams/clicks").status == 404


def test_streams_are_listed_in_pages(world: RestWorld) -> None:
    for name in ("a1", "a2", "b"):
        world.ok(f"PUT /streams/{name}")
    world.ok("PUT /queues/a3")
    page = world.ok("GET /streams?prefix=a&limit=1")
    assert ([row["name"] for row in page["streams"]], page["next"]) == (["a1"], "a1")
    page = world.ok("GET /streams?prefix=a&after=a1")
    assert ([row["name"] for row in page["streams"]], page["next"]) == (["a2"], None)


def test_a_stream_with_other_settings_is_refused(world: RestWorld, clicks: str) -> None:
    assert world.call("PUT /streams/clicks", {"partitions": 3}).status == 409
    world.ok("PUT /queues/orders")
    assert world.call("PUT /streams/orders").status in (409, 422)
    assert world.call("GET /streams/orders").status == 404
    assert world.call("PUT /streams/x", {"partitions": 0}).status == 400
    assert world.call("PUT /streams/x", {"partition": 1}).status == 400


def test_records_keep_what_they_came_with(world: RestWorld, clicks: str) -> None:
    record = {
        "payload_base64": "AAEC",
        "key": "ann",
        "filter": "eu",
        "headers": {"shop": 7},
        "attributes": {"messageId": "m1"},
        "producer": "till",
        "sequence": 3,
    }
    sent = world.ok(f"POST {clicks}", record)
    (found,) = world.ok(f"GET {clicks}?partition={sent['partition']}")["records"]
    assert {name: found[name] for name in ("payload_base64", "key", "filter", "producer", "sequence")} == {
        name: record[name] for name in ("payload_base64", "key", "filter", "producer", "sequence")
    }
    assert (found["headers"]["shop"], found["attributes"]["messageId"]) == (7, "m1")


def test_many_records_are_appended_together_each_with_its_own_key(world: RestWorld, clicks: str) -> None:
    sent = world.ok(f"POST {clicks}/batch", {"records": [{"payload": n, "key": str(n)} for n in range(20)]})["records"]
    found = {}
    for partition in (0, 1):
        for row in world.ok(f"GET {clicks}?partition={partition}")["records"]:
            found[row["payload"]] = (partition, row["offset"])
    assert [found[n] for n in range(20)] == [(row["partition"], row["offset"]) for row in sent]


def test_what_a_producer_repeats_is_there_once(world: RestWorld, clicks: str) -> None:
    batch = {"records": [{"payload": n, "key": "k", "producer": "till", "sequence": n} for n in range(3)]}
    first = world.ok(f"POST {clicks}/batch", batch)["records"]
    again = world.ok(f"POST {clicks}/batch", batch)["records"]
    assert [row["duplicate"] for row in (*first, *again)] == [False] * 3 + [True] * 3
    assert {row["offset"] for row in again} == {None}
    assert payloads(world.ok(f"GET {clicks}?partition={first[0]['partition']}")) == [0, 1, 2]


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"payload": 1, "payload_base64": "AA=="},
        {"payload": 1, "producer": "till"},
        {"payload": 1, "sequence": 1},
        {"payload": 1, "sequence": -1, "producer": "till"},
        {"payload": 1, "key": "k" * 256},
        {"payload": 1, "filter": "\u20ac" * 100},
        {"payload": 1, "partition": 0},
    ],
    ids=str,
)
def test_a_record_that_makes_no_sense_is_refused_and_nothing_of_its_batch_is_there(
    world: RestWorld, clicks: str, record: dict[str, Any]
) -> None:
    assert world.call(f"POST {clicks}", record).status == 400
    assert world.call(f"POST {clicks}/batch", {"records": [{"payload": 1}, record]}).status == 400
    assert world.ok("GET /streams/clicks")["records"] == 0


def test_a_partition_is_read_from_any_place(world: RestWorld, clock: leveret.ManualClock) -> None:
    world.ok("PUT /streams/log")
    for number in range(3):
        clock.advance(10)
        world.ok("POST /streams/log/records", {"payload": number})
    now_s = clock.now_ms() / 1000
    read = "GET /streams/log/records"
    assert payloads(world.ok(read)) == [0, 1, 2]
    assert payloads(world.ok(f"{read}?offset=first")) == [0, 1, 2]
    assert payloads(world.ok(f"{read}?offset=1")) == [1, 2]
    assert payloads(world.ok(f"{read}?offset=last"))[-1] == 2
    assert payloads(world.ok(f"{read}?offset=next")) == []
    assert payloads(world.ok(f"{read}?timestamp={now_s - 10}")) == [1, 2]
    assert payloads(world.ok(f"{read}?offset=15s")) == [1, 2]
    assert world.ok(f"{read}?offset=99")["next_offset"] == 3


def test_reading_goes_on_at_the_next_offset(world: RestWorld, clicks: str) -> None:
    world.ok(f"POST {clicks}/batch", {"records": [{"payload": n, "key": "k"} for n in range(10)]})
    partition = world.ok("GET /streams/clicks")["partition_stats"][0]["records"] == 0
    found, offset = [], 0
    while True:
        page = world.ok(f"GET {clicks}?partition={int(partition)}&offset={offset}&max_records=3")
        if not page["records"]:
            break
        found += payloads(page)
        offset = page["next_offset"]
    assert found == list(range(10))


def test_an_answer_has_a_limit_of_bytes(world: RestWorld) -> None:
    world.ok("PUT /streams/log")
    world.ok("POST /streams/log/records/batch", {"records": [{"payload": "x" * 1000} for _ in range(10)]})
    page = world.ok("GET /streams/log/records?max_bytes=2500")
    assert 0 < len(page["records"]) < 5
    assert len(world.ok("GET /streams/log/records?max_bytes=1")["records"]) == 1


def test_records_of_a_filter_value(world: RestWorld) -> None:
    world.ok("PUT /streams/log")
    for place in ("eu", "us", None):
        world.ok("POST /streams/log/records", {"payload": place, **({"filter": place} if place else {})})
    assert payloads(world.ok("GET /streams/log/records?filters=eu,asia")) == ["eu"]
    assert payloads(world.ok("GET /streams/log/records?filters=eu&match_unfiltered=true")) == ["eu", None]


@pytest.mark.parametrize(
    "query",
    [
        "partition=2",
        "partition=x",
        "offset=-1",
        "offset=soon",
        "offset=1&timestamp=1",
        "timestamp=1e12",
        "wait_seconds=61",
        "max_records=0",
        f"max_records={READ_RECORDS_MAX + 1}",
        f"max_bytes={READ_BYTES_MAX + 1}",
        "filters=" + ",".join("f" for _ in range(FILTERS_MAX + 1)),
        "from=1",
    ],
)
def test_a_question_that_makes_no_sense_is_refused(world: RestWorld, clicks: str, query: str) -> None:
    refused = world.call(f"GET {clicks}?{query}")
    assert (refused.status, refused.headers["content-type"]) == (400, "application/problem+json")


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Is set when a request has looked what there is: only then does it know where "next" was."""
    look, done = tails.look, threading.Event()

    def noted(stream: leveret.Stream, wanted: tails.TailRange) -> tails.TailRecords:
        found = look(stream, wanted)
        done.set()
        return found

    monkeypatch.setattr(tails, "look", noted)
    return done


def test_one_who_waits_gets_what_comes(world: RestWorld, clicks: str, looked: threading.Event) -> None:
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(world.ok("GET /streams/clicks/records?offset=next&partition=1&wait_seconds=60"))
    )
    waiting.start()
    assert looked.wait(PATIENCE_S)
    stream = world.broker.stream("clicks")
    assert stream.stats().waiters == 1
    sent = 0
    while not any(each.partition == 1 for each in stream.send_many([sent])):
        sent += 1
    waiting.join()
    assert payloads(found[0]) == [sent]
    assert stream.stats().waiters == 0


def test_one_who_waits_is_answered_when_the_server_ends(world: RestWorld, clicks: str) -> None:
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(world.ok(f"GET {clicks}?offset=next&wait_seconds=60")))
    waiting.start()
    wait_until(lambda: world.broker.stream("clicks").stats().waiters)
    world.stop()
    waiting.join()
    assert found == [{"records": [], "next_offset": 0}]


def test_one_who_waits_hears_that_the_stream_is_gone(world: RestWorld, clicks: str) -> None:
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(world.call(f"GET {clicks}?wait_seconds=60").status))
    waiting.start()
    wait_until(lambda: world.broker.stream("clicks").stats().waiters)
    world.broker.stream("clicks").delete()
    waiting.join()
    assert found == [404]


def test_a_stream_is_no_queue_to_take_from(world: RestWorld, clicks: str) -> None:
    assert world.call("POST /queues/clicks/dequeue").status == 422
    assert world.call("POST /queues/clicks/purge").status == 422


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    options: dict[str, Any] = {"spare_bytes": 0, "disk_free_min_bytes": 0, "on_failure": "raise"}
    with leveret.open(tmp_path, **options) as broker, RestWorld(broker) as world:
        world.ok("PUT /streams/log")
        world.ok("POST /streams/log/records", {"payload": 0})
        world.ok("POST /streams/log/records/batch", {"records": [{"payload": n} for n in (1, 2)]})
        assert payloads(world.ok("GET /streams/log/records")) == [0, 1, 2]
        joined = world.ok("POST /streams/log/groups/billing/join", {"member": "a"})
        me = {"member": "a", "generation": joined["generation"]}
        world.ok("POST /streams/log/groups/billing/commit", {**me, "offsets": {"0": 2}})
    with leveret.open(tmp_path, **options) as broker, RestWorld(broker) as world:
        assert payloads(world.ok("GET /streams/log/records")) == [0, 1, 2]
        shown = world.ok("GET /streams/log/groups/billing")
        assert (shown["offsets"], shown["members"], shown["total_lag"]) == ({"0": 2}, {}, 1)
        assert world.ok("POST /streams/log/groups/billing/join", {"member": "a"})["generation"] > me["generation"]
