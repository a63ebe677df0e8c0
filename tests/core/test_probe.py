"""Where a message would go: it is told as it is routed."""

from dataclasses import dataclass
from typing import Any

import pytest

from leveret.core import routing as probes
from leveret.core.routing import Probe, probe
from leveret.core.topology import Vhost


@dataclass(frozen=True)
class Queue:
    name: str


@pytest.fixture
def vhost() -> Vhost:
    """A topic exchange that leads to queues and to a headers exchange; what it does not want goes to a fanout."""
    made = Vhost("/")
    for name in ("orders", "mail", "rest"):
        made.add_queue(Queue(name))
    made.declare_exchange("shop", "topic", arguments={"alternate-exchange": "others"})
    made.declare_exchange("byheader", "headers")
    made.declare_exchange("others", "fanout")
    made.bind("shop", "orders", "order.#")
    made.bind("shop", "orders", "stock.#")
    made.bind("shop", "mail", "order.paid")
    made.bind("shop", "byheader", "order.#", destination_type="exchange")
    made.bind("byheader", "mail", "", {"x-match": "all", "tenant": "t1"})
    made.bind("others", "rest")
    return made


def asked(vhost: Vhost, key: str, **headers: Any) -> Probe:
    return probe(vhost.exchange("shop"), vhost.exchanges, key, headers)


def test_only_the_bindings_that_match_are_told(vhost: Vhost) -> None:
    found = asked(vhost, "order.new")
    assert [queue.name for queue in found.queues] == ["orders"]
    assert [(each.destination.name, each.key) for each in found.bindings] == [
        ("orders", "order.#"),
        ("byheader", "order.#"),
    ]
    assert found.complete


def test_exchanges_are_followed_and_headers_are_compared(vhost: Vhost) -> None:
    found = asked(vhost, "order.new", tenant="t1")
    assert [queue.name for queue in found.queues] == ["orders", "mail"]
    assert found.bindings[-1].source == "byheader"


def test_what_matches_nothing_goes_to_the_alternate_exchange(vhost: Vhost) -> None:
    found = asked(vhost, "weather")
    assert found.alternates == [("shop", "others")]
    assert [queue.name for queue in found.queues] == ["rest"]


def test_a_cycle_ends(vhost: Vhost) -> None:
    vhost.bind("byheader", "shop", "", {"x-match": "all"}, destination_type="exchange")
    assert [queue.name for queue in asked(vhost, "order.new").queues] == ["orders"]


def test_it_looks_at_so_many_bindings_and_says_so(vhost: Vhost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "EXAMINED_MAX", 1)
    found = asked(vhost, "order.paid")
    assert not found.complete
    assert {queue.name for queue in found.queues} == {"orders", "mail"}
