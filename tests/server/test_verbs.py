"""The verbs of an operator, called with whatever JSON can say: each answer is a result or a refusal, never a fault."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leveret
from leveret.core.errors import LeveretError
from leveret.operations import definitions
from leveret.operations.context import OperationContext
from leveret.operations.perform import call, handled
from leveret.operations.registry import OPERATIONS
from leveret.security.access import Access
from tests.server.control_world import CHEAP

SECTIONS: dict[str, tuple[str, ...]] = {
    "vhosts": ("name", "description", "tags", "default_queue_type", "metadata"),
    "users": ("name", "password_hash", "hashing_algorithm", "tags", "limits"),
    "permissions": ("user", "vhost", "configure", "write", "read"),
    "topic_permissions": ("user", "vhost", "exchange", "write", "read"),
    "parameters": ("component", "vhost", "name", "value"),
    "policies": ("vhost", "name", "pattern", "apply-to", "priority", "definition"),
    "exchanges": ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments"),
    "queues": ("vhost", "name", "type", "durable", "auto_delete", "arguments"),
    "alert_rules": ("name", "figure", "limit", "clear", "for_s", "severity", "vhost", "queue", "says", "enabled"),
    "alert_receivers": ("name", "kind", "url", "rules", "severity_min", "host", "port", "tls", "sender", "to"),
    "bindings": ("vhost", "source", "destination", "destination_type", "routing_key", "arguments"),
}
NAMES = st.sampled_from(("/", "guest", "team", "q", "s", "x", "amq.topic", ".*", "(", "topic", "queue", "", "\n"))
KEYS = st.sampled_from(
    ("max-queues", "max-channels", "max-length", "x-max-length", "x-queue-type", "$time", "$dict", "p")
)
SCALARS = st.one_of(NAMES, st.none(), st.booleans(), st.integers(-2, 2**70), st.floats())
VALUES = st.one_of(NAMES, SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(KEYS, SCALARS, max_size=2))


def some(fields: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with most of these fields."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(fields, VALUES)) | st.fixed_dictionaries(
        dict.fromkeys(fields, VALUES)
    )


REQUESTS = st.one_of([st.tuples(st.just(verb), some(tuple(OPERATIONS[verb].parameters))) for verb in handled()])
IMPORTED = st.one_of(
    [st.tuples(st.just(section), st.lists(some(fields) | VALUES, max_size=2)) for section, fields in SECTIONS.items()]
)


@pytest.fixture(scope="module")
def context() -> Iterator[OperationContext]:
    """A broker in memory; what one example leaves behind is there for the next."""
    with leveret.open(clock=leveret.ManualClock()) as broker:
        core = broker.runtime.core
        context = OperationContext(core, Access(core, cost=CHEAP))
        context.access.declare_vhost("team")
        core.declare_queue("team", "q")
        core.declare_queue("team", "s", {"x-queue-type": "stream"})
        core.declare_exchange("team", "x", "topic")
        yield context


@settings(max_examples=300)
@given(request=REQUESTS)
def test_whatever_is_asked_for_is_answered(context: OperationContext, request: tuple[str, dict[str, Any]]) -> None:
    with suppress(LeveretError):
        json.dumps(call(context, *request))


@settings(max_examples=300)
@given(imported=IMPORTED)
def test_whatever_is_imported_is_answered_and_can_be_exported(
    context: OperationContext, imported: tuple[str, list[Any]]
) -> None:
    section, objects = imported
    became = call(context, "definitions.import", {"section": section, "objects": objects})
    assert became["imported"] + len(became["skipped"]) == len(objects)
    for each in definitions.SECTIONS:
        json.dumps(call(context, "definitions.export", {"section": each}))
