"""Two servers that share a Redis: what one knows of a client, the other knows."""

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import leveret
from leveret.security import logins
from tests.protocols.rest.world import RestWorld
from tests.redis_process import RedisProcess, be_patient
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    with RedisProcess(tmp_path_factory.mktemp("redis")) as process:
        yield process


@pytest.fixture
def worlds(redis_server: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes servers with the same users, each with a broker of its own."""
    monkeypatch.setattr(logins, "DELAYS_MS", (10, 10))
    be_patient(monkeypatch)
    redis_server.command("FLUSHALL")
    with ExitStack() as stack:

        def made(**options: Any) -> list[RestWorld]:
            brokers = [stack.enter_context(leveret.open()) for _ in range(2)]
            return [stack.enter_context(RestWorld(each, redis=redis_server.url, **options)) for each in brokers]

        yield made


def test_a_request_that_was_answered_is_answered_again_by_the_other_server(worlds: Any) -> None:
    first, second = worlds()
    first.ok("PUT /queues/orders")
    first.ok("POST /queues/orders/messages", {"payload": 1})
    taken = first.call("POST /queues/orders/dequeue", {}, Idempotency_Key="k")
    again = second.call("POST /queues/orders/dequeue", {}, Idempotency_Key="k")
    assert len(taken.json["messages"]) == 1
    assert (again.status, again.json) == (taken.status, taken.json)
    assert (taken.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    assert second.call("POST /queues/orders/dequeue", {"max_messages": 2}, Idempotency_Key="k").status == 422
    nobody = second.add_user("eve")
    assert second.call("POST /queues/orders/dequeue", {}, nobody, Idempotency_Key="k").status == 403


def test_what_is_audited_is_done_once_and_audited_each_time(worlds: Any) -> None:
    first, _ = worlds()
    made = [first.call("PUT /queues/orders", {}, Idempotency_Key="k").status for _ in range(2)]
    assert made == [201, 201]
    acts = [act["act"] for act in first.ok("GET /audit")["acts"]]
    assert acts == ["PUT /queues/{queue}"] * 2


def test_servers_share_the_rate_of_a_user(worlds: Any) -> None:
    first, second = worlds(http_rate_max=1, http_burst_max=40)
    used = 0
    while first.call("GET /queues").status == 200:
        used += 1
    assert used >= 40
    wait_until(lambda: second.call("GET /queues").status != 200)
    assert second.shared.throttle.refused >= 1


def test_servers_count_wrong_logins_together(worlds: Any, redis_server: RedisProcess) -> None:
    for world in worlds():
        wrong = base64.b64encode(b"guest:wrong").decode()
        assert world.call("GET /queues", token="", Authorization=f"Basic {wrong}").status == 401
        assert world.call("GET /queues", token="lev_wrong").status == 401
    counts = [redis_server.command("GET", key) for key in redis_server.key_names if "/login/" in key]
    assert counts == [b"2"] * 3  # by name, by address, and of tokens by address
