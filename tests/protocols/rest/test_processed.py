"""What workers have done is remembered beside their queue."""

import leveret
from tests.protocols.rest.world import RestWorld

ASK = "GET /queues/orders/processed/{}?worker={}"


def finish(world: RestWorld, message_id: str, receipt: str, worker: str = "w") -> int:
    body = {"receipt_handle": receipt, "worker": worker}
    return world.call(f"POST /queues/orders/messages/{message_id}/finish", body).status


def known(world: RestWorld, message_id: str, worker: str = "w") -> bool:
    found: bool = world.ok(ASK.format(message_id, worker))["processed"]
    return found


def test_a_finished_message_is_gone_and_known(world: RestWorld, orders: leveret.Queue) -> None:
    world.ok("PUT /queues/orders.processed", {})
    orders.send("x")
    message = world.take("orders")
    assert not known(world, message["message_id"])
    assert finish(world, message["message_id"], message["receipt_handle"]) == 204
    assert known(world, message["message_id"])
    assert not known(world, message["message_id"], "another")
    assert orders.stats().acked == 1


def test_what_was_handled_too_late_is_known_all_the_same(
    world: RestWorld, orders: leveret.Queue, clock: leveret.ManualClock
) -> None:
    world.ok("PUT /queues/orders.processed", {})
    orders.send("x")
    message = world.take("orders", visibility_timeout=1)
    clock.advance(2)
    assert finish(world, message["message_id"], message["receipt_handle"]) == 409
    assert known(world, message["message_id"])
    assert orders.stats().acked == 0


def test_receipts_that_are_none_are_not_remembered(world: RestWorld, orders: leveret.Queue) -> None:
    world.ok("PUT /queues/orders.processed", {})
    assert finish(world, "some", "bad") == 409
    assert not known(world, "some")


def test_without_a_memory_there_is_advice(world: RestWorld, orders: leveret.Queue) -> None:
    refused = world.call(ASK.format("m", "w"))
    assert (refused.status, "make the queue 'orders.processed'" in refused.json["detail"]) == (404, True)
