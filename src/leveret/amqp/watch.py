"""What time asks of a connection: heartbeats, and the end of those who are too slow, silent or not wanted any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.amqp.replies import Reply
from leveret.amqp.state import HANDSHAKE, State
from leveret.telemetry.logs import Log

if TYPE_CHECKING:
    from leveret.amqp.connection import Connection, Refusal

CLOSING_MS = 30_000  # how long we wait for connection.close-ok
UNREADABLE_MS = 3_000  # how long a client has to read why, when we could not understand its answer anyway
HEARTBEATS_MISSED = 2

LOG = Log("amqp")


def check(connection: Connection, now_ms: int) -> None:
    """Look at a connection, about once a second."""
    if connection.finished:
        return
    check_home(connection)
    if connection.refusal is not None:
        _tell_refusal(connection, connection.refusal, now_ms)
    elif connection.state in HANDSHAKE:
        if now_ms - connection.since_ms > connection.hub.limits.handshake_ms:
            LOG.warning("handshake took too long", peer=connection.peer, state=connection.state.value)
            connection.finish()
    elif connection.state is State.CLOSING:
        if now_ms - connection.since_ms > (UNREADABLE_MS if connection.unreadable else CLOSING_MS):
            connection.finish()
    elif connection.heartbeat_ms:
        _check_heartbeat(connection, now_ms)


def check_home(connection: Connection) -> None:
    """Ask a client to go whose virtual host was deleted, or who is no user any more."""
    if connection.state is not State.RUNNING:
        return
    hub, vhost, user = connection.hub, connection.vhost, connection.user_name
    if hub.core.topology.vhosts.get(vhost) is not connection.home:
        connection.ask_close(Reply.CONNECTION_FORCED, f"CONNECTION_FORCED - vhost '{vhost}' is deleted")
    elif user not in hub.access.users:
        connection.ask_close(Reply.CONNECTION_FORCED, f"CONNECTION_FORCED - user '{user}' is deleted")


def _tell_refusal(connection: Connection, refused: Refusal, now_ms: int) -> None:
    """Tell of a refused login when it was held back for long enough."""
    if now_ms >= refused.due_ms:
        if refused.close is not None:
            connection.say(refused.close)
        connection.finish()


def _check_heartbeat(connection: Connection, now_ms: int) -> None:
    """Show that we are here; a peer that we do not listen to need not do the same."""
    if now_ms - connection.sent_ms >= connection.heartbeat_ms // 2:
        connection.outlet.heartbeat()
        connection.outlet.note()
    silent_ms = now_ms - connection.received_ms
    if not connection.wants_input:
        connection.received_ms = now_ms
    elif silent_ms > HEARTBEATS_MISSED * connection.heartbeat_ms:
        LOG.warning("heartbeats missed", peer=connection.peer, silent_ms=silent_ms)
        connection.finish()
