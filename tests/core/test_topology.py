"""Virtual hosts: declarations, bindings and what they refuse."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from leveret.core import topology
from leveret.core.errors import (
    AccessRefused,
    ExchangeNotFound,
    InvalidArgument,
    LeveretError,
    PreconditionFailed,
    QueueNotFound,
    TooMany,
    VhostNotFound,
)
from leveret.core.policy import Policy
from leveret.core.topology import Topology, Vhost


@dataclass(frozen=True)
class Queue:
    name: str


@pytest.fixture
def vhost() -> Vhost:
    vhost = Vhost("/")
    for name in ("q1", "q2"):
        vhost.add_queue(Queue(name))
    vhost.declare_exchange("x", "topic")
    return vhost


def names(things: list[Any]) -> list[str]:
    return [thing.name for thing in things]


def test_a_vhost_starts_with_the_exchanges_that_clients_expect() -> None:
    types = {exchange.name: exchange.type for exchange in Vhost().exchanges.values()}
    assert types == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.trace": "topic",
    }


REFUSALS: list[tuple[Callable[[Vhost], object], type[LeveretError], str]] = [
    (lambda v: v.exchange("no"), ExchangeNotFound, "no exchange 'no' in vhost '/'"),
    (lambda v: v.queue("no"), QueueNotFound, "no queue 'no' in vhost '/'"),
    (lambda v: v.declare_exchange("y", "odd"), PreconditionFailed, "unknown exchange type 'odd'"),
    (
        lambda v: v.declare_exchange("x", "direct"),
        PreconditionFailed,
        "inequivalent arg 'type' for exchange 'x' in vhost '/': received 'direct' but current is 'topic'",
    ),
    (
        lambda v: v.declare_exchange("x", "topic", durable=False),
        PreconditionFailed,
        "inequivalent arg 'durable' for exchange 'x' in vhost '/': received 'false' but current is 'true'",
    ),
    (
        lambda v: v.declare_exchange("x", "topic", auto_delete=True),
        PreconditionFailed,
        "inequivalent arg 'auto_delete' for exchange 'x' in vhost '/': received 'true' but current is 'false'",
    ),
    (
        lambda v: v.declare_exchange("x", "topic", internal=True),
        PreconditionFailed,
        "inequivalent arg 'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'",
    ),
    (
        lambda v: v.declare_exchange("x", "topic", arguments={"alternate-exchange": "ae"}),
        PreconditionFailed,
        "inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': "
        "received the value 'ae' of type 'longstr' but current is none",
    ),
    (
        lambda v: v.declare_exchange("amq.new"),
        AccessRefused,
        "exchange name 'amq.new' contains reserved prefix 'amq.*'",
    ),
    (lambda v: v.declare_exchange(""), AccessRefused, "operation not permitted on the default exchange"),
    (lambda v: v.delete_exchange(""), AccessRefused, "operation not permitted on the default exchange"),
    (lambda v: v.bind("", "q1"), AccessRefused, "operation not permitted on the default exchange"),
    (lambda v: v.unbind("", "q1"), AccessRefused, "operation not permitted on the default exchange"),
    (
        lambda v: v.bind("x", "", destination_type="exchange"),
        AccessRefused,
        "operation not permitted on the default exchange",
    ),
    (
        lambda v: v.delete_exchange("amq.topic"),
        AccessRefused,
        "deletion of system exchange 'amq.topic' in vhost '/' not allowed",
    ),
    (lambda v: v.bind("no", "q1"), ExchangeNotFound, "no exchange 'no' in vhost '/'"),
    (lambda v: v.bind("x", "no"), QueueNotFound, "no queue 'no' in vhost '/'"),
    (lambda v: v.bind("x", "no", destination_type="exchange"), ExchangeNotFound, "no exchange 'no' in vhost '/'"),
    (
        lambda v: v.declare_exchange("y", arguments={"alternate-exchange": 5}),
        InvalidArgument,
        "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'y' in vhost '/'",
    ),
    (
        lambda v: v.declare_exchange("y" * 256),
        InvalidArgument,
        "the exchange name has 256 bytes, the limit is 255: shorten it",
    ),
    (
        lambda v: v.declare_exchange("é" * 128),
        InvalidArgument,
        "the exchange name has 256 bytes, the limit is 255: shorten it",
    ),
    (lambda v: v.declare_exchange("\ud800"), InvalidArgument, "the exchange name is not valid UTF-8: use text"),
    (
        lambda v: v.bind("x", "q1", "k" * 256),
        InvalidArgument,
        "the routing key has 256 bytes, the limit is 255: shorten it",
    ),
    (lambda v: v.bind("x", "q1", "\ud800"), InvalidArgument, "the routing key is not valid text"),
    (
        lambda v: v.declare_exchange("d", "x-delayed-message"),
        InvalidArgument,
        "Invalid argument, 'x-delayed-type' must be an existing exchange type",
    ),
]


@pytest.mark.parametrize(("act", "error", "text"), REFUSALS)
def test_refusals_are_worded_as_clients_know_them(
    vhost: Vhost, act: Callable[[Vhost], object], error: type[LeveretError], text: str
) -> None:
    with pytest.raises(error) as refusal:
        act(vhost)
    assert str(refusal.value) == text


def test_redeclaring_the_same_exchange_gives_it_back(vhost: Vhost) -> None:
    arguments = {"alternate-exchange": "ae", "unknown": 1}
    first = vhost.declare_exchange("y", "fanout", arguments=arguments)
    assert vhost.declare_exchange("y", "fanout", arguments={**arguments, "unknown": 2}) is first
    assert vhost.declare_exchange("amq.topic", "topic") is vhost.exchanges["amq.topic"]


def test_a_delayed_exchange_routes_by_its_delayed_type(vhost: Vhost) -> None:
    exchange = vhost.declare_exchange("d", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    vhost.bind("d", "q1")
    assert exchange.delays
    assert exchange.type == "x-delayed-message"
    assert names(vhost.route("d", ["any"])) == ["q1"]
    assert not vhost.exchanges["x"].delays


@pytest.mark.parametrize("inner", ["x-delayed-message", "odd", 5, ["topic"], None])
def test_a_delayed_exchange_needs_a_routing_type(vhost: Vhost, inner: object) -> None:
    with pytest.raises(InvalidArgument, match="x-delayed-type"):
        vhost.declare_exchange("d", "x-delayed-message", arguments={"x-delayed-type": inner})


def test_binding_twice_is_once_and_arguments_tell_bindings_apart(vhost: Vhost) -> None:
    assert vhost.bind("x", "q1", "k") is not None
    assert vhost.bind("x", "q1", "k") is None
    assert vhost.bind("x", "q1", "k", {"a": 1}) is not None
    assert vhost.bind("x", "q1", "k", {"a": True}) is not None
    assert len(vhost.bindings_of(vhost.queue("q1"))) == 3
    vhost.unbind("x", "q1", "k")
    assert names(vhost.route("x", ["k"])) == ["q1"]


def test_a_queue_and_an_exchange_of_one_name_are_two_destinations(vhost: Vhost) -> None:
    vhost.declare_exchange("q1", "fanout")
    vhost.bind("x", "q1", "k")
    assert vhost.bind("x", "q1", "k", destination_type="exchange") is not None
    assert [binding.destination_type for binding in vhost.bindings()] == ["queue", "exchange"]


@pytest.mark.parametrize(("source", "destination"), [("no", "q1"), ("x", "no"), ("x", "q1")])
def test_unbinding_what_is_not_there_is_no_error(vhost: Vhost, source: str, destination: str) -> None:
    assert vhost.unbind(source, destination, "k") == ([], [])


def test_deleting_an_exchange_takes_its_bindings_on_both_sides(vhost: Vhost) -> None:
    vhost.declare_exchange("y", "fanout")
    vhost.bind("x", "y", "#", destination_type="exchange")
    vhost.bind("y", "q1")
    with pytest.raises(PreconditionFailed, match="exchange 'y' in vhost '/' in use"):
        vhost.delete_exchange("y", if_unused=True)
    removed = vhost.delete_exchange("y")
    assert names(removed.exchanges) == ["y"]
    assert len(removed.bindings) == 2
    assert list(vhost.bindings()) == []
    assert vhost.bindings_of(vhost.queue("q1")) == []
    assert vhost.delete_exchange("y") == ([], [])


def test_an_exchange_that_is_only_a_destination_is_unused(vhost: Vhost) -> None:
    vhost.declare_exchange("y", "fanout")
    vhost.bind("x", "y", "#", destination_type="exchange")
    assert names(vhost.delete_exchange("y", if_unused=True).exchanges) == ["y"]


def test_auto_delete_exchanges_go_with_their_last_binding_one_after_another(vhost: Vhost) -> None:
    for name in ("a", "b", "c"):
        vhost.declare_exchange(name, "fanout", auto_delete=True)
    vhost.bind("a", "b", destination_type="exchange")
    vhost.bind("b", "c", destination_type="exchange")
    vhost.bind("c", "q1")
    vhost.bind("c", "q2")
    assert vhost.unbind("c", "q2").exchanges == []
    removed = vhost.remove_queue(vhost.queue("q1"))
    assert names(removed.exchanges) == ["c", "b", "a"]
    assert len(removed.bindings) == 3
    assert not {"a", "b", "c"} & set(vhost.exchanges)


def test_an_auto_delete_exchange_bound_to_itself_goes_once(vhost: Vhost) -> None:
    vhost.declare_exchange("loop", "fanout", auto_delete=True)
    vhost.bind("loop", "loop", destination_type="exchange")
    removed = vhost.unbind("loop", "loop", destination_type="exchange")
    assert names(removed.exchanges) == ["loop"]
    assert len(removed.bindings) == 1


def test_a_removed_queue_is_no_longer_routed_to(vhost: Vhost) -> None:
    vhost.bind("x", "q1", "k")
    vhost.bind("x", "q2", "k")
    assert names(vhost.route("x", ["k"])) == ["q1", "q2"]
    vhost.remove_queue(vhost.queue("q1"))
    assert names(vhost.route("x", ["k"])) == ["q2"]
    assert vhost.route("", ["q1"]) == []


@pytest.mark.parametrize(
    ("limit", "act"),
    [
        ("EXCHANGES_MAX", lambda v: v.declare_exchange("y")),
        ("BINDINGS_MAX", lambda v: v.bind("x", "q2")),
        ("POLICIES_MAX", lambda v: v.set_policy(Policy("second", ".*"))),
    ],
)
def test_numbers_of_objects_are_limited(
    vhost: Vhost, monkeypatch: pytest.MonkeyPatch, limit: str, act: Callable[[Vhost], object]
) -> None:
    vhost.bind("x", "q1")
    vhost.set_policy(Policy("first", ".*"))
    monkeypatch.setattr(topology, limit, 1)
    with pytest.raises(TooMany):
        act(vhost)


def test_removed_bindings_make_room_for_others(vhost: Vhost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "BINDINGS_MAX", 1)
    vhost.bind("x", "q1")
    vhost.unbind("x", "q1")
    vhost.bind("x", "q2")
    vhost.remove_queue(vhost.queue("q2"))
    assert vhost.bind("x", "q1") is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.add_queue(Queue("q3")),
        lambda v: v.remove_queue(v.queue("q2")),
        lambda v: v.declare_exchange("y"),
        lambda v: v.delete_exchange("x"),
        lambda v: v.bind("x", "q2", "k"),
        lambda v: v.unbind("x", "q1", "k"),
        lambda v: v.set_policy(Policy("p", ".*")),
        lambda v: v.delete_policy("p"),
    ],
)
def test_whatever_may_change_a_route_changes_the_generation(vhost: Vhost, change: Callable[[Vhost], object]) -> None:
    vhost.bind("x", "q1", "k")
    before = vhost.generation
    change(vhost)
    assert vhost.generation > before


def test_vhosts_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Topology()
    hosts.add_vhost("team").declare_exchange("x")
    assert hosts.add_vhost("team") is hosts.vhost("team")
    assert "x" not in hosts.vhost("/").exchanges
    hosts.remove_vhost("team")
    with pytest.raises(VhostNotFound, match="vhost team not found"):
        hosts.vhost("team")
    with pytest.raises(InvalidArgument, match="vhost name has 256 bytes"):
        hosts.add_vhost("v" * 256)
    monkeypatch.setattr(topology, "VHOSTS_MAX", 1)
    with pytest.raises(TooMany):
        hosts.add_vhost("more")
