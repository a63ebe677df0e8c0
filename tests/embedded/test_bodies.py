"""Bodies that are more than JSON: what becomes of them, and as what they are read."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

import leveret

AT, PRICE = datetime(2026, 5, 1, 12, 30, tzinfo=UTC), Decimal("1.10")
KEY = UUID("12345678-1234-5678-1234-567812345678")


class Size(Enum):
    SMALL = "s"


@dataclass
class Line:
    article: str
    price: Decimal


@dataclass(frozen=True)
class Order:
    key: UUID
    at: datetime
    lines: list[Line]
    size: Size | None = None
    weight: float = 0
    labels: dict[str, date] = field(default_factory=dict)


class Model(pydantic.BaseModel):
    key: UUID
    at: datetime
    price: Decimal


class Struct(msgspec.Struct):
    key: UUID
    at: datetime
    price: Decimal


ORDER = Order(KEY, AT, [Line("hat", Decimal("9.90"))], Size.SMALL, 2, {"made": date(2026, 4, 30)})


@pytest.mark.everywhere
@pytest.mark.parametrize(
    "sent",
    [
        ORDER,
        Model(key=KEY, at=AT, price=Decimal("1.10")),
        Struct(KEY, AT, Decimal("1.10")),
        AT,
        KEY,
        Decimal("1.10"),
        Size.SMALL,
    ],
    ids=lambda sent: type(sent).__name__,
)
def test_a_body_is_read_as_what_it_was(broker: leveret.Broker, sent: Any) -> None:
    orders = broker.queue("orders")
    orders.send(sent)
    orders.send_many([sent])
    for message in orders.receive(2):
        assert message.content_type == "application/json"
        assert message.body_as(type(sent)) == sent
    clicks = broker.stream("clicks")
    clicks.send(sent)
    assert clicks.read()[0].body_as(type(sent)) == sent


def test_what_is_missing_has_its_default(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    orders.send({"key": str(KEY), "at": AT.isoformat(), "lines": [], "new field": 1})
    assert orders.receive()[0].body_as(Order) == Order(KEY, AT, [])


WRONG: list[tuple[object, type]] = [
    ({"article": 1, "price": "1"}, Line),
    ({"article": "a"}, Line),
    ([], Line),
    ("x", int),
    (True, int),
    ("nine", Decimal),
    ({}, Model),
    ({}, Struct),
]


@pytest.mark.parametrize(("body", "kind"), WRONG, ids=lambda each: str(each))
def test_a_body_that_is_something_else_is_refused(broker: leveret.Broker, body: Any, kind: type) -> None:
    orders = broker.queue("orders")
    orders.send(body)
    (message,) = orders.receive()
    with pytest.raises(leveret.InvalidArgument, match="the body is no"):
        message.body_as(kind)
    assert message.body == body


@pytest.fixture
def msgpack() -> Iterator[None]:
    class MessagePack(leveret.Serializer):
        content_type = "application/msgpack"

        def dumps(self, body: Any) -> bytes:
            return msgspec.msgpack.encode(body)

        def loads(self, data: bytes) -> Any:
            return msgspec.msgpack.decode(data)

        def convert(self, body: Any, kind: type) -> Any:
            return msgspec.convert(body, kind)

    leveret.use_serializer(MessagePack())
    yield
    leveret.use_serializer(leveret.Serializer())


@pytest.mark.everywhere
def test_another_serializer(broker: leveret.Broker, msgpack: None) -> None:
    orders = broker.queue("orders")
    orders.send({"n": 1})
    orders.send(Struct(KEY, AT, Decimal("1.10")))
    orders.send(b'{"n": 2}', properties={"content_type": "application/json"})
    first, second, third = orders.receive(3)
    assert (first.content_type, first.body, first.data) == ("application/msgpack", {"n": 1}, b"\x81\xa1n\x01")
    assert second.body_as(Struct).key == KEY
    assert third.body == {"n": 2}


def test_neither_library_is_imported_unless_it_is_used() -> None:
    script = (
        "import sys, leveret; q = leveret.open().queue('q'); q.send({'n': 1}); "
        "print(q.receive()[0].body_as(dict), {'msgspec', 'pydantic'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "{'n': 1} set()\n"
