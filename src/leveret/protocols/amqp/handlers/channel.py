"""channel.*: flow and close; channel.open is the connection's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.protocols.amqp.methods import ChannelClose, ChannelCloseOk, ChannelFlow, ChannelFlowOk
from leveret.protocols.amqp.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel, Handlers


def flow(channel: Channel, method: ChannelFlow) -> None:
    """Messages always flow: a client that wants fewer uses basic.qos."""
    if not method.active:
        raise ProtocolError(Reply.NOT_IMPLEMENTED, "active=false")
    channel.say(ChannelFlowOk(True))


def close(channel: Channel, method: ChannelClose) -> None:
    """The client is done with the channel: what it holds goes back."""
    if not channel.deaf:  # had we closed it, the answer to that would still be to come
        channel.release()
        channel.forget()
    channel.say(ChannelCloseOk())


def close_ok(channel: Channel, method: ChannelCloseOk) -> None:
    """The client has understood that the channel was closed."""
    if not channel.deaf:
        raise ProtocolError(Reply.COMMAND_INVALID, "channel.close-ok without a channel.close")
    channel.forget()


HANDLERS: Handlers = {ChannelFlow: flow, ChannelClose: close, ChannelCloseOk: close_ok}
