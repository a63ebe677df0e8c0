"""Reservations and pages over HTTP."""

from typing import Any

import pytest

import leveret
from leveret.core.errors import DamagedJournal
from leveret.core.page import PageColumns, read_page
from leveret.core.reservations import GROUPS_USER_QUEUE_MAX
from leveret.protocols.rest import reservations
from tests.protocols.rest.world import RestWorld

GROUP = "/queues/orders/reservations/spark"


def page(world: RestWorld, line: str) -> PageColumns:
    return read_page(world.ok(f"GET {line}"), "the server")


def number(world: RestWorld) -> int:
    """What the group has reserved."""
    end: int = world.ok(f"GET {GROUP}")["end"]
    return end


def bodies(found: PageColumns) -> list[bytes]:
    ends = memoryview(found.columns["body_ends"]).cast("i")
    return [found.columns["body"][ends[row] : ends[row + 1]] for row in range(found.rows)]


def send(world: RestWorld, *numbers: int, **options: Any) -> None:
    world.broker.queue("orders").send_many([b"%d" % number for number in numbers], **options)


def test_a_reservation_is_read_again_and_acknowledged_by_moving_on(world: RestWorld, orders: leveret.Queue) -> None:
    send(world, *range(10))
    assert world.ok(f"GET {GROUP}") == {"start": 0, "end": 0, "messages": 0, "bytes": 0, "waiting": 10}
    first = world.ok(f"POST {GROUP}", {"start": 0, "max_messages": 4})
    assert (first["start"], first["messages"], first["waiting"]) == (0, 4, 6)
    assert world.ok(f"POST {GROUP}", {"start": 0}) == first
    assert world.ok(f"GET {GROUP}") == first
    for _ in range(2):
        assert bodies(page(world, f"{GROUP}/messages?reservation={number(world)}")) == [b"0", b"1", b"2", b"3"]
    assert bodies(page(world, f"{GROUP}/messages?reservation={number(world)}&at=1&end=3")) == [b"1", b"2"]
    assert bodies(page(world, f"{GROUP}/messages?reservation={number(world)}&at=3&end=1")) == []
    assert world.ok(f"POST {GROUP}", {"start": first["end"]})["end"] == first["end"] + 1
    assert world.broker.queue("orders").stats().acked == 4


def test_a_page_tells_all_about_a_message(world: RestWorld, orders: leveret.Queue) -> None:
    world.broker.queue("urgent", max_priority=9).send(b"body", priority=7, ttl=60, headers={"a": 1})
    told = world.ok("POST /queues/urgent/reservations/spark")
    found = page(world, f"/queues/urgent/reservations/spark/messages?reservation={told['end']}")
    now_ms = world.broker.runtime.core.now_ms
    numbers = {
        name: memoryview(found.columns[name]).cast("q")[0] for name in ("seq", "enqueued_ms", "expiry_ms", "bytes")
    }
    assert numbers == {"seq": 1, "enqueued_ms": now_ms, "expiry_ms": now_ms + 60_000, "bytes": 4}
    assert [memoryview(found.columns[name]).cast("i")[0] for name in ("priority", "deliveries")] == [7, 1]
    assert found.columns["route"] == b"\x00\x06urgent"


def test_pages_follow_each_other(world: RestWorld, orders: leveret.Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations, "PAGE_BYTES", 500)
    monkeypatch.setattr(reservations, "STEP", 3)
    send(world, *range(40))
    for line in "/queues/orders/pages?after=", f"{GROUP}/messages?reservation={number(world)}&at=":
        if "reservation=" in line:
            line = line.replace("reservation=0", f"reservation={world.ok(f'POST {GROUP}', {'start': 0})['end']}")
        found, pages, at = [], 0, "" if "pages" in line else "0"
        while True:
            answer = page(world, line + at)
            found += bodies(answer)
            pages += 1
            at = answer.next_at
            if not at:
                break
        assert found == [b"%d" % number for number in range(40)]
        assert pages > 2


def test_looking_takes_nothing_and_knows_conditions(world: RestWorld, orders: leveret.Queue) -> None:
    send(world, 1, 2, 3)
    assert bodies(page(world, "/queues/orders/pages")) == [b"1", b"2", b"3"]
    assert bodies(page(world, "/queues/orders/pages?contains=2")) == [b"2"]
    assert len(orders) == 3
    assert world.call("GET /queues/orders/pages?after=1.2.3").status == 400
    assert bodies(page(world, "/queues/orders/pages?after=99.2.3.4")) == []


def test_a_lease_is_renewed_or_ends(world: RestWorld, orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    send(world, 1)
    world.ok(f"POST {GROUP}", {"start": 0, "lease_seconds": 10})
    clock.advance(9)
    world.ok(f"PATCH {GROUP}", {"lease_seconds": 10})
    clock.advance(9)
    assert len(orders) == 0
    clock.advance(1)
    assert len(orders) == 1
    assert bodies(page(world, f"{GROUP}/messages?reservation={number(world)}")) == [b"1"]
    world.ok(f"PATCH {GROUP}", {})
    clock.advance(86_400)
    assert len(orders) == 0
    (row,) = world.ok("GET /queues/orders/reservations")["groups"]
    assert (row["messages"], row["lease_seconds"], row["idle_seconds"]) == (1, None, 86_400)
    old = number(world)
    assert world.call(f"DELETE {GROUP}").status == 204
    refused = world.call(f"POST {GROUP}", {"start": old})
    assert (refused.status, len(orders)) == (409, 1)
    assert "an operator released the reservation" in refused.json["detail"]


def test_what_makes_no_sense_is_refused(world: RestWorld, orders: leveret.Queue) -> None:
    send(world, 1)
    assert world.call(f"GET {GROUP}/messages?reservation={number(world)}").status == 404
    assert world.call(f"GET {GROUP}/messages").status == 400
    assert world.call(f"PATCH {GROUP}", {}).status == 404
    assert world.call(f"DELETE {GROUP}").status == 404
    assert world.call(f"POST {GROUP}", {"start": 5}).status == 409
    assert world.call(f"POST {GROUP}", {"max_messages": 1_000_001}).status == 400
    assert world.call(f"POST {GROUP}", {"lease_seconds": 0.1}).status == 400
    world.ok(f"POST {GROUP}", {"start": 0})
    assert world.call(f"DELETE {GROUP}").status == 204
    assert len(orders) == 1


def test_a_user_that_takes_all_groups_it_can_leaves_some_to_others(world: RestWorld, orders: leveret.Queue) -> None:
    send(world, *range(1_100))
    greedy, spark = world.add_user("greedy", read=".*"), world.add_user("spark", read="^orders$")
    path, body = "POST /queues/orders/reservations", {"start": 0, "max_messages": 1}
    answers = [world.call(f"{path}/g{number}", body, token=greedy) for number in range(60)]
    assert [answer.status for answer in answers] == [200] * GROUPS_USER_QUEUE_MAX + [429] * 10
    assert "delete those that no query uses" in answers[-1].json["detail"]
    assert world.ok(f"{path}/mine", body, token=spark)["messages"] == 1
    listed = world.ok("GET /queues/orders/reservations", token=spark)["groups"]
    assert [(row["name"], row["messages"]) for row in listed if row["user"] == "spark"] == [("mine", 1)]
    assert len(listed) == GROUPS_USER_QUEUE_MAX + 1
    world.ok("DELETE /queues/orders/reservations/g0", token=greedy)
    assert world.call(f"{path}/again", body, token=greedy).status == 200


def test_reservations_need_read_permission_each_time(world: RestWorld, orders: leveret.Queue) -> None:
    send(world, 1, 2)
    token = world.add_user("app", write=".*", configure=".*")
    assert world.call(f"POST {GROUP}", {"start": 0}, token=token).status == 403
    assert world.ok("GET /queues/orders/reservations") == {"groups": []}
    with world.broker.runtime:
        world.access.set_permission("app", "/", "", "", ".*")
    world.ok(f"POST {GROUP}", {"start": 0}, token=token)
    with world.broker.runtime:
        world.access.set_permission("app", "/", "", "", "^other$")
    lines: list[tuple[str, Any]] = [
        (f"POST {GROUP}", {"start": 1}),
        (f"PATCH {GROUP}", {}),
        (f"GET {GROUP}", None),
        (f"GET {GROUP}/messages?reservation={number(world)}", None),
        (f"DELETE {GROUP}", None),
        ("GET /queues/orders/reservations", None),
    ]
    assert [world.call(line, body, token=token).status for line, body in lines] == [403] * len(lines)


@pytest.mark.parametrize("cut", [0, 5, 20, -1])
def test_a_page_that_was_changed_on_its_way_is_refused(world: RestWorld, orders: leveret.Queue, cut: int) -> None:
    send(world, 1, 2)
    whole = world.ok("GET /queues/orders/pages")
    for bad in whole[:cut], whole[:9] + b"\xff" + whole[10:]:
        with pytest.raises(DamagedJournal, match="what the server sent"):
            read_page(bad, "the server")


def test_a_share_that_is_none_is_refused(world: RestWorld) -> None:
    world.broker.queue("orders").send(b"1")
    world.ok(f"POST {GROUP}", {"start": 0})
    assert world.call(f"GET {GROUP}/messages?reservation={number(world)}&share=2&shares=2").status == 400
    assert world.call(f"GET {GROUP}/messages?reservation={number(world)}&shares=1001").status == 400
