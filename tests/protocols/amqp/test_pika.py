"""Our bytes against those of pika, for every method: somebody else's reading of the same protocol."""

import pika.spec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.wire.codec import decode, encode
from leveret.wire.methods import METHODS, MethodSpec
from tests.protocols.amqp.strategies import BY_KIND, SHORT_TEXT, class_of

# pika picks other integer types for some headers than we do: what a table may hold is tested with the tables.
TABLES = st.dictionaries(SHORT_TEXT, st.booleans() | st.text(max_size=20) | st.none(), max_size=4)


@pytest.mark.parametrize("spec", METHODS, ids=[spec.name for spec in METHODS])
@settings(max_examples=10)
@given(data=st.data())
def test_pika_writes_the_same(spec: MethodSpec, data: st.DataObject) -> None:
    kinds = BY_KIND | {"table": TABLES}
    named = {name: data.draw(kinds[kind]) for name, kind in spec.arguments if not name.startswith("_")}
    ours = class_of(spec)(**named)
    theirs = pika.spec.methods[spec.class_id << 16 | spec.method_id](**named)
    wire = spec.class_id.to_bytes(2, "big") + spec.method_id.to_bytes(2, "big") + b"".join(theirs.encode())
    assert encode(ours) == wire
    assert decode(wire) == ours
    assert bool(spec.replies) == theirs.synchronous
    assert spec.has_content == pika.spec.has_content(theirs.INDEX)


def test_no_method_of_pika_is_missing() -> None:
    assert set(pika.spec.methods) == {spec.class_id << 16 | spec.method_id for spec in METHODS}
