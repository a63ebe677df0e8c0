"""Method objects of every kind with arbitrary arguments."""

from typing import Any

from hypothesis import strategies as st

from leveret.wire.methods import METHODS, Method, MethodSpec

SHORT_TEXT = st.text(max_size=60)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=20),
    st.text(max_size=20),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SHORT_TEXT, inner, max_size=3), max_leaves=6
)
BY_KIND: dict[str, st.SearchStrategy[Any]] = {
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "bit": st.booleans(),
    "shortstr": SHORT_TEXT,
    "longstr": st.binary(max_size=300),
    "table": st.dictionaries(SHORT_TEXT, VALUES, max_size=4),
}


def class_of(spec: MethodSpec) -> type[Method]:
    """The Python class of a method."""
    return spec.kind


def method_of(spec: MethodSpec) -> st.SearchStrategy[Method]:
    """One method with any arguments."""
    named = {name: BY_KIND[kind] for name, kind in spec.arguments if not name.startswith("_")}
    return st.builds(class_of(spec), **named)


ANY_METHOD = st.sampled_from(METHODS).flatmap(method_of)
