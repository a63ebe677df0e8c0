"""Dead letters through real queues: their history, cycles, chains, and what must not stop a burial."""

from typing import Any

from tests.core.world import World, headers_of, ready, take, text

TO_DLQ: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "dlq"}


def reject_next(world: World, name: str) -> None:
    """Take the first message of a queue and reject it."""
    queue = world.again(name)
    held = take(queue)[0]
    queue.reject(held, held.lease)


def test_a_rejected_message_tells_where_and_why_it_died(world: World) -> None:
    dead, queue = world.queue("dlq"), world.queue(**TO_DLQ)
    seq = world.send(queue, "a", {"mine": 1})
    reject_next(world, "q")
    headers = headers_of(take(dead)[0])
    death = headers["x-death"][0]
    assert headers["mine"] == 1
    assert headers["x-origin-id"].endswith(f"{seq:012x}")
    assert {name: headers[f"x-first-death-{name}"] for name in ("queue", "reason", "exchange")} == {
        "queue": "q",
        "reason": "rejected",
        "exchange": "",
    }
    assert (death["count"], death["queue"], death["reason"]) == (1, "q", "rejected")
    assert (death["exchange"], death["routing-keys"]) == ("", ["q"])
    assert death["time"].timestamp() == world.now_ms // 1000


def test_the_newest_death_is_in_front_and_counts_its_repetitions(world: World) -> None:
    world.queue("one", dead_letter_exchange="", dead_letter_routing_key="two")
    world.queue("two", dead_letter_exchange="", dead_letter_routing_key="one")
    world.send(world.again("one"))
    for name in ("one", "two", "one"):
        reject_next(world, name)
    headers = headers_of(take(world.again("two"))[0])
    assert [(death["queue"], death["count"]) for death in headers["x-death"]] == [("one", 2), ("two", 1)]
    assert (headers["x-first-death-queue"], headers["x-last-death-queue"]) == ("one", "one")


def test_a_message_that_only_expires_does_not_go_round_for_ever(world: World) -> None:
    one = world.queue("one", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="two")
    two = world.queue("two", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="one")
    world.send(one)
    world.pass_ms(10)
    assert (one.depth, two.depth) == (0, 1)
    world.pass_ms(10)
    assert (one.depth, two.depth) == (0, 0)


def test_a_consumer_that_rejects_breaks_the_cycle_rule(world: World) -> None:
    one = world.queue("one", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="two")
    world.queue("two", dead_letter_exchange="", dead_letter_routing_key="one")
    world.send(one)
    world.pass_ms(10)
    reject_next(world, "two")
    assert one.depth == 1


def test_a_nack_at_the_limit_dead_letters_and_the_queue_goes_on(world: World) -> None:
    dead, queue = world.queue("dlq"), world.queue(max_receive_count=1, **TO_DLQ)
    world.send_all(queue, "ab")
    held = take(queue)[0]
    world.broker.nack(queue, held, held.lease)
    assert (ready(dead), ready(queue), queue.leased) == ("a", "b", 0)


def test_a_message_may_die_into_its_own_queue(world: World) -> None:
    queue = world.queue(dead_letter_exchange="", dead_letter_routing_key="q")
    world.send_all(queue, "ab")
    reject_next(world, "q")
    assert ready(queue) == "ba"


def test_without_a_dead_letter_exchange_or_with_a_missing_one_the_message_is_dropped(world: World) -> None:
    world.queue("none")
    world.queue("missing", dead_letter_exchange="nowhere")
    for name in ("none", "missing"):
        world.send(world.again(name))
        reject_next(world, name)
        assert (world.again(name).depth, world.again(name).counts["rejected"]) == (0, 1)
    assert not world.broker.journal.bodies


def test_a_dead_letter_keeps_priority_but_not_its_expiry(world: World) -> None:
    dead, queue = world.queue("dlq", max_priority=9), world.queue(max_priority=9, **TO_DLQ)
    world.send(queue, "a", priority=7, expiry_ms=world.now_ms + 10)
    world.pass_ms(10)
    held = take(dead)[0]
    assert (held.priority, held.expiry_ms) == (7, 0)


def test_a_dead_letter_goes_through_an_exchange_to_every_queue_bound_there(world: World) -> None:
    world.broker.declare_exchange("/", "dead", "topic")
    for name, key in (("all", "#"), ("orders", "orders.*"), ("other", "other")):
        world.queue(name)
        world.broker.bind("/", "dead", name, key)
    queue = world.queue("orders.new", dead_letter_exchange="dead")
    world.send(queue)
    reject_next(world, "orders.new")
    assert [world.again(name).depth for name in ("all", "orders", "other")] == [1, 1, 0]


def test_a_dead_letter_may_go_through_an_internal_exchange(world: World) -> None:
    world.queue("dead")
    world.broker.declare_exchange("/", "morgue", "fanout", internal=True)
    world.broker.bind("/", "morgue", "dead")
    world.send(world.queue("orders", dead_letter_exchange="morgue"))
    reject_next(world, "orders")
    assert world.again("dead").depth == 1


def test_two_full_queues_that_push_into_each_other_do_not_exhaust_the_stack(world: World) -> None:
    length = 3_000
    queues = [
        world.queue(name, max_length=length, dead_letter_exchange="", dead_letter_routing_key=other)
        for name, other in (("one", "two"), ("two", "one"))
    ]
    for queue in queues:
        world.send_all(queue, "m" * length)
    world.send(queues[0], "last")
    assert [queue.depth for queue in queues] == [length, length]


def test_a_dead_letter_that_its_queue_cannot_take_is_dropped_and_the_lease_ends(world: World) -> None:
    dead = world.queue("dlq", max_message_size=1)
    queue = world.queue(max_receive_count=1, **TO_DLQ)
    world.send(queue, "long")
    take(queue, 1, 10)
    world.pass_ms(10)
    assert (queue.depth, queue.leased, dead.depth) == (0, 0, 0)


def test_a_cc_header_that_is_none_does_not_stop_a_burial(world: World) -> None:
    dead, queue = world.queue("dlq"), world.queue(**TO_DLQ)
    world.send(queue, "a", {"CC": "not a list"})
    reject_next(world, "q")
    assert headers_of(take(dead)[0])["x-death"][0]["routing-keys"] == ["q"]


def test_dead_letters_survive_a_restart_and_their_originals_stay_dead(disk: World) -> None:
    disk.queue("dlq")
    queue = disk.queue(**TO_DLQ)
    disk.send_all(queue, "ab")
    reject_next(disk, "q")
    disk.restart()
    assert (ready(disk.again()), ready(disk.again("dlq"))) == ("b", "a")
    assert headers_of(take(disk.again("dlq"))[0])["x-death"][0]["queue"] == "q"


def test_a_transient_message_dies_as_a_transient_one(disk: World) -> None:
    disk.queue("dlq")
    disk.send(disk.queue(**TO_DLQ), "a", persistent=False)
    reject_next(disk, "q")
    assert [text(held) for held in disk.again("dlq").take(1)] == ["a"]
    disk.restart()
    assert disk.again("dlq").depth == 0


def test_a_dead_letter_tells_how_often_it_was_delivered_before(world: World) -> None:
    dead, queue = world.queue("dlq"), world.queue(max_receive_count=3, **TO_DLQ)
    world.send(queue, "a", {"x-received": -5})
    for _ in range(3):
        take(queue, 1, 100)
        world.pass_ms(100)
    assert headers_of(take(dead)[0])["x-received"] == 3
