"""Where plain messages of a client go, remembered: those that ask for nothing special, by exchange and routing key.

content header: | u16 class | u16 weight | u64 body size | u16 flags of the properties | ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leveret.amqp.channel import Channel
from leveret.amqp.codec import encode
from leveret.amqp.methods import BasicPublish

if TYPE_CHECKING:
    from leveret.node.front.channel import FrontChannel

FLAGS_AT = 12
HEADERS, REPLY, EXPIRATION, USER = 1 << 13, 1 << 9, 1 << 8, 1 << 4
SPECIAL = HEADERS | REPLY | EXPIRATION | USER | 1  # the last one says that there are more flags
ROUTES_MAX = 10_000


class Route(NamedTuple):
    """The shards of a plain message, what each of them is told, and the largest body that all queues take."""

    homes: list[str]
    method: bytes
    mandatory: bytes
    """What it is told of a message that is to come back if its queue has just gone."""
    bytes_max: int | None


class Routes:
    """The routes of one connection, for as long as neither topology nor permissions change."""

    def __init__(self) -> None:
        """Know none."""
        self._stamp = -1
        self._routes: dict[tuple[str, str], Route | None] = {}

    def find(self, channel: FrontChannel, exchange: str, key: str, content: bytes, header_len: int) -> Route | None:
        """The route of a message; None: it has to be looked at more closely."""
        if int.from_bytes(content[FLAGS_AT : FLAGS_AT + 2], "big") & SPECIAL:
            return None
        stamp = channel.front.current_stamp()
        if stamp != self._stamp or len(self._routes) >= ROUTES_MAX:
            self._stamp = stamp
            self._routes.clear()
        if (exchange, key) not in self._routes:
            self._routes[exchange, key] = _route(channel, exchange, key)
        route = self._routes[exchange, key]
        if route is None or (route.bytes_max is not None and len(content) - header_len > route.bytes_max):
            return None
        return route


def _route(channel: FrontChannel, exchange: str, key: str) -> Route | None:
    """The route by exchange and key alone; None when these do not decide it, or nobody gets the message."""
    found = Channel.find_route(channel, exchange, key)
    if not found.plain or not found.queues:
        return None
    queues = found.queues
    homes = list(dict.fromkeys(channel.front.node.home_of(channel.vhost, queue.name) for queue in queues))
    limits = [queue.policy.max_message_bytes for queue in queues if queue.policy.max_message_bytes is not None]
    plain, mandatory = (encode(BasicPublish(exchange, key, each, False)) for each in (False, returnable(homes)))
    return Route(homes, plain, mandatory, min(limits, default=None))


def returnable(homes: list[str]) -> bool:
    """Whether a shard may send a message back: one of several must not, if another one has it."""
    return len(homes) == 1
