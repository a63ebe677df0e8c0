"""confirm.select: publishes are numbered from now on, and each number is confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.protocols.amqp.methods import ConfirmSelect, ConfirmSelectOk
from leveret.protocols.amqp.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel, Handlers


def select(channel: Channel, method: ConfirmSelect) -> None:
    """Confirm from now on; asking twice goes on counting."""
    if channel.transaction is not None:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    channel.confirming = True
    channel.answer(method.nowait, ConfirmSelectOk())


HANDLERS: Handlers = {ConfirmSelect: select}
