"""Who may do what over REST: every operation by every kind of access, tokens, rates, the audit log."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.observability.audit import Audit
from leveret.protocols.rest.api import OPEN_PATHS, OPERATIONS
from leveret.protocols.rest.operation import RestOperation
from tests.protocols.rest.world import VERBS, RestWorld

MEMBER = {"member": "a", "generation": 1}
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/queues/{queue}/messages"): {"payload": 1},
    ("POST", "/queues/{queue}/messages/batch"): {"messages": [{"payload": 1}]},
    ("POST", "/queues/{queue}/discard"): {"filter": {"contains": "a"}},
    ("POST", "/exchanges/{exchange}/messages"): {"payload": 1},
    ("POST", "/exchanges/{exchange}/bindings"): {"destination": "orders"},
    ("DELETE", "/exchanges/{exchange}/bindings"): {"destination": "orders"},
    ("POST", "/streams/{stream}/records"): {"payload": 1},
    ("POST", "/streams/{stream}/records/batch"): {"records": [{"payload": 1}]},
    ("POST", "/streams/{stream}/groups/{group}/join"): {"member": "a"},
    ("POST", "/streams/{stream}/groups/{group}/leave"): {"member": "a"},
    ("POST", "/streams/{stream}/groups/{group}/heartbeat"): MEMBER,
    ("POST", "/streams/{stream}/groups/{group}/commit"): {**MEMBER, "offsets": {}},
    ("POST", "/streams/{stream}/groups/{group}/poll"): {**MEMBER, "offsets": {}},
    ("POST", "/streams/{stream}/groups/{group}/reset"): {"to": "latest"},
}
NAMES = {
    "queue": "orders",
    "exchange": "events",
    "message_id": "m",
    "stream": "clicks",
    "group": "billing",
    "sink": "loads",
    "part": "0-0",
    "piece": "0",
    "batch": "1",
}
NEEDING = [operation for operation in OPERATIONS if operation.registered.rule.rights]


def named(operation: RestOperation) -> str:
    return f"{operation.method} {operation.path}"


def line(operation: RestOperation) -> str:
    return f"{operation.method} {operation.path.format_map(NAMES)}"


@pytest.fixture
def stocked(world: RestWorld, orders: leveret.Queue) -> RestWorld:
    world.ok("PUT /exchanges/events", {"type": "topic"})
    world.ok("PUT /streams/clicks")
    world.ok("PUT /streams/clicks/groups/billing")
    return world


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_nobody_may_do_anything_without_a_login(world: RestWorld, operation: RestOperation) -> None:
    refused = world.call(line(operation), token="")
    assert refused.status == 401
    assert "www-authenticate" in refused.headers


@pytest.mark.parametrize("by", ["permission", "scope"])
@pytest.mark.parametrize("operation", NEEDING, ids=named)
def test_each_operation_needs_its_access(stocked: RestWorld, operation: RestOperation, by: str) -> None:
    body = BODIES.get((operation.method, operation.path))
    others = [each for each in VERBS if each != operation.registered.rule.rights[0].access]
    if by == "permission":
        token = stocked.add_user("one", **dict.fromkeys(others, ".*"))
    else:
        token = stocked.add_token("guest", [f"{each}:*" for each in others])
    assert stocked.call(line(operation), body, token=token).status == 403


@pytest.mark.parametrize("operation", NEEDING, ids=named)
def test_each_operation_is_allowed_to_who_has_its_access(stocked: RestWorld, operation: RestOperation) -> None:
    access = dict.fromkeys({right.access for right in operation.registered.rule.rights if not right.only_with}, ".*")
    token = stocked.add_user("one", **access)
    body = BODIES.get((operation.method, operation.path))
    assert stocked.call(line(operation), body, token=token).status not in (401, 403)


def test_patterns_of_scopes_and_permissions_both_count(stocked: RestWorld) -> None:
    token = stocked.add_user("shop", write="^orders$")
    assert stocked.call("POST /queues/orders/messages", {"payload": 1}, token=token).status == 201
    assert stocked.call("POST /queues/dlq/messages", {"payload": 1}, token=token).status == 403
    narrow = stocked.add_token("shop", ["write:other*"])
    refused = stocked.call("POST /queues/orders/messages", {"payload": 1}, token=narrow)
    assert (refused.status, "write:orders" in refused.json["detail"]) == (403, True)


def test_side_effects_need_access_too(stocked: RestWorld) -> None:
    token = stocked.add_user("one", configure="^(orders|mine)$", read=".*")
    make = "PUT /queues/mine"
    assert stocked.call(make, {"dead_letter": "dlq"}, token=token).status == 403
    assert stocked.call(make, {"arguments": {"x-dead-letter-exchange": "events"}}, token=token).status == 403
    assert stocked.call(make, token=token).status == 201
    assert stocked.call("POST /queues/orders/redrive", {"to": "dlq"}, token=token).status == 403
    assert stocked.call("POST /exchanges/events/bindings", {"destination": "dlq"}, token=token).status == 403
    made = stocked.call("PUT /exchanges/mine", {"arguments": {"alternate-exchange": "events"}}, token=token)
    assert made.status == 403


def test_keys_of_topic_exchanges_are_checked(stocked: RestWorld) -> None:
    token = stocked.add_user("one", write=".*", read=".*")
    with stocked.broker.runtime:
        stocked.access.set_topic_permission("one", "/", "events", "^a\\.", "^a\\.")
    publish = "POST /exchanges/events/messages"
    assert stocked.call(publish, {"payload": 1, "routing_key": "a.b"}, token=token).status == 200
    assert stocked.call(publish, {"payload": 1, "routing_key": "b.a"}, token=token).status == 403
    bind = "POST /exchanges/events/bindings"
    assert stocked.call(bind, {"destination": "orders", "routing_key": "b.#"}, token=token).status == 403


def test_lists_show_what_one_may_use(stocked: RestWorld) -> None:
    token = stocked.add_user("one", read="^orders$")
    assert [row["name"] for row in stocked.ok("GET /queues", token=token)["queues"]] == ["orders"]
    assert stocked.ok("GET /exchanges", token=token)["exchanges"] == []


def test_passwords_open_too(world: RestWorld) -> None:
    basic = "Basic " + base64.b64encode(b"guest:guest").decode()
    assert world.call("GET /queues", Authorization=basic).status == 200
    wrong = "Basic " + base64.b64encode(b"guest:wrong").decode()
    assert world.call("GET /queues", Authorization=wrong).status == 401


def test_a_token_that_has_ended_is_refused(world: RestWorld, clock: leveret.ManualClock) -> None:
    token = world.add_token("guest", ["*:*"], lifetime_ms=1_000)
    assert world.call("GET /queues", token=token).status == 200
    clock.advance(1)
    assert world.call("GET /queues", token=token).status == 401


def test_only_administrators_see_the_audit_log(world: RestWorld) -> None:
    world.call("PUT /queues/orders")
    world.call("PUT /queues/orders", {"visibility_timeout": 1})
    plain = world.add_token("guest", ["*:*"])
    assert world.call("GET /audit", token=plain).status == 403
    assert world.call("PUT /queues/other", token=world.add_user("one")).status == 403
    acts = world.ok("GET /audit?limit=3")["acts"]
    assert [(act["by"], act["path"], act["outcome"] == "done") for act in acts] == [
        ("one", "/queues/other", False),
        ("guest", "/queues/orders", False),
        ("guest", "/queues/orders", True),
    ]


def test_what_is_done_to_many_messages_is_noted_with_filter_preview_and_count(world: RestWorld) -> None:
    for name in ("from", "to"):
        world.ok(f"PUT /queues/{name}", {})
    for number in range(5):
        world.ok("POST /queues/from/messages", {"payload": f"message {number}"})
    world.ok("POST /queues/from/redrive", {"to": "to", "dry_run": True, "filter": {"contains": "message 1"}})
    row = world.audit.recent(1)[0]
    assert (row["to"], row["dry_run"], row["filter"], row["matched"], row["moved"]) == (
        "to", True, "{'contains': 'message 1'}", 1, 0,
    )  # fmt: skip
    world.ok("POST /queues/from/redrive", {"to": "to", "limit": 2})
    assert {"to": "to", "limit": 2, "matched": 2, "moved": 2}.items() <= world.audit.recent(1)[0].items()
    world.ok("POST /queues/from/discard", {"filter": {"contains": "message 3"}})
    assert {"matched": 1, "filter": "{'contains': 'message 3'}"}.items() <= world.audit.recent(1)[0].items()
    world.ok("POST /queues/to/purge")
    assert world.audit.recent(1)[0]["purged"] == 2
    assert world.call("POST /queues/from/redrive", {"to": "to", "limit": 0}).status == 400
    assert {"kind": "refusals", "limit": 0}.items() <= world.audit.recent(1)[0].items()


def test_acts_survive_a_restart_in_bounded_files(tmp_path: Path) -> None:
    clock = leveret.ManualClock()
    audit = Audit(clock, str(tmp_path), bytes_max=1_000)
    for number in range(100):
        audit.note("alice", "PUT /queues/{queue}", path=f"/queues/q{number}", password="x")
    with (tmp_path / "audit.jsonl").open("a") as file:
        file.write('{"cut off')
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert (len(sizes), max(sizes) <= 1_010) == (2, True)
    again = Audit(clock, str(tmp_path)).recent(2)
    assert [(row["path"], row["password"]) for row in again] == [
        ("/queues/q99", "(hidden)"),
        ("/queues/q98", "(hidden)"),
    ]


def test_a_disk_that_takes_nothing_does_not_stop_the_act(tmp_path: Path) -> None:
    audit = Audit(leveret.ManualClock(), str(tmp_path / "not there"))
    audit.note("alice", "act")
    assert audit.recent()[0]["act"] == "act"


def test_too_many_requests_are_told_when_to_come_again(clock: leveret.ManualClock) -> None:
    with leveret.open(clock=clock) as broker, RestWorld(broker, http_rate_max=2, http_burst_max=3) as world:
        statuses = [world.call("GET /queues").status for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        assert world.call("GET /queues", token=world.add_user("other")).status == 200
        refused = world.call("GET /queues")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        clock.advance(0.5)
        assert world.call("GET /queues").status == 200


def test_the_documents_need_no_login(world: RestWorld) -> None:
    for path in OPEN_PATHS:
        assert world.call(f"GET {path.decode()}", token="").status == 200


def test_web_pages_of_named_origins_may_ask(clock: leveret.ManualClock) -> None:
    with leveret.open(clock=clock) as broker, RestWorld(broker, http_origins="https://a.example") as world:
        answer = world.call("GET /queues", Origin="https://a.example")
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        assert "access-control-allow-origin" not in world.call("GET /queues", Origin="https://b.example").headers


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "garbage"])
def test_a_page_of_a_stranger_changes_nothing(world: RestWorld, orders: leveret.Queue, origin: str) -> None:
    orders.send("x")
    assert world.call("POST /queues/orders/purge", Origin=origin).status == 403
    assert world.call("GET /queues/orders", Origin=origin).status == 200
    assert len(orders) == 1
    assert world.call("POST /queues/orders/purge", Origin=world.url).status == 200


def test_a_page_of_a_named_origin_may_change_something(clock: leveret.ManualClock) -> None:
    with leveret.open(clock=clock) as broker, RestWorld(broker, http_origins="https://a.example") as world:
        assert world.call("PUT /queues/orders", Origin="https://a.example").status == 201
        assert world.call("PUT /queues/orders", Origin="https://b.example").status == 403


def test_a_slow_body_does_not_hold_up_others(world: RestWorld, orders: leveret.Queue) -> None:
    async def scenario() -> list[int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        head = f"POST /queues/orders/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {world.token}\r\n"
        body = json.dumps({"payload": "slow"}).encode()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        statuses = []
        for at in range(0, len(body), 5):
            writer.write(body[at : at + 5])
            await writer.drain()
            answer = await asyncio.to_thread(world.call, "POST /queues/orders/messages", {"payload": "quick"})
            statuses.append(answer.status)
        statuses.append(int((await reader.readline()).split()[1]))
        writer.close()
        await writer.wait_closed()
        return statuses

    assert set(asyncio.run(scenario())) == {201}
