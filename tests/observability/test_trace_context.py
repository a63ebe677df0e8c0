"""The formats of trace contexts: read, written, refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import TraceState

from leveret.observability.trace_context import CONTEXT_CHARS_MAX, TraceContext, context_of, from_aws, parse, to_aws

TRACE = 0x0AF7651916CD43DD8448EB211C80319C
SPAN = 0xB7AD6B7169203331
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

contexts = st.builds(TraceContext, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans(), st.just(""))


def test_a_context_is_read() -> None:
    assert parse(TRACEPARENT, "one=1") == TraceContext(TRACE, SPAN, True, "one=1")
    assert parse(TRACEPARENT.encode()) == TraceContext(TRACE, SPAN, True)
    assert parse(TRACEPARENT[:-2] + "00") == TraceContext(TRACE, SPAN, False)


def test_a_higher_version_may_say_more() -> None:
    assert parse("01" + TRACEPARENT[2:] + "-more") == TraceContext(TRACE, SPAN, True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        None,
        7,
        TRACEPARENT[:-1],
        TRACEPARENT + "-more",
        TRACEPARENT.upper(),
        "ff" + TRACEPARENT[2:],
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        TRACEPARENT.replace("-", "_"),
        "01" + TRACEPARENT[2:] + "-" + "x" * CONTEXT_CHARS_MAX,
    ],
)
def test_what_is_malformed_is_nothing(text: object) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "state",
    [
        "a=" + "x" * CONTEXT_CHARS_MAX,
        ",".join(f"a{number}=1" for number in range(33)),
        "a=1,a=2",
        "A=1",
        "a",
        "a=",
        "a=1\n",
        "a=\u00e4",
        "a=b=c",
        b"\xff",
    ],
)
def test_a_malformed_state_is_left_out(state: str | bytes) -> None:
    found = context_of({"traceparent": TRACEPARENT, "tracestate": state})
    assert found == TraceContext(TRACE, SPAN, True)


@pytest.mark.parametrize("state", ["vendor=1", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "fw529a3039@dt=FfAc(+) x"])
def test_a_state_is_read_as_opentelemetry_reads_it(state: str) -> None:
    found = context_of({"traceparent": TRACEPARENT, "tracestate": state})
    assert found is not None
    assert found.state == state == TraceState.from_header([state]).to_header()


@given(contexts)
def test_what_was_written_is_read_again(context: TraceContext) -> None:
    assert parse(context.traceparent) == context
    assert from_aws(to_aws(context)) == context


def test_the_header_of_aws() -> None:
    header = "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1"
    assert to_aws(TraceContext(TRACE, SPAN, True)) == header
    assert from_aws(header + ";Lineage=a:1") == TraceContext(TRACE, SPAN, True)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Root=1-0af76519-16cd43dd8448eb211c80319c",
        "Root=2-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331",
        "Root=1-00000000-000000000000000000000000;Parent=b7ad6b7169203331",
        "Self=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1",
    ],
)
def test_a_header_of_aws_without_trace_or_span_is_nothing(header: str) -> None:
    assert from_aws(header) is None
