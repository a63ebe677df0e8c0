"""What time asks of a connection: heartbeats, and the end of those who are too slow, silent or not wanted any more.

A channel ends whose client keeps a delivery for too long, in the words of RabbitMQ until 4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core.held import Held
from leveret.observability.logs import Log
from leveret.protocols.amqp.state import HANDSHAKE, ConnectionState
from leveret.protocols.amqp.subscriber import Subscriber
from leveret.wire.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel
    from leveret.protocols.amqp.connection import AmqpConnection, RefusedLogin

CLOSING_MS = 30_000  # how long we wait for connection.close-ok
UNREADABLE_MS = 3_000  # how long a client has to read why, when we could not understand its answer anyway
HEARTBEATS_MISSED = 2
SWEEP_MS = 1_000  # between two calls of `check`
SHORT_HEARTBEAT_MS = 2 * SWEEP_MS  # half of less than that is over before the next one
IDLE_MS = 1_000  # without a byte in this direction: its buffers, which may have 512 KiB each, are freed

LOG = Log("amqp")
TOO_SLOW = LOG.limited("handshake took too long")


def check(connection: AmqpConnection, now_ms: int) -> None:
    """Look at a connection, about once a second."""
    if connection.finished:
        return
    if now_ms - connection.received_ms >= IDLE_MS:
        connection.free_input()
    if now_ms - connection.sent_ms >= IDLE_MS:
        connection.outlet.release()
    connection.check_virtual_host()
    if connection.blocked and not connection.alarmed and not connection.hub.core.journal.full:
        connection.set_alarm(None)
    if connection.refusal is not None:
        tell_refusal(connection, connection.refusal, now_ms)
    elif connection.state in HANDSHAKE:
        if now_ms - connection.since_ms > connection.hub.limits.handshake_ms:
            TOO_SLOW.note(**connection.who, state=connection.state.value)
            connection.finish()
    elif connection.state is ConnectionState.CLOSING:
        if now_ms - connection.since_ms > (UNREADABLE_MS if connection.unreadable else CLOSING_MS):
            connection.finish()
    else:
        if connection.heartbeat_ms:
            _check_heartbeat(connection, now_ms)
        if connection.wants_input:  # else what it has settled may wait in its socket
            for channel in tuple(connection.channels.values()):
                _check_deliveries(channel, now_ms)


def tell_refusal(connection: AmqpConnection, refused: RefusedLogin, now_ms: int) -> None:
    """Tell of a refused login when it was held back for long enough."""
    if now_ms >= refused.due_ms:
        if refused.close is not None:
            connection.say(refused.close)
            connection.client_closes = True
        connection.finish()


def beat(connection: AmqpConnection, now_ms: int) -> None:
    """Send a heartbeat in each half of the interval in which nothing else is sent, as RabbitMQ does."""
    half_ms = connection.heartbeat_ms // 2
    idle_ms = now_ms - connection.sent_ms
    if (
        connection.state is ConnectionState.RUNNING
        and idle_ms >= max(half_ms - SWEEP_MS, half_ms // 2)
        and not connection.outlet.pending_bytes
    ):
        connection.outlet.heartbeat()
        connection.outlet.note()


def _check_heartbeat(connection: AmqpConnection, now_ms: int) -> None:
    """Show that we are here; a peer that we do not listen to need not do the same."""
    beat(connection, now_ms)
    silent_ms = now_ms - connection.received_ms
    if not connection.wants_input:
        connection.received_ms = now_ms
    elif silent_ms > HEARTBEATS_MISSED * connection.heartbeat_ms and _is_still_silent(connection):
        LOG.warning("heartbeats missed", **connection.who, silent_ms=silent_ms)
        connection.finish()


def _is_still_silent(connection: AmqpConnection) -> bool:
    """Whether it was silent at the last look, too: if it was we who stood still, what it has said is yet to be read."""
    last_ms, connection.silent_since_ms = connection.silent_since_ms, connection.received_ms
    return last_ms == connection.received_ms


def _check_deliveries(channel: Channel, now_ms: int) -> None:
    """Close a channel whose oldest delivery was not settled in time."""
    oldest = channel.unacked.oldest()
    if oldest is None:
        return
    timeout_ms = _timeout_ms(oldest, channel.hub.limits.consumer_timeout_ms)
    if timeout_ms and now_ms - oldest.delivered_ms > timeout_ms:
        LOG.warning("delivery not settled in time", **channel.connection.who, channel=channel.number)
        text = (
            f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {timeout_ms} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        )
        channel.fail(ProtocolError(Reply.PRECONDITION_FAILED, text), 0, 0)


def _timeout_ms(held: Held, default_ms: int) -> int:
    """How long a delivery may stay unsettled: what its consumer asked for, or its queue, or the server's default;
    0: for ever.
    """
    asked_ms = held.consumer.timeout_ms if isinstance(held.consumer, Subscriber) else 0
    queue_ms: int | None = held.queue.policy.consumer_timeout_ms
    return asked_ms or queue_ms or default_ms
