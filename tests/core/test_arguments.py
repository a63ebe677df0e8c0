"""Queue arguments: one test per kind of row, and the comparison of redeclarations."""

from decimal import Decimal
from typing import Any

import pytest

from leveret.core.arguments import ARGUMENTS, ARGUMENTS_MAX, TIME_MS_MAX, check_equivalent, parse, queue_type_of
from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.core.tables import Long, Timestamp


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("x-message-ttl", 0, "message_ttl_ms", 0),
        ("x-expires", 1, "expires_ms", 1),
        ("x-max-length", 0, "max_length", 0),
        ("x-max-length-bytes", 10**12, "max_length_bytes", 10**12),
        ("x-overflow", "reject-publish-dlx", "overflow", "reject-publish-dlx"),
        ("x-dead-letter-exchange", "", "dead_letter_exchange", ""),
        ("x-delivery-limit", 0, "delivery_limit", 0),
        ("x-delivery-limit", -1, "delivery_limit", None),
        ("x-delivery-limit", -2, "delivery_limit", None),
        ("x-max-priority", 255, "max_priority", 255),
        ("x-single-active-consumer", True, "single_active_consumer", True),
        ("x-consumer-timeout", 60_000, "consumer_timeout_ms", 60_000),
        ("x-queue-type", "quorum", "queue_type", "quorum"),
        ("x-priority-mode", "ageing", "priority_mode", "ageing"),
        ("x-priority-ageing", 5, "priority_ageing_ms", 5),
        ("x-visibility-timeout", 30_000, "lease_ms", 30_000),
        ("x-delay", 7, "delay_ms", 7),
        ("x-retention", TIME_MS_MAX, "retention_ms", TIME_MS_MAX),
        ("x-retry-backoff", "linear", "backoff_kind", "linear"),
        ("x-retry-backoff", [1, 20], "backoff_kind", (1, 20)),
        ("x-retry-backoff-base", 10, "backoff_base_ms", 10),
        ("x-retry-backoff-max", 10, "backoff_max_ms", 10),
        ("x-retry-backoff-jitter", Decimal("0.5"), "backoff_jitter", 0.5),
        ("x-deduplication-window", 1_000, "dedup_window_ms", 1_000),
        ("x-deduplication-scope", "group", "dedup_scope", "group"),
        ("x-content-deduplication", True, "content_dedup", True),
        ("x-max-message-size", 1, "max_message_bytes", 1),
        ("x-message-groups", "fifo", "groups", "fifo"),
    ],
)
def test_a_value_is_read_into_its_field(name: str, value: object, field: str, expected: object) -> None:
    assert parse({name: value}, "q") == {field: expected}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-queue-version", "2", '"expected integer, got longstr"'),
        ("x-queue-version", -1, "{value_negative,-1}"),
        ("x-message-ttl", "60000", '"expected integer, got longstr"'),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", 1.5, '"expected integer, got double"'),
        ("x-message-ttl", Timestamp(1), '"expected integer, got timestamp"'),
        ("x-message-ttl", TIME_MS_MAX + 1, f"{{value_too_large,{TIME_MS_MAX + 1}}}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-delivery-limit", "5", '"expected integer, got longstr"'),
        ("x-overflow", "drop", "invalid_overflow"),
        ("x-overflow", 5, "{unacceptable_type,signedint}"),
        ("x-message-groups", ["fifo"], "expected one of off, fifo, fifo-batch, fair, not '['fifo']'"),
        ("x-dead-letter-exchange", "é" * 128, "longer than 255 bytes"),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
        ("x-queue-type", "odd", "\"unsupported queue type 'odd'\""),
        ("x-queue-type", ["classic"], "{unacceptable_type,array}"),
        ("x-retry-backoff", "list", "expected one of none, exponential, linear, not 'list'"),
        ("x-retry-backoff", [], "expected 1 to 100 delays, not 0"),
        ("x-retry-backoff", [1] * 101, "expected 1 to 100 delays, not 101"),
        ("x-retry-backoff", [1, "2"], '"expected integer, got longstr"'),
        ("x-retry-backoff-jitter", 1.1, "expected a number from 0 to 1, not 1.1"),
        ("x-retry-backoff-jitter", float("nan"), "expected a number from 0 to 1, not nan"),
        ("x-retry-backoff-jitter", True, "{unacceptable_type,bool}"),
        ("x-max-message-size", 0, "{value_zero,0}"),
    ],
)
def test_a_wrong_value_is_refused_with_the_reason(name: str, value: object, reason: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse({name: value}, "q")
    assert str(refusal.value) == f"invalid arg '{name}' for queue 'q' in vhost '/': {reason}"


def test_every_row_refuses_or_ignores_a_value_of_no_sense() -> None:
    for row in ARGUMENTS.values():
        if row.field is not None:
            with pytest.raises(InvalidArgument):
                parse({row.name: object()}, "q", row.queue_types[0])


def test_arguments_without_effect_and_unknown_ones_pass() -> None:
    assert parse({"x-queue-mode": "lazy", "x-queue-version": 2, "x-cancel-on-ha-failover": True, "mine": 1}, "q") == {}


@pytest.mark.parametrize(
    ("name", "value", "queue_type"),
    [
        ("x-max-priority", 5, "quorum"),
        ("x-dead-letter-strategy", "at-least-once", "classic"),
        ("x-quorum-initial-group-size", 3, "classic"),
        ("x-max-age", "1D", "classic"),
        ("x-stream-max-segment-size-bytes", 5, "quorum"),
    ],
)
def test_an_argument_of_another_queue_type_is_refused(name: str, value: object, queue_type: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse({name: value}, "q", queue_type, "v")
    kind = f"rabbit_{queue_type}_queue"
    assert str(refusal.value) == f"invalid arg '{name}' for queue 'q' in vhost 'v' of queue type {kind}"


def test_a_dead_letter_exchange_is_a_name() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse({"x-dead-letter-exchange": 5}, "q")
    assert str(refusal.value) == "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        ({"x-max-length": -1, "x-expires": 0}, "x-expires"),
        ({"x-overflow": "odd", "x-message-ttl": -1}, "x-message-ttl"),
        ({"x-max-age": "1D", "x-single-active-consumer": 1}, "x-single-active-consumer"),
    ],
)
def test_of_several_mistakes_the_refusal_names_the_one_that_rabbitmq_would(
    arguments: dict[str, Any], first: str
) -> None:
    with pytest.raises(InvalidArgument, match=f"invalid arg '{first}'"):
        parse(arguments, "q")


def test_integers_of_any_width_are_integers() -> None:
    assert parse({"x-message-ttl": Long(5)}, "q") == {"message_ttl_ms": 5}
    check_equivalent({"x-message-ttl": 5}, {"x-message-ttl": Long(5)}, "q")


def test_a_dead_letter_key_needs_a_dead_letter_exchange() -> None:
    with pytest.raises(InvalidArgument, match="routing_key_but_no_dlx_defined"):
        parse({"x-dead-letter-routing-key": "k"}, "q")
    both = {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "k"}
    assert parse(both, "q") == {"dead_letter_exchange": "x", "dead_letter_routing_key": "k"}


def test_the_number_of_arguments_is_limited() -> None:
    with pytest.raises(InvalidArgument, match="the limit is 100"):
        parse({str(number): 1 for number in range(ARGUMENTS_MAX + 1)}, "q")


def test_the_queue_type_comes_from_the_argument_or_the_default() -> None:
    assert queue_type_of({}, "q") == "classic"
    assert queue_type_of({}, "q", default="quorum") == "quorum"
    assert queue_type_of({"x-queue-type": "classic"}, "q", default="quorum") == "classic"
    assert queue_type_of({"x-queue-type": "stream"}, "q") == "stream"


@pytest.mark.parametrize(
    ("current", "received"),
    [
        ({}, {"x-queue-type": "classic"}),
        ({"x-queue-type": "classic"}, {}),
        ({"x-message-ttl": 5}, {"x-message-ttl": 5}),
        ({"x-queue-mode": "lazy"}, {}),
        ({"mine": 1}, {"mine": 2}),
        ({"x-retry-backoff": [1, 2]}, {"x-retry-backoff": (1, 2)}),
        ({"x-retention": 5, "x-visibility-timeout": 5}, {}),
        ({"x-queue-type": "classic"}, {"x-queue-type": "classic"}),
    ],
)
def test_equivalent_redeclarations(current: dict[str, Any], received: dict[str, Any]) -> None:
    check_equivalent(current, received, "q")


@pytest.mark.parametrize(
    ("current", "received", "text"),
    [
        (
            {},
            {"x-message-ttl": 1},
            "'x-message-ttl' for queue 'q' in vhost '/': "
            "received the value '1' of type 'signedint' but current is none",
        ),
        (
            {"x-max-length-bytes": 2**40},
            {},
            "'x-max-length-bytes' for queue 'q' in vhost '/': "
            f"received none but current is the value '{2**40}' of type 'long'",
        ),
        (
            {"x-single-active-consumer": True},
            {"x-single-active-consumer": False},
            "'x-single-active-consumer' for queue 'q' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            {"x-queue-type": "quorum"},
            {"x-queue-type": "classic"},
            "'x-queue-type' for queue 'q' in vhost '/': received 'classic' but current is 'quorum'",
        ),
        (
            {"x-message-ttl": 1},
            {"x-message-ttl": "1"},
            "'x-message-ttl' for queue 'q' in vhost '/': "
            "received the value '1' of type 'longstr' but current is the value '1' of type 'signedint'",
        ),
        (
            {"x-retention": 5},
            {"x-retention": 6},
            "'x-retention' for queue 'q' in vhost '/': received '6' but current is '5'",
        ),
        (
            {},
            {"x-queue-type": "quorum"},
            "'x-queue-type' for queue 'q' in vhost '/': "
            "received the value 'quorum' of type 'longstr' but current is none",
        ),
    ],
)
def test_inequivalent_redeclarations(current: dict[str, Any], received: dict[str, Any], text: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        check_equivalent(current, received, "q")
    assert str(refusal.value) == f"inequivalent arg {text}"
