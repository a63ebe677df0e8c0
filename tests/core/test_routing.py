"""The route of a message through a virtual host."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core import topology
from leveret.core.errors import AccessRefused, ExchangeNotFound, InvalidArgument
from leveret.core.policy import Policy
from leveret.core.topology import Vhost


@dataclass(frozen=True)
class Queue:
    name: str


def vhost_with(*queues: str) -> Vhost:
    vhost = Vhost("/")
    for name in queues:
        vhost.add_queue(Queue(name))
    return vhost


def routed(vhost: Vhost, exchange: str, *keys: str, headers: dict[str, Any] | None = None) -> list[str]:
    return [queue.name for queue in vhost.route(exchange, keys, headers)]


def test_the_topic_example_of_an_order_service() -> None:
    vhost = vhost_with("all-orders", "new-orders", "urgent-processing", "audit-log")
    vhost.declare_exchange("orders_exchange", "topic")
    vhost.bind("orders_exchange", "all-orders", "orders.*")
    vhost.bind("orders_exchange", "new-orders", "orders.new")
    vhost.bind("orders_exchange", "urgent-processing", "*.urgent")
    vhost.bind("orders_exchange", "audit-log", "#")
    assert routed(vhost, "orders_exchange", "orders.new") == ["all-orders", "new-orders", "audit-log"]
    assert routed(vhost, "orders_exchange", "orders.urgent") == ["all-orders", "urgent-processing", "audit-log"]


def test_direct_fanout_and_headers() -> None:
    vhost = vhost_with("a", "b")
    vhost.bind("amq.direct", "a", "k")
    vhost.bind("amq.direct", "b", "other")
    vhost.bind("amq.fanout", "b")
    vhost.bind("amq.fanout", "a")
    vhost.bind("amq.headers", "b", "", {"format": "pdf"})
    assert routed(vhost, "amq.direct", "k") == ["a"]
    assert routed(vhost, "amq.direct", "K") == []
    assert routed(vhost, "amq.fanout", "any") == ["b", "a"]
    assert routed(vhost, "amq.headers", "", headers={"format": "pdf"}) == ["b"]
    assert routed(vhost, "amq.headers", "", headers={"format": "zip"}) == []


def test_the_default_exchange_routes_by_queue_name_at_once() -> None:
    vhost = vhost_with("q")
    assert routed(vhost, "", "new") == []
    vhost.add_queue(Queue("new"))
    assert routed(vhost, "", "new") == ["new"]
    assert routed(vhost, "", "q", "new", "q") == ["q", "new"]


def test_a_queue_gets_one_copy_whatever_the_bindings_and_keys() -> None:
    vhost = vhost_with("q", "r")
    for key in ("#", "a.*", "a.b"):
        vhost.bind("amq.topic", "q", key)
    vhost.bind("amq.topic", "r", "c")
    assert routed(vhost, "amq.topic", "a.b") == ["q"]
    assert routed(vhost, "amq.topic", "a.b", "c") == ["q", "r"]


def test_exchanges_bound_in_a_cycle_are_each_visited_once() -> None:
    vhost = vhost_with("q", "r")
    vhost.declare_exchange("one", "fanout")
    vhost.declare_exchange("two", "fanout")
    vhost.bind("one", "two", destination_type="exchange")
    vhost.bind("two", "one", destination_type="exchange")
    vhost.bind("one", "q")
    vhost.bind("two", "q")
    vhost.bind("two", "r")
    assert routed(vhost, "one", "k") == ["q", "r"]
    assert routed(vhost, "two", "k") == ["q", "r"]


def test_the_alternate_exchange_is_asked_only_when_nothing_matched() -> None:
    vhost = vhost_with("q", "lost")
    vhost.declare_exchange("main", "direct", arguments={"alternate-exchange": "ae"})
    assert routed(vhost, "main", "no") == []
    vhost.declare_exchange("ae", "fanout")
    vhost.bind("ae", "lost")
    vhost.bind("main", "q", "k")
    assert routed(vhost, "main", "k") == ["q"]
    assert routed(vhost, "main", "no") == ["lost"]
    assert routed(vhost, "main", "no", "k") == ["q"]


def test_alternate_exchanges_in_a_cycle_end() -> None:
    vhost = vhost_with("q")
    vhost.declare_exchange("one", "direct", arguments={"alternate-exchange": "two"})
    vhost.declare_exchange("two", "direct", arguments={"alternate-exchange": "one"})
    assert routed(vhost, "one", "k") == []
    vhost.bind("two", "q", "k")
    assert routed(vhost, "one", "k") == ["q"]


def test_a_policy_names_an_alternate_and_an_argument_beats_it() -> None:
    vhost = vhost_with("by-policy", "by-argument")
    for name in ("by-policy", "by-argument"):
        vhost.declare_exchange(f"{name}-ae", "fanout")
        vhost.bind(f"{name}-ae", name)
    vhost.declare_exchange("plain")
    vhost.declare_exchange("own", arguments={"alternate-exchange": "by-argument-ae"})
    assert routed(vhost, "plain", "k") == []
    vhost.set_policy(Policy("ae", "^(plain|own|later|)$", 0, "exchanges", {"alternate-exchange": "by-policy-ae"}))
    vhost.declare_exchange("later")
    assert routed(vhost, "plain", "k") == routed(vhost, "later", "k") == ["by-policy"]
    assert routed(vhost, "own", "k") == ["by-argument"]
    assert routed(vhost, "", "k") == [], "the default exchange has no alternate"
    vhost.delete_policy("ae")
    assert routed(vhost, "plain", "k") == []


def test_missing_and_internal_exchanges_and_long_keys_are_refused() -> None:
    vhost = vhost_with("q")
    vhost.declare_exchange("inside", "fanout", internal=True)
    vhost.bind("inside", "q")
    with pytest.raises(ExchangeNotFound, match=r"^no exchange 'x' in vhost '/'$"):
        vhost.route("x", ["k"])
    with pytest.raises(AccessRefused, match=r"^cannot publish to internal exchange 'inside' in vhost '/'$"):
        vhost.open_exchange("inside")
    with pytest.raises(InvalidArgument, match="routing key has 256 bytes"):
        vhost.route("amq.topic", ["k" * 256])
    vhost.bind("amq.fanout", "inside", destination_type="exchange")
    assert routed(vhost, "amq.fanout", "k") == ["q"]


def test_a_route_is_remembered_until_the_topology_changes() -> None:
    vhost = vhost_with("q", "r")
    vhost.bind("amq.topic", "q", "a.#")
    before = vhost.generation
    assert vhost.route("amq.topic", ["a.b"]) is vhost.route("amq.topic", ["a.b"])
    assert vhost.generation == before
    vhost.bind("amq.topic", "r", "#")
    assert vhost.generation > before
    assert routed(vhost, "amq.topic", "a.b") == ["q", "r"]
    vhost.unbind("amq.topic", "q", "a.#")
    assert routed(vhost, "amq.topic", "a.b") == ["r"]


def test_headers_are_looked_at_each_time_even_behind_another_exchange() -> None:
    vhost = vhost_with("q")
    vhost.bind("amq.topic", "amq.headers", "#", destination_type="exchange")
    vhost.bind("amq.headers", "q", "", {"a": 1})
    assert routed(vhost, "amq.topic", "k", headers={"a": 1}) == ["q"]
    assert routed(vhost, "amq.topic", "k", headers={"a": 2}) == []
    assert routed(vhost, "amq.topic", "k", headers={"a": 1}) == ["q"]


def test_remembered_routes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "ROUTES_MAX", 10)
    vhost = vhost_with("q")
    vhost.bind("amq.topic", "q", "#")
    for number in range(25):
        assert routed(vhost, "amq.topic", f"k.{number}") == ["q"]
        assert len(vhost._routes) <= 10


CHANGES = st.lists(
    st.tuples(
        st.booleans(), st.sampled_from("ab"), st.sampled_from(["q", "r", "a", "b"]), st.sampled_from(["#", "k", "*.k"])
    ),
    max_size=12,
)


@given(CHANGES, st.sampled_from(["k", "j.k", ""]))
def test_the_cache_never_changes_the_answer(changes: list[tuple[bool, str, str, str]], key: str) -> None:
    cached = vhost_with("q", "r")
    for name in "ab":
        cached.declare_exchange(name, "topic")
    for bind, source, destination, pattern in changes:
        kind = "exchange" if destination in "ab" else "queue"
        (cached.bind if bind else cached.unbind)(source, destination, pattern, destination_type=kind)
        remembered = cached.route("a", [key])
        cached._routes.clear()
        assert remembered == cached.route("a", [key])
