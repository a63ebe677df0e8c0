"""The methods of AMQP 0-9-1 with RabbitMQ's extensions, as objects: ids, and arguments with their types in their order.

This table is the only place that knows them. A name that begins with an underscore is reserved: zeros when written,
skipped when read. What answers a method has its name and -ok; basic.get may also be answered by basic.get-empty.
"""

import re
from dataclasses import dataclass, field
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, NamedTuple, dataclass_transform, get_args, get_origin

Octet = Annotated[int, "octet"]
Short = Annotated[int, "short"]
Long = Annotated[int, "long"]
LongLong = Annotated[int, "longlong"]
ShortString = Annotated[str, "shortstr"]
LongString = Annotated[bytes, "longstr"]
Table = Annotated[dict[str, Any], "table"]

_WORD = re.compile("(?<=[a-z])(?=[A-Z])")


class MethodArgument(NamedTuple):
    """One argument of a method; kind is octet, short, long, longlong, bit, shortstr, longstr or table."""

    name: str
    kind: str


class MethodSpec(NamedTuple):
    """What the table says about one method."""

    class_id: int
    method_id: int
    name: str
    arguments: tuple[MethodArgument, ...]
    has_content: bool
    kind: type["Method"]

    @property
    def replies(self) -> tuple[str, ...]:
        """What may answer it; nothing if it is asynchronous."""
        names = {spec.name for spec in METHODS}
        return tuple(name for name in (f"{self.name}-ok", f"{self.name}-empty") if name in names)


METHODS: list[MethodSpec] = []


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Method:
    """What every method is; its subclasses are frozen dataclasses."""

    spec: ClassVar[MethodSpec]

    def __init_subclass__(cls, number: tuple[int, int], has_content: bool = False) -> None:
        dataclass(frozen=True)(cls)
        group, *words = _WORD.split(cls.__name__)
        name = f"{group}.{'-'.join(words)}".lower()
        arguments = tuple(MethodArgument(*each) for each in map(_argument, get_annotations(cls).items()))
        cls.spec = MethodSpec(*number, name, arguments, has_content, cls)
        METHODS.append(cls.spec)


def _argument(item: tuple[str, Any]) -> tuple[str, str]:
    name, hint = item
    hint = get_args(hint)[0] if get_origin(hint) is ClassVar else hint
    return name, "bit" if hint is bool else get_args(hint)[1]


class ConnectionStart(Method, number=(10, 10)):
    version_major: Octet = 0
    version_minor: Octet = 0
    server_properties: Table = field(default_factory=dict)
    mechanisms: LongString = b""
    locales: LongString = b""


class ConnectionStartOk(Method, number=(10, 11)):
    client_properties: Table = field(default_factory=dict)
    mechanism: ShortString = ""
    response: LongString = b""
    locale: ShortString = ""


class ConnectionSecure(Method, number=(10, 20)):
    challenge: LongString = b""


class ConnectionSecureOk(Method, number=(10, 21)):
    response: LongString = b""


class ConnectionTune(Method, number=(10, 30)):
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionTuneOk(Method, number=(10, 31)):
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionOpen(Method, number=(10, 40)):
    virtual_host: ShortString = ""
    _capabilities: ClassVar[ShortString]
    _insist: ClassVar[bool]


class ConnectionOpenOk(Method, number=(10, 41)):
    _known_hosts: ClassVar[ShortString]


class ConnectionClose(Method, number=(10, 50)):
    reply_code: Short = 0
    reply_text: ShortString = ""
    class_id: Short = 0
    method_id: Short = 0


class ConnectionCloseOk(Method, number=(10, 51)): ...


class ConnectionBlocked(Method, number=(10, 60)):
    reason: ShortString = ""


class ConnectionUnblocked(Method, number=(10, 61)): ...


class ConnectionUpdateSecret(Method, number=(10, 70)):
    new_secret: LongString = b""
    reason: ShortString = ""


class ConnectionUpdateSecretOk(Method, number=(10, 71)): ...


class ChannelOpen(Method, number=(20, 10)):
    _out_of_band: ClassVar[ShortString]


class ChannelOpenOk(Method, number=(20, 11)):
    _channel_id: ClassVar[LongString]


class ChannelFlow(Method, number=(20, 20)):
    active: bool = False


class ChannelFlowOk(Method, number=(20, 21)):
    active: bool = False


class ChannelClose(Method, number=(20, 40)):
    reply_code: Short = 0
    reply_text: ShortString = ""
    class_id: Short = 0
    method_id: Short = 0


class ChannelCloseOk(Method, number=(20, 41)): ...


class AccessRequest(Method, number=(30, 10)):
    realm: ShortString = ""
    exclusive: bool = False
    passive: bool = False
    active: bool = False
    write: bool = False
    read: bool = False


class AccessRequestOk(Method, number=(30, 11)):
    ticket: Short = 0


class ExchangeDeclare(Method, number=(40, 10)):
    _ticket: ClassVar[Short]
    exchange: ShortString = ""
    type: ShortString = ""
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    nowait: bool = False
    arguments: Table = field(default_factory=dict)


class ExchangeDeclareOk(Method, number=(40, 11)): ...


class ExchangeDelete(Method, number=(40, 20)):
    _ticket: ClassVar[Short]
    exchange: ShortString = ""
    if_unused: bool = False
    nowait: bool = False


class ExchangeDeleteOk(Method, number=(40, 21)): ...


class ExchangeBind(Method, number=(40, 30)):
    _ticket: ClassVar[Short]
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: bool = False
    arguments: Table = field(default_factory=dict)


class ExchangeBindOk(Method, number=(40, 31)): ...


class ExchangeUnbind(Method, number=(40, 40)):
    _ticket: ClassVar[Short]
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: bool = False
    arguments: Table = field(default_factory=dict)


class ExchangeUnbindOk(Method, number=(40, 51)): ...


class QueueDeclare(Method, number=(50, 10)):
    _ticket: ClassVar[Short]
    queue: ShortString = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    nowait: bool = False
    arguments: Table = field(default_factory=dict)


class QueueDeclareOk(Method, number=(50, 11)):
    queue: ShortString = ""
    message_count: Long = 0
    consumer_count: Long = 0


class QueueBind(Method, number=(50, 20)):
    _ticket: ClassVar[Short]
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    nowait: bool = False
    arguments: Table = field(default_factory=dict)


class QueueBindOk(Method, number=(50, 21)): ...


class QueuePurge(Method, number=(50, 30)):
    _ticket: ClassVar[Short]
    queue: ShortString = ""
    nowait: bool = False


class QueuePurgeOk(Method, number=(50, 31)):
    message_count: Long = 0


class QueueDelete(Method, number=(50, 40)):
    _ticket: ClassVar[Short]
    queue: ShortString = ""
    if_unused: bool = False
    if_empty: bool = False
    nowait: bool = False


class QueueDeleteOk(Method, number=(50, 41)):
    message_count: Long = 0


class QueueUnbind(Method, number=(50, 50)):
    _ticket: ClassVar[Short]
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    arguments: Table = field(default_factory=dict)


class QueueUnbindOk(Method, number=(50, 51)): ...


class BasicQos(Method, number=(60, 10)):
    prefetch_size: Long = 0
    prefetch_count: Short = 0
    global_qos: bool = False


class BasicQosOk(Method, number=(60, 11)): ...


class BasicConsume(Method, number=(60, 20)):
    _ticket: ClassVar[Short]
    queue: ShortString = ""
    consumer_tag: ShortString = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    nowait: bool = False
    arguments: Table = field(default_factory=dict)


class BasicConsumeOk(Method, number=(60, 21)):
    consumer_tag: ShortString = ""


class BasicCancel(Method, number=(60, 30)):
    consumer_tag: ShortString = ""
    nowait: bool = False


class BasicCancelOk(Method, number=(60, 31)):
    consumer_tag: ShortString = ""


class BasicPublish(Method, number=(60, 40), has_content=True):
    _ticket: ClassVar[Short]
    exchange: ShortString = ""
    routing_key: ShortString = ""
    mandatory: bool = False
    immediate: bool = False


class BasicReturn(Method, number=(60, 50), has_content=True):
    reply_code: Short = 0
    reply_text: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""


class BasicDeliver(Method, number=(60, 60), has_content=True):
    consumer_tag: ShortString = ""
    delivery_tag: LongLong = 0
    redelivered: bool = False
    exchange: ShortString = ""
    routing_key: ShortString = ""


class BasicGet(Method, number=(60, 70)):
    _ticket: ClassVar[Short]
    queue: ShortString = ""
    no_ack: bool = False


class BasicGetOk(Method, number=(60, 71), has_content=True):
    delivery_tag: LongLong = 0
    redelivered: bool = False
    exchange: ShortString = ""
    routing_key: ShortString = ""
    message_count: Long = 0


class BasicGetEmpty(Method, number=(60, 72)):
    _cluster_id: ClassVar[ShortString]


class BasicAck(Method, number=(60, 80)):
    delivery_tag: LongLong = 0
    multiple: bool = False


class BasicReject(Method, number=(60, 90)):
    delivery_tag: LongLong = 0
    requeue: bool = False


class BasicRecoverAsync(Method, number=(60, 100)):
    requeue: bool = False


class BasicRecover(Method, number=(60, 110)):
    requeue: bool = False


class BasicRecoverOk(Method, number=(60, 111)): ...


class BasicNack(Method, number=(60, 120)):
    delivery_tag: LongLong = 0
    multiple: bool = False
    requeue: bool = False


class ConfirmSelect(Method, number=(85, 10)):
    nowait: bool = False


class ConfirmSelectOk(Method, number=(85, 11)): ...


class TxSelect(Method, number=(90, 10)): ...


class TxSelectOk(Method, number=(90, 11)): ...


class TxCommit(Method, number=(90, 20)): ...


class TxCommitOk(Method, number=(90, 21)): ...


class TxRollback(Method, number=(90, 30)): ...


class TxRollbackOk(Method, number=(90, 31)): ...
