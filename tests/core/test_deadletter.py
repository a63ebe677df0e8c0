"""Dead letters: their history as RabbitMQ writes it, cycles, and the keys of CC and BCC."""

from datetime import UTC, datetime
from typing import Any

import pytest

from leveret.core.deadletter import (
    DEATH_ROUTING_KEYS_MAX,
    DEATHS_BYTES_MAX,
    DEATHS_MAX,
    all_keys,
    dead_letter,
    deaths_of,
    forms_cycle,
    routing_keys_of,
    without_client_deaths,
)
from leveret.core.errors import InvalidArgument
from leveret.core.properties import Properties, decode_header, encode_header
from leveret.core.tables import LongString, encode_table

NOW_MS = 1_700_000_000_999
LATER_MS = NOW_MS + 60_000


def die(
    properties: Properties, queue: str = "orders", reason: str = "rejected", now_ms: int = NOW_MS, **more: Any
) -> Properties:
    """Bury a message and send it through the wire, as the broker does between two deaths."""
    details: dict[str, Any] = {"exchange": "shop", "routing_keys": ["new"], **more}
    dead_lettered = dead_letter(properties, queue=queue, reason=reason, now_ms=now_ms, **details)
    return decode_header(encode_header(dead_lettered, 0))


def history(properties: Properties) -> list[tuple[str, str, int]]:
    return [(death["queue"], death["reason"], death["count"]) for death in deaths_of(properties)]


def test_the_first_death_is_told_in_full() -> None:
    dead_lettered = die(Properties(headers={"mine": 1}, expiration="5000", priority=3), reason="expired")
    assert dead_lettered.headers == {
        "mine": 1,
        "x-first-death-queue": "orders",
        "x-first-death-reason": "expired",
        "x-first-death-exchange": "shop",
        "x-last-death-queue": "orders",
        "x-last-death-reason": "expired",
        "x-last-death-exchange": "shop",
        "x-death": [
            {
                "count": 1,
                "reason": "expired",
                "queue": "orders",
                "time": datetime.fromtimestamp(NOW_MS // 1000, UTC),
                "exchange": "shop",
                "routing-keys": ["new"],
                "original-expiration": "5000",
            }
        ],
    }
    assert (dead_lettered.expiration, dead_lettered.priority) == (None, 3)


def test_the_expiration_can_be_kept() -> None:
    assert die(Properties(expiration="5000"), clear_expiration=False).expiration == "5000"


def test_a_message_without_expiration_has_no_original_one() -> None:
    assert "original-expiration" not in deaths_of(die(Properties()))[0]


def test_another_queue_or_reason_is_another_death_and_the_newest_is_first() -> None:
    dead_lettered = die(die(die(Properties()), reason="expired"), queue="retry", reason="expired")
    assert history(dead_lettered) == [("retry", "expired", 1), ("orders", "expired", 1), ("orders", "rejected", 1)]


def test_a_repeated_death_counts_moves_to_the_front_and_keeps_its_first_time() -> None:
    once = die(die(Properties()), queue="retry", reason="expired")
    twice = die(once, now_ms=LATER_MS, exchange="elsewhere", routing_keys=["other"])
    assert history(twice) == [("orders", "rejected", 2), ("retry", "expired", 1)]
    first = deaths_of(twice)[0]
    assert first["time"] == datetime.fromtimestamp(NOW_MS // 1000, UTC)
    assert (first["exchange"], first["routing-keys"]) == ("shop", ["new"])


def test_the_first_death_stays_and_the_last_changes() -> None:
    headers = die(die(Properties()), queue="retry", reason="expired", exchange="dlx").headers or {}
    assert [headers[f"x-first-death-{fact}"] for fact in ("queue", "reason", "exchange")] == [
        "orders",
        "rejected",
        "shop",
    ]
    assert [headers[f"x-last-death-{fact}"] for fact in ("queue", "reason", "exchange")] == ["retry", "expired", "dlx"]


def test_the_count_is_a_64_bit_integer_on_the_wire() -> None:
    once, twice = die(Properties()), die(die(Properties()))
    assert b"\x05countl\x00\x00\x00\x00\x00\x00\x00\x01" in encode_header(once, 0)
    assert b"\x05countl\x00\x00\x00\x00\x00\x00\x00\x02" in encode_header(twice, 0)


def test_burying_leaves_the_original_properties_alone() -> None:
    original = Properties(headers={"CC": ["a"], "BCC": ["b"]}, expiration="1")
    dead_letter(original, queue="q", reason="rejected", exchange="", routing_keys=["k"], now_ms=NOW_MS)
    assert original == Properties(headers={"CC": ["a"], "BCC": ["b"]}, expiration="1")


@pytest.mark.parametrize(("keep_cc", "kept"), [(True, {"CC"}), (False, set[str]())])
def test_bcc_always_goes_and_cc_goes_with_a_dead_letter_routing_key(keep_cc: bool, kept: set[str]) -> None:
    headers = die(Properties(headers={"CC": ["a"], "BCC": ["b"]}), keep_cc=keep_cc).headers or {}
    assert headers.keys() & {"CC", "BCC"} == kept


def test_names_that_are_not_utf8_still_count_as_the_same_queue() -> None:
    dead_lettered = die(die(Properties(), queue="caf\udce9", reason="expired"), queue="caf\udce9", reason="expired")
    assert [death["count"] for death in deaths_of(dead_lettered)] == [2]
    assert forms_cycle(dead_lettered, "caf\udce9")


def test_the_oldest_deaths_are_forgotten_at_the_limits() -> None:
    properties = Properties()
    for number in range(DEATHS_MAX + 5):
        properties = die(properties, queue=f"q{number}", reason="expired")
    assert [queue for queue, _, _ in history(properties)] == [f"q{number}" for number in range(DEATHS_MAX + 4, 4, -1)]
    assert (properties.headers or {})["x-first-death-queue"] == "q0"


def test_the_history_has_a_size_limit() -> None:
    properties = Properties()
    for number in range(DEATHS_MAX):
        properties = die(properties, queue=f"q{number}", routing_keys=["k" * 255] * 2 * DEATH_ROUTING_KEYS_MAX)
    deaths = deaths_of(properties)
    assert deaths[0]["queue"] == f"q{DEATHS_MAX - 1}"
    assert len(deaths[0]["routing-keys"]) == DEATH_ROUTING_KEYS_MAX
    assert 1 < len(deaths) < DEATHS_MAX
    assert len(encode_table({"x-death": deaths})) <= DEATHS_BYTES_MAX


@pytest.mark.parametrize(
    ("deaths", "target", "cycle"),
    [
        ([], "a", False),
        ([("a", "expired")], "a", True),
        ([("a", "maxlen")], "a", True),
        ([("a", "delivery_limit")], "a", True),
        ([("a", "rejected")], "a", False),
        ([("a", "expired")], "b", False),
        ([("a", "expired"), ("b", "expired")], "a", True),
        ([("a", "expired"), ("b", "rejected")], "a", False),
        ([("a", "rejected"), ("b", "expired")], "a", False),
        ([("c", "rejected"), ("a", "expired"), ("b", "expired")], "a", True),
        ([("a", "expired"), ("a", "rejected"), ("a", "expired")], "a", True),
    ],
)
def test_a_cycle_is_a_return_without_a_rejection_since(deaths: list[tuple[str, str]], target: str, cycle: bool) -> None:
    properties = Properties()
    for queue, reason in deaths:
        properties = die(properties, queue=queue, reason=reason)
    assert forms_cycle(properties, target) is cycle


def test_a_history_sent_by_a_client_is_ignored() -> None:
    republished = die(Properties(headers={"mine": 1}))
    cleaned = without_client_deaths(republished)
    assert cleaned.headers == {"mine": 1}
    assert history(die(cleaned)) == [("orders", "rejected", 1)]


@pytest.mark.parametrize("properties", [Properties(), Properties(headers={}), Properties(headers={"mine": 1})])
def test_properties_without_a_history_are_not_copied(properties: Properties) -> None:
    assert without_client_deaths(properties) is properties


@pytest.mark.parametrize(
    "forged", ["soon", 1, ["text", None], [{}], [{"queue": 1, "reason": "expired", "count": 1}], [{"queue": "orders"}]]
)
def test_a_forged_history_does_not_stop_a_burial(forged: Any) -> None:
    properties = Properties(headers={"x-death": forged})
    assert not forms_cycle(properties, "orders")
    assert history(die(properties)) == [("orders", "rejected", 1)]


def test_cc_and_bcc_are_further_routing_keys() -> None:
    properties = Properties(headers={"CC": ["c1", LongString(b"\xff")], "BCC": ["b"]})
    assert routing_keys_of(properties, "k") == ["k", "c1", "\udcff"]
    assert all_keys(properties, "k") == ["k", "c1", "\udcff", "b"]
    assert all_keys(Properties(), "k") == ["k"]


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize(
    ("value", "type_name"), [("text", "longstr"), (1, "signedint"), (None, "void"), ({"a": 1}, "table")]
)
def test_cc_and_bcc_are_arrays(header: str, value: Any, type_name: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        all_keys(Properties(headers={header: value}), "k")
    assert str(refusal.value) == f'invalid message: {{unacceptable_type_in_header,"{header}",{type_name}}}'


def test_what_is_no_text_in_cc_and_bcc_is_passed_over() -> None:
    assert all_keys(Properties(headers={"CC": [1, "a", None], "BCC": [b"bytes", "b"]}), "k") == ["k", "a", "b"]
