"""How far a connection has come when the nonsense begins."""

from collections.abc import Callable

from leveret.core.properties import Properties, encode_header
from leveret.wire import methods as m
from leveret.wire.frames import HEADER
from tests.fuzz.arena import LOGIN, Arena, Fighter
from tests.protocols.amqp.wire import frame, method_frame

PUBLISH = method_frame(1, m.BasicPublish("", "q"))
ANNOUNCED = frame(HEADER, 1, encode_header(Properties(delivery_mode=2), 100))


def gone(steps: int, *more: bytes) -> Callable[[Arena], Fighter]:
    """A connection that has gone so many steps, and then said something."""

    def start(arena: Arena) -> Fighter:
        fighter = arena.enter(steps)
        for data in more:
            fighter.send(data)
        return fighter

    return start


STARTS: dict[str, Callable[[Arena], Fighter]] = {
    "fresh": gone(0),
    "greeted": gone(1),
    "logged in": gone(2),
    "tuned": gone(3),
    "channel open": gone(len(LOGIN), method_frame(1, m.QueueDeclare("q", durable=True))),
    "consuming": gone(
        len(LOGIN), method_frame(1, m.QueueDeclare("q", durable=True)), method_frame(1, m.BasicConsume("q", "c"))
    ),
    "transacting": gone(len(LOGIN), method_frame(1, m.TxSelect())),
    "in a publish": gone(len(LOGIN), PUBLISH),
    "in a content": gone(len(LOGIN), PUBLISH, ANNOUNCED),
    "closing": gone(len(LOGIN), method_frame(1, m.BasicQos(prefetch_size=1))),
}
READS_BYTES = (65_536, 1, 7, 100, 4_104)


def feed(arena: Arena, data: bytes) -> None:
    """Start as the first byte says, and send the rest in reads as the second says."""
    start, size = data[:1].ljust(1, b"\0")[0], data[1:2].ljust(1, b"\0")[0]
    fighter = list(STARTS.values())[start % len(STARTS)](arena)
    step = READS_BYTES[size % len(READS_BYTES)]
    rest = data[2:]
    for position in range(0, len(rest), step):
        if fighter.connection.finished:
            return
        fighter.send(rest[position : position + step])
    arena.check()
