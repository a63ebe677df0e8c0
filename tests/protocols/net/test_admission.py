"""Budgets of connections: what is refused, what is evicted, and that every count is right at every moment."""

from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.config import ServerOptions
from leveret.protocols.net.admission import RESERVE_MAX, Admissions, ConnectionBudget, Crowd, Slot

HERE, THERE = "192.0.2.1", "192.0.2.2"


class Gate:
    """An admission, and which of its connections were evicted."""

    def __init__(self, admission: ConnectionBudget) -> None:
        self.admission = admission
        self.evicted: list[str] = []

    def enter(self, host: str, name: str = "") -> Slot:
        slot = self.admission.enter(host, 1)
        assert slot is not None
        slot.evict = partial(self.evicted.append, name)
        return slot

    def refuses(self, host: str) -> bool:
        return self.admission.enter(host, 1) is None


def test_connections_are_limited() -> None:
    gate = Gate(ConnectionBudget(2, 100, 100))
    slots = [gate.enter(HERE), gate.enter(THERE)]
    for slot in slots:
        slot.authenticate()
    assert gate.refuses("192.0.2.3")
    assert gate.admission.refused.count == 1
    slots[0].leave()
    assert not gate.refuses("192.0.2.3")
    assert gate.evicted == []


def test_connections_of_one_address_are_limited() -> None:
    gate = Gate(ConnectionBudget(100, 1, 100))
    slot = gate.enter(HERE)
    slot.authenticate()
    assert gate.refuses(HERE)
    assert gate.refuses(f"::ffff:{HERE}"), "the same address in other clothes"
    assert not gate.refuses(THERE)
    slot.leave()
    assert not gate.refuses(HERE)


def test_a_customer_of_ipv6_is_one_address() -> None:
    gate = Gate(ConnectionBudget(100, 1, 100))
    gate.enter("2001:db8::1").authenticate()
    assert gate.refuses("2001:db8::ffff")
    assert not gate.refuses("2001:db8:0:1::1")


@pytest.mark.parametrize("limits", [(100, 100, 3), (100, 100, 100, 3), (3, 100, 100), (100, 3, 100)])
def test_a_half_open_connection_keeps_no_new_one_out(limits: tuple[int, ...]) -> None:
    gate = Gate(ConnectionBudget(*limits))
    for number in range(10):
        gate.enter(HERE, str(number))
        assert (gate.admission.connections, gate.admission.half_open) == (min(number + 1, 3),) * 2
    assert gate.evicted == list("0123456"), "the oldest first"
    assert gate.admission.evicted.count == 7
    assert gate.admission.refused.count == 0


def test_the_address_with_the_most_half_open_connections_loses_one() -> None:
    gate = Gate(ConnectionBudget(100, 100, 5))
    gate.enter(THERE, "old")
    for number in range(10):
        gate.enter(HERE, str(number))
    assert gate.evicted == list("012345")
    gate.enter(THERE, "new")
    assert gate.evicted == list("0123456")


def test_authenticated_connections_are_not_evicted() -> None:
    gate = Gate(ConnectionBudget(4, 100, 2))
    for name in "ab":
        gate.enter(HERE, name).authenticate()
    for name in "cdefg":
        gate.enter(HERE, name)
    assert gate.evicted == ["c", "d", "e"]
    assert (gate.admission.connections, gate.admission.half_open) == (4, 2)


def test_an_evicted_connection_that_leaves_or_authenticates_later_counts_no_second_time() -> None:
    gate = Gate(ConnectionBudget(100, 100, 1))
    first = gate.enter(HERE, "first")
    second = gate.enter(HERE, "second")
    assert gate.evicted == ["first"]
    first.authenticate()
    first.leave()
    assert (gate.admission.connections, gate.admission.half_open) == (1, 1)
    second.leave()
    second.leave()
    assert (gate.admission.connections, gate.admission.half_open) == (0, 0)


@pytest.mark.parametrize("limits", [(2, 100, 100), (100, 2, 100)])
def test_connections_beyond_the_budget_come_from_the_reserve(limits: tuple[int, int, int]) -> None:
    gate = Gate(ConnectionBudget(*limits, reserve_max=2))
    for _ in range(2):
        gate.enter(HERE).authenticate()
    reserved = [gate.enter(HERE, name) for name in "abc"]
    assert all(slot.reserved for slot in reserved)
    assert gate.evicted == ["a"]
    assert (gate.admission.connections, gate.admission.reserved) == (2, 2)
    reserved[1].authenticate()
    gate.enter(HERE, "d")
    assert gate.evicted == ["a", "b"], "in the reserve a login changes nothing"
    for slot in reserved:
        slot.leave()
    assert (gate.admission.connections, gate.admission.reserved) == (2, 1)


def test_room_is_made_by_the_protocol_with_the_most_half_open_connections_then_by_idle_ones() -> None:
    amqp, http, sqs = Admissions.of(ServerOptions())
    gates = {each.listener: Gate(each) for each in (amqp, http, sqs)}
    gates["http"].enter(HERE, "http")
    for name in "ab":
        gates["sqs"].enter(HERE, name)
    assert amqp.make_room()
    assert gates["sqs"].evicted == ["a"]
    assert amqp.make_room()
    assert amqp.make_room()
    assert not amqp.make_room()
    http.close_idle = lambda: True
    assert amqp.make_room()
    assert [each.half_open for each in (amqp, http, sqs)] == [0, 0, 0]


def test_all_protocols_together_have_as_many_sockets_as_there_are_file_descriptors() -> None:
    admissions = Admissions.of(ServerOptions())
    admissions.share(3)
    gates = [Gate(each) for each in admissions]
    for gate, name in zip(gates, "abc", strict=True):
        gate.enter(HERE, name).authenticate()
    assert [gate.refuses(THERE) for gate in gates] == [True, False, True]
    assert admissions.http.reserved == 1, "health checks are answered"
    admissions.http.close_idle = lambda: True
    assert not gates[0].refuses(THERE)
    gates[2].enter(THERE)
    assert (admissions.amqp.half_open, admissions.sqs.half_open) == (0, 1), "the stranger made room"


def test_every_protocol_has_a_budget_of_its_own() -> None:
    options = ServerOptions(connections_max=7, connections_per_ip_max=6, half_open_max=5, half_open_per_ip_max=4)
    admissions = Admissions.of(options)
    assert admissions.files_max == 3 * 7 + RESERVE_MAX
    gates = [Gate(each) for each in admissions]
    for _ in range(10):
        gates[0].enter(HERE)
    assert [each.half_open for each in admissions] == [4, 0, 0]
    for _ in range(3):
        gates[0].enter(THERE)
    assert [each.half_open for each in admissions] == [5, 0, 0]


@given(st.lists(st.tuples(st.sampled_from(("add", "discard", "evict")), st.sampled_from("abc"), st.integers(0, 9))))
def test_a_crowd_knows_its_largest_origin(steps: list[tuple[str, str, int]]) -> None:
    crowd, model = Crowd(), list[Slot]()
    admission = ConnectionBudget(1, 1, 1)
    for step, origin, number in steps:
        if step == "add":
            slot = Slot(admission, origin, "", False)
            crowd.add(slot)
            model.append(slot)
        elif step == "discard" and model:
            slot = model.pop(number % len(model))
            crowd.discard(slot)
            crowd.discard(slot)
        elif step == "evict" and model:
            found = crowd.oldest()
            assert found is not None
            counts = Counter(slot.origin for slot in model)
            assert counts[found.origin] == max(counts.values())
            assert found is next(slot for slot in model if slot.origin == found.origin)
            assert crowd.oldest(found.origin) is found
            crowd.discard(found)
            model.remove(found)
        assert len(crowd) == len(model)
        assert crowd.count(origin) == sum(slot.origin == origin for slot in model)
    assert (crowd.oldest() is None) == (not model)
