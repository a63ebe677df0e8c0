"""The matrix of rights by REST: every operation with rights that are just enough, and with those that must not be."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.core.errors import LeveretError
from leveret.ingest.row_groups import constant
from leveret.operations.registry import OPERATIONS
from leveret.protocols.rest.api import OPERATIONS as ROWS
from leveret.security.authorisation import admit
from leveret.security.identity import Identity
from tests.ingest.batches import row_group
from tests.protocols.rest.test_security import BODIES, NAMES, line
from tests.protocols.rest.world import RestWorld
from tests.security.matrix import TAGS, Ask, Case, cases, tag_allows

Key = tuple[str, str, str]
PUBLISH = ("POST", "/exchanges/{exchange}/messages")
BIND, UNBIND = ("POST", "/exchanges/{exchange}/bindings"), ("DELETE", "/exchanges/{exchange}/bindings")
DECLARE, UPDATE = ("PUT", "/queues/{queue}"), ("PATCH", "/queues/{queue}")
REDRIVE, STAGE = ("POST", "/queues/{queue}/redrive"), ("PUT", "/sinks/{sink}/parts/{part}/{piece}")
COMMIT = ("POST", "/sinks/{sink}/batches/{batch}")
ROLES = {"{queue}": ("queue", "orders"), "{stream}": ("queue", "clicks"), "{exchange}": ("exchange", "events")}
DEAD = {"queue": "orders", "dead_letter_queue": "dlq"}
EMPTY = {"parts": [], "rows": 0}


def plain(operation: str, path: str) -> Ask:
    """What an operation asks for whose names are all in its path."""
    return Ask(operation, **dict(role for mark, role in ROLES.items() if mark in path))


MORE: dict[Key, tuple[Any, list[Ask]]] = {
    (*PUBLISH, "key"): ({"payload": 1, "routing_key": "a.b"}, [Ask("basic.publish", True, exchange="events")]),
    (*PUBLISH, "CC"): (
        {"payload": 1, "routing_key": "a.b", "headers": {"CC": ["a.c"]}},
        [Ask("basic.publish", True, exchange="events")],
    ),
    **{
        (*row, kind): ({"destination": name, "destination_type": kind, "routing_key": "a.b"}, [ask])
        for row, verb in ((BIND, "bind"), (UNBIND, "unbind"))
        for kind, name, ask in (
            ("queue", "orders", Ask(f"queue.{verb}", True, queue="orders", exchange="events")),
            ("exchange", "other", Ask(f"exchange.{verb}", True, source="events", destination="other")),
        )
    },
    (*DECLARE, "dead_letter"): (
        {"dead_letter": "dlq"},
        [Ask("queue.declare", **DEAD), Ask("queue.declare", queue="dlq")],
    ),
    (*DECLARE, "x-dead-letter-exchange"): (
        {"arguments": {"x-dead-letter-exchange": "other"}},
        [Ask("queue.declare", queue="orders", dead_letter_exchange="other")],
    ),
    (*UPDATE, "dead_letter"): (
        {"dead_letter": "dlq"},
        [Ask("queue.update", **DEAD), Ask("queue.declare", queue="dlq")],
    ),
    (*UPDATE, "ttl"): ({"ttl": 60}, [Ask("queue.update", **DEAD)]),
    (*UPDATE, "visibility_timeout"): ({"visibility_timeout": 60}, [Ask("queue.update", queue="orders")]),
    (*REDRIVE, "to"): ({"to": "dlq"}, [Ask("queue.redrive", queue="orders", destination_queue="dlq")]),
    ("PUT", "/exchanges/{exchange}", "alternate-exchange"): (
        {"type": "topic", "arguments": {"alternate-exchange": "alternate"}},
        [Ask("exchange.declare", exchange="events", alternate_exchange="alternate")],
    ),
    (*STAGE, "queue"): (row_group([b"x"]), [Ask("ingest.stage"), Ask("queue.send", queue="orders")]),
    (*STAGE, "exchange"): (
        row_group([b"x"], constant("exchange", "events"), constant("routing_key", "a.b")),
        [Ask("ingest.stage"), Ask("basic.publish", exchange="events")],
    ),
    (*COMMIT, "queue"): ({**EMPTY, "queue": "orders"}, [Ask("ingest.stage"), Ask("queue.send", queue="orders")]),
    (*COMMIT, "exchange"): (
        {**EMPTY, "exchange": "events"},
        [Ask("ingest.stage"), Ask("basic.publish", exchange="events")],
    ),
}
NOT_PLAIN = {BIND, UNBIND, STAGE, COMMIT}
"""Without a body they ask for nothing."""
TAGGED = [row for row in ROWS if row.registered.rule.tag is not None]
REQUESTS: dict[Key, tuple[Any, list[Ask]]] = {
    **{
        (row.method, row.path, ""): (BODIES.get((row.method, row.path)), [plain(row.name, row.path)])
        for row in ROWS
        if row not in TAGGED and (row.method, row.path) not in NOT_PLAIN
    },
    **MORE,
}
BY_ROW = {(row.method, row.path): row for row in ROWS}


class Matrix(RestWorld):
    """A server with a user whose permissions a case says."""

    def restore(self) -> None:
        """Make what earlier cases have deleted or changed."""
        broker = self.broker
        for name in ("orders", "clicks"):
            with suppress(LeveretError, KeyError), broker.runtime as core:
                core.delete_queue(core.topology.vhost("/").queues[name])
        broker.queue("dlq")
        broker.queue("orders", dead_letter="dlq")
        broker.stream("clicks")
        for name in ("events", "other"):
            broker.exchange(name, type="topic")
        self.ok("PUT /streams/clicks/groups/billing")

    def permit(self, case: Case) -> None:
        """Give the user the permissions of a case."""
        with self.broker.runtime:
            for clear in (self.access.clear_permission, self.access.clear_topic_permission):
                with suppress(LeveretError):
                    clear("one", "/")
            if case.patterns is not None:
                self.access.set_permission("one", "/", *case.triple)
            if case.topic is not None:
                self.access.set_topic_permission("one", "/", "events", case.topic, case.topic)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Matrix]:
    """A server with a data directory, which bulk ingest needs."""
    with leveret.open(str(tmp_path)) as broker, Matrix(broker) as running:
        with broker.runtime:
            for tag in ("one", *TAGS[1:]):
                running.access.add_user(tag, "", [] if tag == "one" else [tag])
        yield running


@pytest.mark.parametrize("key", REQUESTS, ids=" ".join)
def test_a_request_needs_its_rights_and_no_others(world: Matrix, key: Key) -> None:
    method, path, _ = key
    body, asks = REQUESTS[key]
    token = world.add_token("one", ["*:*"])
    wrong, is_changed = [], True
    for case in cases(asks):
        if is_changed:
            world.restore()
        world.permit(case)
        is_changed = case.allowed
        status = world.call(line(BY_ROW[method, path]), body, token=token).status
        if (status != 403) != case.allowed or status in (401, 500):
            wrong.append((case.label, status))
    assert wrong == []


@pytest.mark.parametrize("row", TAGGED, ids=lambda row: row.path)
@pytest.mark.parametrize("tag", TAGS[1:])
def test_a_request_needs_its_tag(world: Matrix, row: Any, tag: str) -> None:
    status = world.call(line(row), token=world.add_token(tag, ["*:*", "manage"])).status
    assert (status != 403) == tag_allows(row.name, tag, enters=False)


def test_every_operation_is_asked_for() -> None:
    assert {(row.method, row.path) for row in ROWS if row not in TAGGED} == {key[:2] for key in REQUESTS}
    assert set(NAMES) >= {"queue", "exchange", "stream"}


def test_entry_is_asked_for_without_any_right(world: Matrix) -> None:
    with pytest.raises(leveret.AccessRefused, match="access to vhost '/' refused for user 'nobody'"):
        admit(world.access.permissions, Identity("nobody"), OPERATIONS["queue.list"].rule, "/")
