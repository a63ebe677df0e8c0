"""Deliveries that are not settled, against a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.broker import Broker
from leveret.core.held import Held
from leveret.core.ports import Journal
from leveret.protocols.amqp.unacked import Unacked


def deliveries(count: int) -> list[Held]:
    core = Broker(Journal())
    queue = core.declare_queue("/", "q")
    core.send_many(queue, bytes(14).replace(bytes(2), b"\x00\x3c", 1), [b""] * count)
    return queue.take(count)


HELD = deliveries(64)


@given(st.lists(st.tuples(st.sampled_from(["push", "get", "pop"]), st.integers(0, 80))))
def test_unacked_is_an_ordered_dictionary(steps: list[tuple[str, int]]) -> None:
    unacked, model, tag = Unacked(), dict[int, Held](), 0
    for step, number in steps:
        if step == "push":
            tag += 1 + (number == 80)
            unacked.append(tag, HELD[number % 64])
            model[tag] = HELD[number % 64]
        elif step == "get":
            assert unacked.get(number) is model.get(number)
        else:
            assert unacked.pop(number) is model.pop(number, None)
        assert len(unacked) == len(model)
        assert unacked.tags(tag - 3 if tag > 3 else tag, number) == [
            each for each in model if number < each <= (tag - 3 if tag > 3 else tag)
        ]
    assert unacked.take_all() == [(each, held.lease, held) for each, held in model.items()]
    assert len(unacked) == 0


def test_memory_does_not_grow_with_what_was_settled() -> None:
    unacked = Unacked()
    unacked.append(1, HELD[0])
    for tag in range(2, 100_000):
        unacked.append(tag, HELD[1])
        unacked.pop(tag)
    assert unacked.get(1) is HELD[0]
    assert unacked.capacity <= 64
