"""Exchanges: declaring, deleting, binding, and where each type leads."""

from typing import Any

from leveret.core.tables import Long
from leveret.wire import methods as m
from tests.rabbitmq.operations import bind, bind_exchange, confirm, delete, exchange, get, publish, queue
from tests.rabbitmq.script import Listen, Op, Script, Step

# fmt: off
HEADERS = {"format": "pdf", "x-kind": "a", "pages": 3}


def routed(type: str, key: str, *bindings: str) -> Script:
    """Publish with a key to an exchange that has a queue bound by each of these keys."""
    steps: list[Step] = [exchange("x", type)]
    for number, binding in enumerate(bindings):
        steps += [queue(f"q{number}"), bind("x", f"q{number}", binding)]
    steps += [publish(key, source="x"), Listen(0.1)]
    return [*steps, *(get(f"q{number}") for number in range(len(bindings)))]


def matched(arguments: dict[str, Any], headers: dict[str, Any] | None) -> Script:
    """Publish headers to a headers exchange that a queue is bound to with these arguments."""
    message = publish("", source="amq.headers", headers=headers)
    return [queue(), bind("amq.headers", "q", "", arguments), message, Listen(0.1), get()]


SCENARIOS: dict[str, Script] = {
    "declare twice": [exchange(), exchange()],
    "declare passively": [exchange(), Op(m.ExchangeDeclare("x", "fanout", passive=True))],
    "declare passively what is not there": [Op(m.ExchangeDeclare("x", "fanout", passive=True))],
    "declare passively with an unknown type": [exchange(), Op(m.ExchangeDeclare("x", "odd", passive=True))],
    "unknown type": [exchange("x", "odd")],
    "redeclare: type": [exchange(), exchange("x", "topic")],
    "redeclare: durable": [exchange(), exchange(durable=False)],
    "redeclare: auto-delete": [exchange(), exchange(auto_delete=True)],
    "redeclare: internal": [exchange(), exchange(internal=True)],
    "redeclare: alternate exchange": [exchange(), exchange(arguments={"alternate-exchange": "ae"})],
    "redeclare: another alternate exchange": [
        exchange(arguments={"alternate-exchange": "one"}), exchange(arguments={"alternate-exchange": "two"}),
    ],
    "redeclare: an unknown argument": [exchange(), exchange(arguments={"mine": 1})],
    "an alternate exchange that is no name": [exchange(arguments={"alternate-exchange": 5})],
    "reserved prefix": [exchange("amq.mine")],
    "reserved prefix, passive": [Op(m.ExchangeDeclare("amq.mine", "direct", passive=True))],
    "redeclare a predeclared one": [exchange("amq.topic", "topic")],
    "declare the default exchange": [exchange("")],
    "declare the default exchange passively": [Op(m.ExchangeDeclare("", "direct", passive=True))],
    "delete": [exchange(), Op(m.ExchangeDelete("x")), Op(m.ExchangeDelete("x"))],
    "delete a predeclared one": [Op(m.ExchangeDelete("amq.topic"))],
    "delete the default exchange": [Op(m.ExchangeDelete(""))],
    "delete if unused": [
        exchange(), queue(), bind(), Op(m.ExchangeDelete("x", if_unused=True)), delete(),
        Op(m.ExchangeDelete("x", if_unused=True)),
    ],
    "delete if unused: only a destination": [
        exchange(), exchange("y"), bind_exchange("x", "y"), Op(m.ExchangeDelete("y", if_unused=True)),
    ],
    "auto-delete: goes with its last binding": [
        exchange(auto_delete=True), queue(), bind(key="a"), bind(key="b"), Op(m.QueueUnbind("q", "x", "a")),
        Op(m.ExchangeDeclare("x", passive=True)), Op(m.QueueUnbind("q", "x", "b")),
        Op(m.ExchangeDeclare("x", passive=True)),
    ],
    "auto-delete: goes with its last queue": [
        exchange(auto_delete=True), queue(), bind(), delete(), Op(m.ExchangeDeclare("x", passive=True)),
    ],
    "auto-delete: as a destination it stays": [
        exchange("x", auto_delete=True), exchange("y"), bind_exchange("y", "x"), Op(m.ExchangeUnbind("x", "y")),
        Op(m.ExchangeDeclare("x", passive=True)),
    ],
    "bind to nothing": [exchange(), bind_exchange("nothing", "x")],
    "bind nothing": [exchange(), bind_exchange("x", "nothing")],
    "bind the default exchange": [exchange(), bind_exchange("", "x")],
    "bind to the default exchange": [exchange(), bind_exchange("x", "")],
    "unbind what is not bound": [exchange(), exchange("y"), Op(m.ExchangeUnbind("x", "y", "k"))],
    "unbind what is not there": [Op(m.ExchangeUnbind("x", "y", "k"))],
    "publish to an internal exchange": [exchange(internal=True), publish(source="x"), Listen()],
    "an internal exchange is reached through another": [
        exchange("in", "fanout", internal=True), queue(), bind("in"), exchange(), bind_exchange("x", "in", "k"),
        publish("k", source="x"), Listen(0.1), get(),
    ],
    "exchanges bound in a circle": [
        exchange("x", "fanout"), exchange("y", "fanout"), bind_exchange("x", "y"), bind_exchange("y", "x"), queue(),
        bind("x"), bind("y"), publish(source="x"), Listen(0.1), get(), get(),
    ],
    "one copy whatever the number of bindings": [
        queue(), bind("amq.topic", "q", "a.*"), bind("amq.topic", "q", "*.b"), bind("amq.topic", "q", "#"),
        publish("a.b", source="amq.topic"), Listen(0.1), get(), get(),
    ],
    "the alternate exchange gets what nothing matches": [
        exchange("ae", "fanout"), queue(), bind("ae"), exchange(arguments={"alternate-exchange": "ae"}),
        publish("k", source="x"), Listen(0.1), get(),
    ],
    "alternate exchanges in a circle": [
        exchange("x", arguments={"alternate-exchange": "y"}), exchange("y", arguments={"alternate-exchange": "x"}),
        confirm(), publish("k", source="x", mandatory=True), Listen(),
    ],
    "an alternate exchange that is not there": [
        exchange(arguments={"alternate-exchange": "nothing"}), confirm(), publish("k", source="x", mandatory=True),
        Listen(),
    ],
    "direct": routed("direct", "a", "a", "b", "a"),
    "fanout": routed("fanout", "a", "a", "b"),
    "topic: words": routed("topic", "a.b", "a.b", "a.*", "*.*", "*", "a.#", "#", "a.b.#", "#.b", "a.#.b", "a.b.*"),
    "topic: no words": routed("topic", "", "", "*", "#", "#.#", "*.#"),
    "topic: an empty word": routed("topic", "a..b", "a..b", "a.*.b", "a.#.b", "*.*.*", "a.b", "*.*"),
    "topic: a dot alone": routed("topic", ".", "*.*", "*", "#", ".", "#.#", "*.*.#"),
    "topic: stars within words are no wildcards": routed("topic", "ab", "a*", "a#", "ab"),
    "topic: hashes on both sides": routed("topic", "a.b.c", "#.b.#", "#.b", "b.#", "#.#.#", "#.d.#"),
    "headers: all": matched({"x-match": "all", "format": "pdf", "pages": 3}, HEADERS),
    "headers: all, one differs": matched({"x-match": "all", "format": "pdf", "pages": 4}, HEADERS),
    "headers: all is the default": matched({"format": "pdf", "pages": 3}, HEADERS),
    "headers: any": matched({"x-match": "any", "format": "txt", "pages": 3}, HEADERS),
    "headers: any, none": matched({"x-match": "any", "format": "txt"}, HEADERS),
    "headers: keys that begin with x- do not count": matched({"format": "pdf", "x-kind": "b"}, HEADERS),
    "headers: all-with-x": matched({"x-match": "all-with-x", "format": "pdf", "x-kind": "b"}, HEADERS),
    "headers: any-with-x": matched({"x-match": "any-with-x", "format": "txt", "x-kind": "a"}, HEADERS),
    "headers: nothing asked of all": matched({"x-match": "all"}, HEADERS),
    "headers: nothing asked of any": matched({"x-match": "any"}, HEADERS),
    "headers: a message without headers": matched({"x-match": "all"}, None),
    "headers: presence is enough": matched({"format": None}, HEADERS),
    "headers: absence is not": matched({"other": None}, HEADERS),
    "headers: integers of another width": matched({"pages": Long(3)}, HEADERS),
    "headers: integers and floats": matched({"pages": 3.0}, HEADERS),
    "headers: types differ": matched({"pages": "3"}, HEADERS),
    "headers: a bad x-match": [queue(), bind("amq.headers", "q", "", {"x-match": "some"})],
    "headers: an x-match that is no word": [queue(), bind("amq.headers", "q", "", {"x-match": 1})],
    "the default exchange is not bound to": routed("direct", "q0", "k"),
    "consistent hash: a weight that is none": [exchange("x", "x-consistent-hash"), queue(), bind(key="odd")],
    "consistent hash: zero weight": [exchange("x", "x-consistent-hash"), queue(), bind(key="0")],
    "consistent hash: header and property": [
        exchange("x", "x-consistent-hash", {"hash-header": "h", "hash-property": "message_id"})
    ],
    "consistent hash: an unknown property": [exchange("x", "x-consistent-hash", {"hash-property": "priority"})],
    "random: one of its queues": [
        exchange("x", "x-random"), queue(), bind(), publish("k", source="x"), Listen(0.1), get(),
    ],
    "random: nothing bound": [exchange("x", "x-random"), confirm(), publish("k", source="x", mandatory=True), Listen()],
}
