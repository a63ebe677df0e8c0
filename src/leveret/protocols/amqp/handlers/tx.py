"""tx.*: publishes and settlements that happen together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.protocols.amqp.methods import TxCommit, TxCommitOk, TxRollback, TxRollbackOk, TxSelect, TxSelectOk
from leveret.protocols.amqp.replies import ProtocolError, Reply
from leveret.protocols.amqp.transaction import Transaction

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel, Handlers


def select(channel: Channel, method: TxSelect) -> None:
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
    """The transaction of a channel that has one."""
    if channel.transaction is None:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction


HANDLERS: Handlers = {TxSelect: select, TxCommit: commit, TxRollback: rollback}
