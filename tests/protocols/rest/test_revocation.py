"""Requests that wait while permissions change: they are answered at once, with nothing, and refused the next time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.protocols.rest.world import Answer, RestWorld
from tests.waiting import wait_until

WAIT_S = 60
Change = Callable[[RestWorld], object]


def dequeue(world: RestWorld, token: str) -> Answer:
    return world.call("POST /queues/orders/dequeue", {"wait_seconds": WAIT_S}, token)


def read(world: RestWorld, token: str) -> Answer:
    return world.call(f"GET /streams/clicks/records?offset=next&wait_seconds={WAIT_S}", token=token)


def poll(world: RestWorld, token: str) -> Answer:
    path = "POST /streams/clicks/groups/readers"
    joined = world.ok(f"{path}/join", {"member": "m"}, token=token)
    member = {"member": "m", "generation": joined["generation"], "offsets": {"0": 0}}
    return world.call(f"{path}/poll", {**member, "wait_seconds": WAIT_S}, token)


def found(answer: Answer) -> list[Any]:
    """What a request was given."""
    rows: list[Any] = answer.json.get("messages", answer.json.get("records"))
    return rows


WAITING = {"dequeue": dequeue, "records of a stream": read, "a member of a group": poll}
CHANGES: dict[str, tuple[Change, int]] = {
    "permission narrowed": (lambda world: world.access.set_permission("ann", "/", ".*", ".*", "^x"), 403),
    "permission cleared": (lambda world: world.access.clear_permission("ann", "/"), 403),
    "user deleted": (lambda world: world.access.delete_user("ann"), 401),
    "token deleted": (
        lambda world: world.access.api_keys.delete(
            next(each.number for each in world.access.api_keys if each.user == "ann")
        ),
        401,
    ),
}


@pytest.fixture
def served(world: RestWorld) -> RestWorld:
    """A broker with a queue and a stream with a group."""
    world.ok("PUT /queues/orders")
    world.ok("PUT /streams/clicks")
    world.ok("PUT /streams/clicks/groups/readers")
    return world


def change(world: RestWorld, verb: Change) -> None:
    """Change what users may do, when somebody waits."""
    wait_until(lambda: world.async_broker.polls)
    with world.broker.runtime:
        verb(world)


@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("waiting", WAITING)
def test_one_who_waits_is_answered_at_once_and_refused_then(served: RestWorld, waiting: str, changed: str) -> None:
    token, (verb, status) = served.add_user("ann", ".*", ".*", ".*"), CHANGES[changed]
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(WAITING[waiting], served, token)
        change(served, verb)
        assert found(answer.result()) == []
    served.ok("POST /queues/orders/messages", {"payload": "late"})
    is_queue = waiting == "dequeue"
    path = "POST /queues/orders/dequeue" if is_queue else "GET /streams/clicks/records"
    assert served.call(path, {} if is_queue else None, token).status == status


def test_others_wait_on(served: RestWorld) -> None:
    served.add_user("ann", ".*", ".*", ".*")
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(dequeue, served, served.token)
        change(served, lambda world: world.access.delete_user("ann"))
        served.ok("POST /queues/orders/messages", {"payload": "x"})
        assert [row["payload"] for row in found(answer.result())] == ["x"]
