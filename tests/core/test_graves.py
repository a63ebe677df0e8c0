"""Which queues dead letters may reach."""

import leveret
from leveret.core.broker import Broker
from leveret.core.deadletter import dead_letter_queues, dead_letter_routes


def declare(core: Broker, name: str, exchange: str | None = None, key: str | None = None) -> None:
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key}
    core.declare_queue("/", name, {key: value for key, value in arguments.items() if value is not None})


def test_graves_are_found_by_name_through_exchanges_and_alternates() -> None:
    with leveret.open() as broker, broker.runtime as core:
        core.declare_exchange("/", "dead", "topic", arguments={"alternate-exchange": "lost"})
        core.declare_exchange("/", "copies", "fanout")
        core.declare_exchange("/", "lost", "fanout")
        declare(core, "plain")
        declare(core, "orders", "", "orders.dead")
        declare(core, "orders.dead")
        declare(core, "mail", "dead")
        declare(core, "nowhere", "missing")
        declare(core, "itself", "")
        for name in ("copy", "rest"):
            declare(core, name)
        core.bind("/", "dead", "copies", "#", destination_type="exchange")
        core.bind("/", "copies", "copy")
        core.bind("/", "lost", "rest")
        virtual_host = core.topology.vhost("/")
        assert [queue.name for queue in dead_letter_queues(virtual_host)] == ["copy", "orders.dead", "rest"]
        told = [
            (each.source.name, each.destination.name, each.destination_type)
            for each in dead_letter_routes(virtual_host)
        ]
        assert told == [("mail", "dead", "exchange"), ("orders", "orders.dead", "queue")]


def test_exchanges_that_lead_to_each_other_end() -> None:
    with leveret.open() as broker, broker.runtime as core:
        for name in ("a", "b"):
            core.declare_exchange("/", name, "fanout")
        core.bind("/", "a", "b", destination_type="exchange")
        core.bind("/", "b", "a", destination_type="exchange")
        declare(core, "orders", "a")
        core.bind("/", "b", "orders")
        assert [queue.name for queue in dead_letter_queues(core.topology.vhost("/"))] == ["orders"]
