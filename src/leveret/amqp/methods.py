"""The methods of AMQP 0-9-1 as objects. Generated from spec.py by leveret.amqp.generate: do not edit."""

from dataclasses import dataclass, field
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Method:
    """What every method is; its subclasses are frozen dataclasses."""

    def __init_subclass__(cls) -> None:
        """Make a dataclass of it."""
        dataclass(frozen=True)(cls)


class ConnectionStart(Method):
    """connection.start; answered by connection.start-ok."""

    version_major: int = 0
    version_minor: int = 0
    server_properties: dict[str, Any] = field(default_factory=dict)
    mechanisms: bytes = b""
    locales: bytes = b""


class ConnectionStartOk(Method):
    """connection.start-ok."""

    client_properties: dict[str, Any] = field(default_factory=dict)
    mechanism: str = ""
    response: bytes = b""
    locale: str = ""


class ConnectionSecure(Method):
    """connection.secure; answered by connection.secure-ok."""

    challenge: bytes = b""


class ConnectionSecureOk(Method):
    """connection.secure-ok."""

    response: bytes = b""


class ConnectionTune(Method):
    """connection.tune; answered by connection.tune-ok."""

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


class ConnectionTuneOk(Method):
    """connection.tune-ok."""

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


class ConnectionOpen(Method):
    """connection.open; answered by connection.open-ok."""

    virtual_host: str = ""


class ConnectionOpenOk(Method):
    """connection.open-ok."""


class ConnectionClose(Method):
    """connection.close; answered by connection.close-ok."""

    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


class ConnectionCloseOk(Method):
    """connection.close-ok."""


class ConnectionBlocked(Method):
    """connection.blocked."""

    reason: str = ""


class ConnectionUnblocked(Method):
    """connection.unblocked."""


class ConnectionUpdateSecret(Method):
    """connection.update-secret; answered by connection.update-secret-ok."""

    new_secret: bytes = b""
    reason: str = ""


class ConnectionUpdateSecretOk(Method):
    """connection.update-secret-ok."""


class ChannelOpen(Method):
    """channel.open; answered by channel.open-ok."""


class ChannelOpenOk(Method):
    """channel.open-ok."""


class ChannelFlow(Method):
    """channel.flow; answered by channel.flow-ok."""

    active: bool = False


class ChannelFlowOk(Method):
    """channel.flow-ok."""

    active: bool = False


class ChannelClose(Method):
    """channel.close; answered by channel.close-ok."""

    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


class ChannelCloseOk(Method):
    """channel.close-ok."""


class AccessRequest(Method):
    """access.request; answered by access.request-ok."""

    realm: str = ""
    exclusive: bool = False
    passive: bool = False
    active: bool = False
    write: bool = False
    read: bool = False


class AccessRequestOk(Method):
    """access.request-ok."""

    ticket: int = 0


class ExchangeDeclare(Method):
    """exchange.declare; answered by exchange.declare-ok."""

    exchange: str = ""
    type: str = ""
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    nowait: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


class ExchangeDeclareOk(Method):
    """exchange.declare-ok."""


class ExchangeDelete(Method):
    """exchange.delete; answered by exchange.delete-ok."""

    exchange: str = ""
    if_unused: bool = False
    nowait: bool = False


class ExchangeDeleteOk(Method):
    """exchange.delete-ok."""


class ExchangeBind(Method):
    """exchange.bind; answered by exchange.bind-ok."""

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


class ExchangeBindOk(Method):
    """exchange.bind-ok."""


class ExchangeUnbind(Method):
    """exchange.unbind; answered by exchange.unbind-ok."""

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


class ExchangeUnbindOk(Method):
    """exchange.unbind-ok."""


class QueueDeclare(Method):
    """queue.declare; answered by queue.declare-ok."""

    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    nowait: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


class QueueDeclareOk(Method):
    """queue.declare-ok."""

    queue: str = ""
    message_count: int = 0
    consumer_count: int = 0


class QueueBind(Method):
    """queue.bind; answered by queue.bind-ok."""

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


class QueueBindOk(Method):
    """queue.bind-ok."""


class QueuePurge(Method):
    """queue.purge; answered by queue.purge-ok."""

    queue: str = ""
    nowait: bool = False


class QueuePurgeOk(Method):
    """queue.purge-ok."""

    message_count: int = 0


class QueueDelete(Method):
    """queue.delete; answered by queue.delete-ok."""

    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    nowait: bool = False


class QueueDeleteOk(Method):
    """queue.delete-ok."""

    message_count: int = 0


class QueueUnbind(Method):
    """queue.unbind; answered by queue.unbind-ok."""

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


class QueueUnbindOk(Method):
    """queue.unbind-ok."""


class BasicQos(Method):
    """basic.qos; answered by basic.qos-ok."""

    prefetch_size: int = 0
    prefetch_count: int = 0
    global_qos: bool = False


class BasicQosOk(Method):
    """basic.qos-ok."""


class BasicConsume(Method):
    """basic.consume; answered by basic.consume-ok."""

    queue: str = ""
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    nowait: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


class BasicConsumeOk(Method):
    """basic.consume-ok."""

    consumer_tag: str = ""


class BasicCancel(Method):
    """basic.cancel; answered by basic.cancel-ok."""

    consumer_tag: str = ""
    nowait: bool = False


class BasicCancelOk(Method):
    """basic.cancel-ok."""

    consumer_tag: str = ""


class BasicPublish(Method):
    """basic.publish."""

    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False


class BasicReturn(Method):
    """basic.return."""

    reply_code: int = 0
    reply_text: str = ""
    exchange: str = ""
    routing_key: str = ""


class BasicDeliver(Method):
    """basic.deliver."""

    consumer_tag: str = ""
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""


class BasicGet(Method):
    """basic.get; answered by basic.get-ok or basic.get-empty."""

    queue: str = ""
    no_ack: bool = False


class BasicGetOk(Method):
    """basic.get-ok."""

    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    message_count: int = 0


class BasicGetEmpty(Method):
    """basic.get-empty."""


class BasicAck(Method):
    """basic.ack."""

    delivery_tag: int = 0
    multiple: bool = False


class BasicReject(Method):
    """basic.reject."""

    delivery_tag: int = 0
    requeue: bool = False


class BasicRecoverAsync(Method):
    """basic.recover-async."""

    requeue: bool = False


class BasicRecover(Method):
    """basic.recover; answered by basic.recover-ok."""

    requeue: bool = False


class BasicRecoverOk(Method):
    """basic.recover-ok."""


class BasicNack(Method):
    """basic.nack."""

    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = False


class ConfirmSelect(Method):
    """confirm.select; answered by confirm.select-ok."""

    nowait: bool = False


class ConfirmSelectOk(Method):
    """confirm.select-ok."""


class TxSelect(Method):
    """tx.select; answered by tx.select-ok."""


class TxSelectOk(Method):
    """tx.select-ok."""


class TxCommit(Method):
    """tx.commit; answered by tx.commit-ok."""


class TxCommitOk(Method):
    """tx.commit-ok."""


class TxRollback(Method):
    """tx.rollback; answered by tx.rollback-ok."""


class TxRollbackOk(Method):
    """tx.rollback-ok."""
