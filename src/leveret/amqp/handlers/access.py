"""access.request: what clients of AMQP 0-9 asked for before they used anything. Permissions do not need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.amqp.methods import AccessRequest, AccessRequestOk

if TYPE_CHECKING:
    from leveret.amqp.channel import Channel, Handlers

TICKET = 1  # as RabbitMQ answers; nobody looks at it


def request(channel: Channel, method: AccessRequest) -> None:
    """Give a ticket that means nothing."""
    channel.say(AccessRequestOk(TICKET))


HANDLERS: Handlers = {AccessRequest: request}
