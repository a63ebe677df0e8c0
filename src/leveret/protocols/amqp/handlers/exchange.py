"""exchange.*: declare, delete, bind, unbind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core.changes import Bind, DeclareExchange, DeleteExchange, Unbind
from leveret.core.policy import ALTERNATE_EXCHANGE
from leveret.protocols.amqp.names import refuse_default, stripped
from leveret.security.authorisation import Role
from leveret.wire import methods

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel, Handlers


def declare(channel: Channel, method: methods.ExchangeDeclare) -> None:
    """Make an exchange, or make sure that it is as it is said to be."""
    name = stripped(method.exchange)
    refuse_default(name)
    if method.passive:
        channel.authorize("exchange.declare-passive", {})
        channel.virtual_host.exchange(name)
        channel.answer(method.nowait, methods.ExchangeDeclareOk())
        return
    names: dict[Role, str] = {"exchange": name}
    alternate = method.arguments.get(ALTERNATE_EXCHANGE)
    if isinstance(alternate, str) and name not in channel.virtual_host.exchanges:
        names["alternate_exchange"] = alternate
    channel.authorize("exchange.declare", names)
    channel.change(
        DeclareExchange(
            channel.vhost, name, method.type, method.durable, method.auto_delete, method.internal, method.arguments
        ),
        lambda _: channel.answer(method.nowait, methods.ExchangeDeclareOk(), durable=method.durable),
    )


def delete(channel: Channel, method: methods.ExchangeDelete) -> None:
    """Delete an exchange; a missing one is no error."""
    name = stripped(method.exchange)
    refuse_default(name)
    channel.authorize("exchange.delete", {"exchange": name})
    channel.change(
        DeleteExchange(channel.vhost, name, method.if_unused),
        lambda _: channel.answer(method.nowait, methods.ExchangeDeleteOk(), durable=True),
    )


def bind(channel: Channel, method: methods.ExchangeBind) -> None:
    """Lead messages from one exchange to another."""
    source, destination = _ends(channel, method, "exchange.bind")
    channel.change(
        Bind(channel.vhost, source, destination, method.routing_key, method.arguments, "exchange"),
        lambda _: channel.answer(method.nowait, methods.ExchangeBindOk(), durable=True),
    )


def unbind(channel: Channel, method: methods.ExchangeUnbind) -> None:
    """Undo a binding; a missing one is no error."""
    source, destination = _ends(channel, method, "exchange.unbind")
    channel.change(
        Unbind(channel.vhost, source, destination, method.routing_key, method.arguments, "exchange"),
        lambda _: channel.answer(method.nowait, methods.ExchangeUnbindOk(), durable=True),
    )


def _ends(channel: Channel, method: methods.ExchangeBind | methods.ExchangeUnbind, verb: str) -> tuple[str, str]:
    """Both exchanges of a binding that the user may touch."""
    source, destination = stripped(method.source), stripped(method.destination)
    refuse_default(source)
    refuse_default(destination)
    names: dict[Role, str] = {"source": source, "destination": destination}
    channel.authorize(verb, names, channel.topic_key(source, method.routing_key))
    return source, destination


HANDLERS: Handlers = {
    methods.ExchangeDeclare: declare,
    methods.ExchangeDelete: delete,
    methods.ExchangeBind: bind,
    methods.ExchangeUnbind: unbind,
}
