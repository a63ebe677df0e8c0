"""What is about a channel as a whole: channel.*, confirm.* and tx.*; channel.open is the connection's.

access.request is one that AMQP 0-9-1 has given up: old clients still ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.protocols.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leveret.protocols.amqp.replies import ProtocolError, Reply
from leveret.protocols.amqp.transaction import Transaction

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel, Handlers

TICKET = 1


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


def request_access(channel: Channel, method: AccessRequest) -> None:
    """Give a ticket that is never checked: every one is as good as another."""
    channel.say(AccessRequestOk(TICKET))


def select_confirms(channel: Channel, method: ConfirmSelect) -> None:
    """Confirm from now on; asking twice goes on counting."""
    if channel.transaction is not None:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    channel.confirming = True
    channel.answer(method.nowait, ConfirmSelectOk())


def select_tx(channel: Channel, method: TxSelect) -> None:
    """Collect from now on."""
    if channel.confirming:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel)
        channel.transacting = True
    channel.say(TxSelectOk())


def commit(channel: Channel, method: TxCommit) -> None:
    """Do what was collected; the answer says that it is durable."""
    _transaction(channel).commit()
    channel.answer(False, TxCommitOk(), durable=True)


def rollback(channel: Channel, method: TxRollback) -> None:
    """Forget what was collected; what was to be settled can be settled again."""
    _transaction(channel).roll_back()
    channel.say(TxRollbackOk())


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction


HANDLERS: Handlers = {
    ChannelFlow: flow,
    ChannelClose: close,
    ChannelCloseOk: close_ok,
    AccessRequest: request_access,
    ConfirmSelect: select_confirms,
    TxSelect: select_tx,
    TxCommit: commit,
    TxRollback: rollback,
}
