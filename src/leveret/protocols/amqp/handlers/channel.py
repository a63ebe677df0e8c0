"""What is about a channel as a whole: channel.*, confirm.* and tx.*; channel.open is the connection's.

access.request is one that AMQP 0-9-1 has given up: old clients still ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.protocols.amqp.transaction import Transaction
from leveret.wire import methods
from leveret.wire.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel, Handlers

TICKET = 1


def flow(channel: Channel, method: methods.ChannelFlow) -> None:
    """Messages always flow: a client that wants fewer uses basic.qos."""
    if not method.active:
        raise ProtocolError(Reply.NOT_IMPLEMENTED, "active=false")
    channel.say(methods.ChannelFlowOk(True))


def close(channel: Channel, method: methods.ChannelClose) -> None:
    """The client is done with the channel: what it holds goes back."""
    if not channel.deaf:  # had we closed it, the answer to that would still be to come
        channel.release()
        channel.forget()
    channel.say(methods.ChannelCloseOk())


def close_ok(channel: Channel, method: methods.ChannelCloseOk) -> None:
    """The client has understood that the channel was closed."""
    if not channel.deaf:
        raise ProtocolError(Reply.COMMAND_INVALID, "channel.close-ok without a channel.close")
    channel.forget()


def request_access(channel: Channel, method: methods.AccessRequest) -> None:
    """Give a ticket that is never checked: every one is as good as another."""
    channel.say(methods.AccessRequestOk(TICKET))


def select_confirms(channel: Channel, method: methods.ConfirmSelect) -> None:
    """Confirm from now on; asking twice goes on counting."""
    if channel.transaction is not None:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    channel.confirming = True
    channel.answer(method.nowait, methods.ConfirmSelectOk())


def select_tx(channel: Channel, method: methods.TxSelect) -> None:
    """Collect from now on."""
    if channel.confirming:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel)
        channel.transacting = True
    channel.say(methods.TxSelectOk())


def commit(channel: Channel, method: methods.TxCommit) -> None:
    """Do what was collected; the answer says that it is durable."""
    _transaction(channel).commit()
    channel.answer(False, methods.TxCommitOk(), durable=True)


def rollback(channel: Channel, method: methods.TxRollback) -> None:
    """Forget what was collected; what was to be settled can be settled again."""
    _transaction(channel).roll_back()
    channel.say(methods.TxRollbackOk())


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction


HANDLERS: Handlers = {
    methods.ChannelFlow: flow,
    methods.ChannelClose: close,
    methods.ChannelCloseOk: close_ok,
    methods.AccessRequest: request_access,
    methods.ConfirmSelect: select_confirms,
    methods.TxSelect: select_tx,
    methods.TxCommit: commit,
    methods.TxRollback: rollback,
}
