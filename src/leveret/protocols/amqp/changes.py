"""What the audit log says of changes of definitions by AMQP: the method, and the objects that it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leveret.core.changes import Bind, Change, DeclareExchange, DeclareQueue, DeleteExchange, RenewQueue, Unbind

Told = tuple[str, dict[str, object]]
"""The name of the method, and facts about it."""


def told_of(change: Change[Any]) -> Told | None:
    """What is noted of a change; None: nothing, since its handler notes more than the change knows."""
    tell = TOLD.get(type(change))
    return None if tell is None else tell(change)


def _declared_queue(change: DeclareQueue) -> Told:
    facts: dict[str, object] = {"queue": change.name, "durable": change.durable}
    if change.owner is not None:
        facts["exclusive"] = True
    return "queue.declare", facts | _arguments(change)


def _renewed_queue(change: RenewQueue) -> Told:
    return "queue.declare", {"queue": change.gone.name, "durable": change.durable} | _arguments(change)


def _declared_exchange(change: DeclareExchange) -> Told:
    facts: dict[str, object] = {"exchange": change.name, "type": change.type, "durable": change.durable}
    return "exchange.declare", facts | _arguments(change)


def _deleted_exchange(change: DeleteExchange) -> Told:
    return "exchange.delete", {"exchange": change.name}


def _bound(verb: str) -> Callable[[Bind | Unbind], Told]:
    def tell(change: Bind | Unbind) -> Told:
        facts: dict[str, object] = {"exchange": change.source, "routing_key": change.key}
        kind = change.destination_type
        facts["queue" if kind == "queue" else "destination"] = change.destination
        return f"{kind}.{verb}", facts | _arguments(change)

    return tell


def _arguments(change: Any) -> dict[str, object]:
    return {"arguments": dict(change.arguments)} if change.arguments else {}


TOLD: dict[type[Change[Any]], Callable[[Any], Told]] = {
    DeclareQueue: _declared_queue,
    RenewQueue: _renewed_queue,
    DeclareExchange: _declared_exchange,
    DeleteExchange: _deleted_exchange,
    Bind: _bound("bind"),
    Unbind: _bound("unbind"),
}
