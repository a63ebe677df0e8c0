"""What a message carries when it is dead-lettered, and the keys that it is routed by.

The header `x-death` is an array of tables, the newest death first, one table for each pair of queue and reason:

    count         how often it died there for this reason      exchange              where it had been published to
    reason        rejected, expired, maxlen, delivery_limit    routing-keys          with which keys (CC too, BCC not)
    queue         where it died                                original-expiration   the expiration it had, if any
    time          of the first of these deaths

`x-first-death-*` and `x-last-death-*` name queue, reason and exchange of the first and of the latest death.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from leveret.core.arguments import type_name
from leveret.core.errors import InvalidArgument
from leveret.core.exchanges import DefaultExchange, Exchange
from leveret.core.properties import Properties
from leveret.core.tables import Long, LongString, encode_table
from leveret.core.topology import Vhost

# A message can travel between queues for years: its history must not outgrow its header commit batch.
DEATHS_MAX = 64
DEATHS_BYTES_MAX = 32_768
DEATH_ROUTING_KEYS_MAX = 32

DEATHS = "x-death"
ORIGIN = "x-origin-id"  # the id that a dead letter had at first
RECEIVED = "x-received"  # how often a dead letter was delivered before it died
RECEIVED_MAX = 1 << 30  # a publisher can write the header too
FACTS = ("queue", "reason", "exchange")
OWNED = frozenset({DEATHS, *(f"x-{which}-death-{fact}" for which in ("first", "last") for fact in FACTS)})

Outbox = Callable[[str, str, list[str], Properties, bool], list[tuple[Properties, list[Any]]]]
"""Asked about each dead letter by virtual host, exchange and keys: which other queues get it, and carrying what; True:
it waits until its targets have room.
"""

Away = Callable[[str, str, Properties], tuple[Properties, Any] | None]
"""Asked about a message that is moved, by virtual host and queue: which queue has it for now, and carrying what."""


def dead_letter(
    properties: Properties,
    *,
    queue: str,
    reason: str,
    exchange: str,
    routing_keys: Sequence[str],
    now_ms: int,
    clear_expiration: bool = True,
    keep_cc: bool = True,
) -> Properties:
    """The properties of a message that died in a queue; keep_cc=False if it gets a dead-letter routing key."""
    deaths = deaths_of(properties)
    known = next((death for death in deaths if (_text(death["queue"]), death["reason"]) == (queue, reason)), None)
    if known is None:
        death = _first_death(properties, queue, reason, exchange, routing_keys, now_ms)
    else:
        death = {**known, "count": Long(known["count"] + 1)}
    older = [other for other in deaths if other is not known]
    facts = dict(zip(FACTS, (queue, reason, exchange), strict=True))
    headers = {name: value for name, value in (properties.headers or {}).items() if name not in _dropped(keep_cc)}
    if not deaths:
        headers |= {f"x-first-death-{fact}": value for fact, value in facts.items()}
    headers |= {f"x-last-death-{fact}": value for fact, value in facts.items()}
    headers[DEATHS] = _fitting([death, *older])
    return replace(properties, headers=headers, expiration=None if clear_expiration else properties.expiration)


def deaths_of(properties: Properties) -> list[dict[str, Any]]:
    """The deaths of a message, the newest first."""
    deaths = (properties.headers or {}).get(DEATHS)
    return [death for death in deaths if _is_death(death)] if isinstance(deaths, list) else []


def _is_death(death: Any) -> bool:
    """Whether a table has what is read here: a publisher's own header must not stop the dead-lettering of its
    message.
    """
    return (
        isinstance(death, dict)
        and isinstance(death.get("queue"), str | LongString)
        and isinstance(death.get("reason"), str)
        and isinstance(death.get("count"), int)
    )


def received_before(headers: dict[str, Any]) -> int:
    """How often a dead letter was delivered before it died."""
    count = headers.get(RECEIVED, 0)
    return count if isinstance(count, int) and 0 <= count < RECEIVED_MAX else 0


def forms_cycle(properties: Properties, target_queue: str) -> bool:
    """Whether a dead-lettered message came from this queue without a consumer rejecting it since."""
    for death in deaths_of(properties):
        if death["reason"] == "rejected":
            return False
        if _text(death["queue"]) == target_queue:
            return True
    return False


def without_client_deaths(properties: Properties) -> Properties:
    """The properties without a history that the publisher made up or sends again: only the broker counts deaths."""
    headers = properties.headers
    if headers is None or OWNED.isdisjoint(headers):
        return properties
    return replace(properties, headers={name: value for name, value in headers.items() if name not in OWNED})


def routing_keys_of(properties: Properties, routing_key: str) -> list[str]:
    """The keys that consumers may know of: the routing key and CC."""
    return [routing_key, *_keys(properties, "CC")]


def all_keys(properties: Properties, routing_key: str) -> list[str]:
    """The keys that a message is routed by: the routing key, CC and BCC."""
    return [*routing_keys_of(properties, routing_key), *_keys(properties, "BCC")]


def _keys(properties: Properties, header: str) -> list[str]:
    """The routing keys in a header; what is no text in the list is passed over."""
    keys = (properties.headers or {}).get(header, [])
    if not isinstance(keys, list):
        raise InvalidArgument(f'invalid message: {{unacceptable_type_in_header,"{header}",{type_name(keys)}}}')
    return [_text(key) for key in keys if isinstance(key, str | LongString)]


def _first_death(
    properties: Properties, queue: str, reason: str, exchange: str, routing_keys: Sequence[str], now_ms: int
) -> dict[str, Any]:
    """The table of a death that had not happened before."""
    death = {
        # Clients in typed languages expect 64 bits here.
        "count": Long(1),
        "reason": reason,
        "queue": queue,
        "time": datetime.fromtimestamp(now_ms // 1000, UTC),
        "exchange": exchange,
        "routing-keys": list(routing_keys[:DEATH_ROUTING_KEYS_MAX]),
    }
    if properties.expiration is not None:
        death["original-expiration"] = properties.expiration
    return death


def _dropped(keep_cc: bool) -> set[str]:
    """The headers that a dead letter does not keep."""
    return {"BCC"} if keep_cc else {"BCC", "CC"}


def _fitting(deaths: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many of the newest deaths as a message may carry."""
    deaths = deaths[:DEATHS_MAX]
    while len(deaths) > 1 and len(encode_table({DEATHS: deaths})) > DEATHS_BYTES_MAX:
        deaths.pop()
    return deaths


def _text(name: str | LongString) -> str:
    """A name as the rest of the broker writes it, also if it is not UTF-8."""
    return name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")


class DeadLetterRoute(NamedTuple):
    """That dead letters of a queue go to an exchange, or straight to another queue."""

    source: Any
    destination: Any

    @property
    def destination_type(self) -> str:
        return "exchange" if isinstance(self.destination, Exchange) else "queue"


def dead_letter_routes(virtual_host: Vhost) -> Iterator[DeadLetterRoute]:
    """Every queue with dead letters, by name; not those whose dead letters have nowhere to go."""
    dying = [queue for queue in virtual_host.queues.values() if queue.policy.dead_letter_exchange is not None]
    for queue in sorted(dying, key=_name):
        exchange = virtual_host.exchanges.get(queue.policy.dead_letter_exchange)
        key = queue.policy.dead_letter_routing_key
        if isinstance(exchange, DefaultExchange):
            # Without a key of its own a dead letter keeps the one that it had, and that may be any.
            target = None if key is None else virtual_host.queues.get(key)
            if target is not None:
                yield DeadLetterRoute(queue, target)
        elif exchange is not None:
            yield DeadLetterRoute(queue, exchange)


def dead_letter_queues(virtual_host: Vhost) -> list[Any]:
    """The queues that dead letters may reach, by name."""
    found: dict[Any, None] = {}
    pending = [each.destination for each in dead_letter_routes(virtual_host)]
    seen: set[Any] = set()
    while pending:
        place = pending.pop()
        if place in seen:
            continue
        seen.add(place)
        if isinstance(place, Exchange):
            pending += [binding.destination for binding in place.bindings.values()]
            if place.alternate is not None and place.alternate in virtual_host.exchanges:
                pending.append(virtual_host.exchanges[place.alternate])
        else:
            found[place] = None
    return sorted(found, key=_name)


def _name(queue: Any) -> str:
    return str(queue.name)
