"""access.request, which AMQP 0-9-1 has given up: old clients still ask, and every ticket is as good as another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.protocols.amqp.methods import AccessRequest, AccessRequestOk

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel, Handlers

TICKET = 1


def request(channel: Channel, method: AccessRequest) -> None:
    """Give a ticket that is never checked."""
    channel.say(AccessRequestOk(TICKET))


HANDLERS: Handlers = {AccessRequest: request}
