"""What one connection may ask for: each row keeps a client from taking memory, time or slots from the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leveret.core.errors import PreconditionFailed
from leveret.wire.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.protocols.amqp.connection import AmqpConnection
    from leveret.protocols.amqp.hub import Hub

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpLimits:
    """The limits that connections are tuned and watched by."""

    frame_max: int = 131_072  # offered; the client may lower it
    channel_max: int = 2_047
    heartbeat_s: int = 60  # offered; 0: none
    handshake_ms: int = 10_000  # until connection.open is answered
    consumer_timeout_ms: int = 1_800_000  # for settling a delivery, where its queue has no other; 0: any time
    message_bytes_max: int = 16 * MIB
    blob_bytes: int = 256 * 1024  # larger bodies are kept outside of the log
    consumers_per_channel_max: int = 1_000
    passwords_in_clear: bool = False  # PLAIN and AMQPLAIN from other machines without TLS


class Quotas:
    """The checks before something is opened or declared."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def check_connection(self, user: str, vhost: str) -> None:
        """Refuse one more connection of a user, or in a virtual host, than may be."""
        most = self._hub.access.vhost_limits(vhost).connections_max
        if most is not None and sum(each.vhost == vhost for each in self._running()) >= most:
            reason = f"access to vhost '{vhost}' refused for user '{user}': connection limit ({most}) is reached"
            raise ProtocolError(Reply.NOT_ALLOWED, reason)
        most = self._hub.access.users.limits_of(user).connections_max
        if most is not None and sum(each.user_name == user for each in self._running()) >= most:
            reason = f"connection refused for user '{user}': user connection limit ({most}) is reached"
            raise ProtocolError(Reply.NOT_ALLOWED, reason)

    def check_channel(self, user: str) -> None:
        most = self._hub.access.users.limits_of(user).channels_max
        if most is not None and sum(len(each.channels) for each in self._running() if each.user_name == user) >= most:
            raise ProtocolError(
                Reply.NOT_ALLOWED,
                f"number of channels opened for user '{user}' has reached the maximum allowed user limit of ({most})",
            )

    def check_queue(self, vhost: str, name: str) -> None:
        most = self._hub.access.vhost_limits(vhost).queues_max
        if most is not None and len(self._hub.core.topology.vhost(vhost).queues) >= most:
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in vhost '{vhost}' ({most}) is reached"
            )

    def _running(self) -> list[AmqpConnection]:
        return [each for each in self._hub.connections if each.started and not each.finished]
