"""The exchange types, one file each; `new_exchange` picks the class by its name on the wire.

base.py     what every exchange has: its declaration, its bindings in the order they were made
direct.py   exchanges that look at nothing but the routing key, or not even that: direct, default and fanout
hashing.py  exchanges that choose by a hash: x-consistent-hash and x-modulus-hash
headers.py  the headers exchange: binding arguments are compared with the message's headers
random.py   the exchanges x-random and x-local-random: one of the bound destinations, by chance, for each message
topic.py    the topic exchange: binding keys are patterns of dot-separated words, kept in a trie
"""

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.core.exchanges.base import DECLARED, Arguments, Binding, Exchange
from leveret.core.exchanges.direct import DefaultExchange, DirectExchange, FanoutExchange
from leveret.core.exchanges.hashing import ConsistentHashExchange, ModulusHashExchange
from leveret.core.exchanges.headers import HeadersExchange
from leveret.core.exchanges.random import LocalRandomExchange, RandomExchange
from leveret.core.exchanges.topic import TopicExchange

__all__ = [
    "DECLARED",
    "DELAYED",
    "TYPES",
    "Binding",
    "DefaultExchange",
    "Exchange",
    "LocalRandomExchange",
    "check_type",
    "new_exchange",
]

TYPES: dict[str, type[Exchange]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "topic": TopicExchange,
    "headers": HeadersExchange,
    "x-consistent-hash": ConsistentHashExchange,
    "x-modulus-hash": ModulusHashExchange,
    "x-random": RandomExchange,
    "x-local-random": LocalRandomExchange,
}
DELAYED = "x-delayed-message"


def check_type(type: str) -> None:
    """Refuse an unknown exchange type."""
    if type != DELAYED and type not in TYPES:
        raise PreconditionFailed(f"unknown exchange type '{type}'")


def new_exchange(
    name: str,
    type: str,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Arguments | None = None,
) -> Exchange:
    """An exchange of the class that its type names; a delayed one is of the class that x-delayed-type names."""
    check_type(type)
    routing = (arguments or {}).get("x-delayed-type") if type == DELAYED else type
    if not isinstance(routing, str) or routing not in TYPES:
        raise InvalidArgument("Invalid argument, 'x-delayed-type' must be an existing exchange type")
    exchange = TYPES[routing](name, type, durable, auto_delete, internal, arguments)
    exchange.delays = type == DELAYED
    return exchange
