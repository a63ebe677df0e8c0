"""The checker finds what is wrong with a history."""

from tests.jepsen.checker import BEFORE, Findings, Promises, check
from tests.jepsen.history import (
    CHANGE,
    DELIVER,
    FAIL,
    FAULT,
    INVOKE,
    LOOK,
    OK,
    PUBLISH,
    READ,
    SETTLE,
    UNKNOWN,
    Operation,
)

ONE = Promises(["q"])


def history(*words: str) -> list[Operation]:
    """A history of one line of messages in one queue: "publish ok 3" and the like, a second each."""
    found = []
    for at_s, (what, outcome, message) in enumerate(word.split() for word in words):
        again = outcome == "again"
        found.append(Operation(at_s, "p", what, OK if again else outcome, "q", f"p.0 {message}", again))
    return found


def published(*numbers: int) -> list[str]:
    """Words of publishes that were confirmed."""
    return [f"{PUBLISH} {outcome} {number}" for number in numbers for outcome in (INVOKE, OK)]


def test_a_confirmed_message_that_never_comes_is_lost() -> None:
    findings = check(history(*published(1, 2), f"{DELIVER} ok 2"), ONE)
    assert findings.lost == ["p.0 1 in q"]
    assert findings.acknowledged == 2
    assert findings.wrong


def test_what_was_not_confirmed_may_come_or_not() -> None:
    words = [f"{PUBLISH} {outcome} {number}" for number, outcome in ((1, INVOKE), (1, FAIL), (2, INVOKE), (2, UNKNOWN))]
    assert not check(history(*words), ONE).wrong
    assert not check(history(*words, f"{DELIVER} ok 1", f"{DELIVER} ok 2"), ONE).wrong


def test_a_message_that_comes_twice_is_counted() -> None:
    findings = check(history(*published(1), f"{DELIVER} ok 1", f"{DELIVER} again 1"), ONE)
    assert (findings.delivered, findings.duplicated, findings.wrong) == (1, 1, False)


def test_a_message_that_comes_after_a_later_one_is_out_of_order_unless_it_comes_again() -> None:
    first_late = [*published(1, 2), f"{DELIVER} ok 2"]
    assert check(history(*first_late, f"{DELIVER} ok 1"), ONE).out_of_order == ["p.0 1 in q"]
    assert check(history(*first_late, f"{DELIVER} again 1"), ONE).out_of_order == []


def test_a_message_that_nobody_published_is_unexpected() -> None:
    assert check(history(f"{DELIVER} ok 1"), ONE).unexpected == ["p.0 1 in q"]


def test_the_order_of_some_queues_is_not_looked_at() -> None:
    words = [*published(1, 2), f"{DELIVER} ok 2", f"{DELIVER} ok 1"]
    assert not check(history(*words), Promises(["q"], unordered=["q"])).wrong


def test_a_delivery_after_a_settlement_is_counted() -> None:
    words = [*published(1), f"{DELIVER} ok 1", f"{SETTLE} ok 1", f"{DELIVER} again 1"]
    assert check(history(*words), ONE).returned == 1


def test_the_longest_silence_after_a_fault_is_what_was_unavailable() -> None:
    made = history(*published(1, 2), f"{FAULT} {INVOKE} 0", f"{PUBLISH} {INVOKE} 3", f"{FAULT} ok 0", f"{PUBLISH} ok 3")
    found = check(made, ONE)
    assert found.by_kind["p"].unavailable_s == [3.0]
    assert [(each.queue, each.kind) for each in found.silences] == [("q", "p")]


def test_what_happens_after_a_fault_is_told_of_its_kind() -> None:
    words = [*published(1, 2), f"{FAULT} {INVOKE} 0", *published(3, 4), f"{DELIVER} ok 1", f"{DELIVER} again 1"]
    found = check(history(*words), ONE).by_kind
    before, after = found[BEFORE], found["p"]
    assert (before.faults, before.acknowledged, before.lost, before.duplicated) == (0, 2, 1, 0)
    assert (after.faults, after.acknowledged, after.lost, after.duplicated) == (1, 2, 2, 1)


def test_a_row_that_is_there_twice_is_not_a_redelivery() -> None:
    promises = Promises(["q"], once=["q"])
    words = [*published(1), f"{DELIVER} ok 1"]
    assert not check(history(*words, f"{DELIVER} again 1"), promises).wrong
    findings = check(history(*words, f"{DELIVER} ok 1"), promises)
    assert (findings.twice, findings.wrong) == (["p.0 1 in q"], True)


def test_what_a_connection_had_does_not_come_again_there() -> None:
    promises = Promises(["q"], kept=["q"])
    *before, again = history(*published(1), f"{DELIVER} ok 1", f"{DELIVER} again 1")
    assert check([*before, again], promises).came_back == ["p.0 1 in q"]
    assert not check([*before, again._replace(who="another")], promises).wrong


# Definitions


def defined(*words: str) -> Findings:
    """What is found when a queue is changed and looked at: "change ok there" and the like."""
    steps = [word.split() for word in words]
    made = [Operation(0.0, "d", what, outcome, "definitions", f"queue x {state}") for what, outcome, state in steps]
    return check(made, Promises(["q"], definitions="definitions"))


DECLARED = (f"{CHANGE} {INVOKE} there", f"{CHANGE} {OK} there")


def test_a_node_that_does_not_know_what_was_answered_is_stale() -> None:
    findings = defined(*DECLARED, f"{LOOK} {OK} gone")
    assert (findings.stale, findings.wrong) == (["queue x gone in definitions"], True)
    assert (findings.by_queue["definitions"].acknowledged, findings.by_queue["definitions"].stale) == (1, 1)


def test_a_node_that_knows_it_is_not() -> None:
    deleted = (f"{CHANGE} {INVOKE} gone", f"{CHANGE} {OK} gone")
    findings = defined(*DECLARED, f"{LOOK} {OK} there", *deleted, f"{LOOK} {OK} gone")
    assert (findings.changed, findings.looks, findings.wrong) == (2, 2, False)


def test_a_change_that_is_not_answered_may_be_seen_or_not() -> None:
    for state in ("there", "gone"):
        assert not defined(*DECLARED, f"{CHANGE} {INVOKE} gone", f"{LOOK} {OK} {state}").wrong


# Streams


def stream(*places: tuple[str, int, int, int]) -> Findings:
    """What is found when 1, 2 and 3 are confirmed, and readers then see a number at a partition and an offset each."""
    read = [
        Operation(100.0, who, READ, OK, "q", f"p.0 {number}", partition=partition, offset=offset)
        for who, number, partition, offset in places
    ]
    return check([*history(*published(1, 2, 3)), *read], Promises(["q"], streams={"q": ["x", "y"]}))


WHOLE = [("x", 1, 0, 0), ("x", 2, 1, 0), ("x", 3, 0, 1)]
AGAIN = [("y", 1, 0, 0), ("y", 3, 0, 1), ("y", 2, 1, 0)]


def test_a_stream_that_all_readers_have_read_is_whole() -> None:
    findings = stream(*WHOLE, *AGAIN)
    assert (findings.wrong, findings.delivered, findings.by_queue["q"].acknowledged) == (False, 3, 3)


def test_a_record_that_one_reader_does_not_see_is_lost() -> None:
    assert stream(*WHOLE, *AGAIN[:2]).lost == ["p.0 2 in q"]


def test_a_record_at_two_offsets_is_there_twice() -> None:
    more = [("x", 2, 1, 1), ("y", 2, 1, 1)]
    findings = stream(*WHOLE, *AGAIN, *more)
    assert (findings.twice, findings.gaps) == (["p.0 2 in q"], [])


def test_an_offset_that_a_reader_skips_or_sees_again_is_a_gap() -> None:
    skipping = [("y", 1, 0, 0), ("y", 3, 0, 2), ("y", 2, 1, 0)]
    assert "p.0 3 in q" in stream(*WHOLE, *skipping).gaps
    assert stream(*WHOLE, *AGAIN, ("y", 3, 0, 1)).gaps == ["p.0 3 in q"]


def test_readers_that_see_different_records_at_one_offset_are_told_of_a_gap() -> None:
    swapped = [("y", 3, 0, 0), ("y", 1, 0, 1), ("y", 2, 1, 0)]
    findings = stream(*WHOLE, *swapped)
    assert (findings.gaps, findings.by_queue["q"].gaps) == (["p.0 1 in q", "p.0 3 in q"], 2)


def test_a_record_behind_a_later_one_of_its_publisher_is_out_of_order() -> None:
    places = [(who, number, 0, offset) for who in "xy" for offset, number in enumerate((1, 3, 2))]
    assert stream(*places).out_of_order == ["p.0 2 in q"]
