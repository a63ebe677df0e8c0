"""Exchanges that choose one destination by a hash."""

from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from leveret.core.errors import InvalidArgument
from leveret.core.exchanges import Exchange, new_exchange

KEYS = [f"customer-{n}" for n in range(3_000)]


@dataclass(frozen=True)
class Queue:
    name: str


def spread(exchange: Exchange) -> dict[str, str]:
    return {key: next(iter(exchange.matches(key))).name for key in KEYS}


def weighted(**weights: int) -> Exchange:
    exchange = new_exchange("h", "x-consistent-hash")
    for name, weight in weights.items():
        exchange.bind(Queue(name), str(weight))
    return exchange


def test_messages_spread_in_proportion_to_the_weights() -> None:
    counts = Counter(spread(weighted(a=1, b=2, c=3)).values())
    assert [round(counts[name] / len(KEYS) * 6, 1) for name in "abc"] == pytest.approx([1, 2, 3], abs=0.2)


def test_the_choice_is_the_same_in_every_process_and_order_of_binding() -> None:
    assert spread(weighted(a=1, b=1, c=1)) == spread(weighted(c=1, a=1, b=1))
    assert [spread(weighted(a=1, b=1, c=1))[key] for key in KEYS[:6]] == ["a", "c", "b", "c", "a", "c"]


def test_a_new_destination_takes_only_what_it_gains() -> None:
    before, after = spread(weighted(a=1, b=1)), spread(weighted(a=1, b=1, c=1))
    moved = {key for key in KEYS if before[key] != after[key]}
    assert moved == {key for key in KEYS if after[key] == "c"}
    assert moved


def test_removing_a_destination_moves_only_its_own() -> None:
    exchange = weighted(a=1, b=1, c=1)
    before = spread(exchange)
    exchange.unbind(Queue("b"), "1")
    after = spread(exchange)
    assert {key for key in KEYS if before[key] != after[key]} == {key for key in KEYS if before[key] == "b"}


def test_several_bindings_of_one_destination_add_up() -> None:
    exchange = weighted(a=1, b=1)
    exchange.bind(Queue("a"), "2")
    assert spread(exchange) == spread(weighted(a=3, b=1))
    exchange.unbind(Queue("a"), "2")
    assert spread(exchange) == spread(weighted(a=1, b=1))


def test_without_bindings_nothing_matches() -> None:
    for type in ("x-consistent-hash", "x-modulus-hash"):
        assert list(new_exchange("h", type).matches("k")) == []


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *((key, f'The binding key must be an integer: <<"{key}">>') for key in ("", "1.5", "many", "²")),
        *((key, "The binding key must be greater than 0") for key in ("0", "-1")),
        *((key, f"the binding key is a weight from 1 to 1000000, not '{key}'") for key in ("1000001", "9" * 300)),
    ],
)
def test_a_binding_key_that_is_no_weight_is_refused(key: str, text: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        new_exchange("h", "x-consistent-hash").bind(Queue("a"), key)
    assert str(refusal.value) == text


def test_a_header_can_be_hashed_instead_of_the_key() -> None:
    exchange = new_exchange("h", "x-consistent-hash", arguments={"hash-header": "tenant"})
    for name in "abcd":
        exchange.bind(Queue(name), "1")
    by_tenant = {tenant: {*exchange.matches("k1", {"tenant": tenant}), *exchange.matches("k2", {"tenant": tenant})}
                 for tenant in range(50)}  # fmt: skip
    assert all(len(chosen) == 1 for chosen in by_tenant.values())
    assert len(set.union(*by_tenant.values())) == 4
    assert not exchange.cacheable
    assert list(exchange.matches("k1", None)) == list(exchange.matches("k2", {}))


def test_a_property_can_be_hashed_instead_of_the_key() -> None:
    exchange = new_exchange("h", "x-consistent-hash", arguments={"hash-property": "message_id"})
    for name in "abcd":
        exchange.bind(Queue(name), "1")
    chosen = {tuple(exchange.matches("same", None, SimpleNamespace(message_id=str(n)))) for n in range(50)}
    assert len(chosen) == 4
    assert not exchange.cacheable


@pytest.mark.parametrize(
    "arguments",
    [{"hash-header": "a", "hash-property": "message_id"}, {"hash-property": "body"}, {"hash-header": 5}],
)
def test_arguments_that_name_nothing_to_hash_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        new_exchange("h", "x-consistent-hash", arguments=arguments)


def test_modulus_spreads_evenly_whatever_the_order_of_binding() -> None:
    one, other = new_exchange("m", "x-modulus-hash"), new_exchange("m", "x-modulus-hash")
    for name in "abc":
        one.bind(Queue(name))
    for name in "cab":
        other.bind(Queue(name))
    assert spread(one) == spread(other)
    assert min(Counter(spread(one).values()).values()) > len(KEYS) / 4
    one.unbind(Queue("b"))
    assert set(spread(one).values()) == {"a", "c"}
