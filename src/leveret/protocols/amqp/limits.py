"""What one connection may ask for: each row keeps a client from taking memory, time or slots from the others."""

from dataclasses import dataclass

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
