"""Leveret, a message broker: `leveret.open()` runs it in this process.

    broker = leveret.open("data")               # a directory; without a path in memory
    orders = broker.queue("orders", dead_letter="orders-dlq")
    orders.send({"order_id": 123})              # returns when it is on disk
    for message in orders.receive(10, wait=20):
        message.ack()
    broker.close()

Start with help(leveret.open), help(leveret.Broker) and help(leveret.Queue).
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING


class UncompiledModules:
    """Asked last for a module of this package: one that would be compiled, and is not (pure/)."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        ours = name.startswith("leveret.") and not name.startswith("leveret.pure")
        return import_module("leveret.pure").spec_of(name) if ours else None


sys.meta_path.append(UncompiledModules())

if TYPE_CHECKING:
    from leveret.client.broker import (
        AsyncRemoteBroker,
        AsyncRemoteExchange,
        RemoteBroker,
        RemoteExchange,
        aconnect,
        connect,
    )
    from leveret.client.encryption import Cipher
    from leveret.client.group import AsyncRemoteGroup, AsyncRemoteGroupConsumer, RemoteGroup, RemoteGroupConsumer
    from leveret.client.message import AsyncRemoteMessage, RemoteMessage, RemotePeeked, RemoteRecord
    from leveret.client.once import AsyncOnce, Once
    from leveret.client.queue import AsyncRemoteQueue, RemoteQueue
    from leveret.client.session import ClientOptions
    from leveret.client.stream import AsyncRemoteReader, AsyncRemoteStream, RemoteReader, RemoteStream
    from leveret.clock import ManualClock
    from leveret.config import Options
    from leveret.core.consumer_groups import Assignment
    from leveret.core.errors import (
        AccessRefused,
        BlobStoreFailed,
        BrokerClosed,
        DamagedJournal,
        DataLocked,
        DiskFull,
        ExchangeNotFound,
        Fenced,
        InvalidArgument,
        InvalidReceipt,
        JournalError,
        JournalFailed,
        KeyReused,
        LeveretError,
        MessageNotFound,
        MessageTooLarge,
        NotFound,
        NotSupported,
        PreconditionFailed,
        QueueFull,
        QueueNotFound,
        ResourceLocked,
        StaleGeneration,
        StoreUnreachable,
        TooMany,
        UnknownFormat,
        Unreachable,
        VhostNotFound,
        WrongKey,
    )
    from leveret.core.properties import Properties
    from leveret.embedded.asynchronous import (
        AsyncEmbeddedBroker,
        AsyncExchange,
        AsyncGroup,
        AsyncQueue,
        AsyncReader,
        AsyncStream,
        aopen,
    )
    from leveret.embedded.broker import Broker, open
    from leveret.embedded.exchange import Exchange
    from leveret.embedded.group import AsyncGroupConsumer, Group, GroupConsumer
    from leveret.embedded.queue import Queue, Subscription
    from leveret.embedded.stream import Stream
    from leveret.embedded.worker import Reject, Worker
    from leveret.runtime.bodies import Serializer, use_serializer
    from leveret.runtime.keywords import (
        Conditions,
        ConsumerOptions,
        ExchangeOptions,
        OpenOptions,
        QueueOptions,
        ReaderOptions,
        RecordOptions,
        SendOptions,
        StreamSettings,
        WorkerOptions,
    )
    from leveret.runtime.message import AsyncMessage, Message, Peeked
    from leveret.runtime.outgoing import Outgoing
    from leveret.runtime.reading import StreamReader, StreamRecord
    from leveret.runtime.redrive import RedriveResult
    from leveret.runtime.stats import BrokerStats, QueueStats, RecoveryReport
    from leveret.runtime.storage import verify
    from leveret.runtime.stream import Appended, PartitionStats, StreamStats
    from leveret.storage.segments import Damage
else:
    # A name is imported when it is asked for: a command line that only sends a request needs no journal.
    ERRORS = "leveret.core.errors"
    MODULES = {
        "AsyncRemoteExchange": "leveret.client.broker",
        "RemoteExchange": "leveret.client.broker",
        "AsyncRemoteGroup": "leveret.client.group",
        "AsyncRemoteGroupConsumer": "leveret.client.group",
        "RemoteGroup": "leveret.client.group",
        "RemoteGroupConsumer": "leveret.client.group",
        "AsyncRemoteMessage": "leveret.client.message",
        "RemoteMessage": "leveret.client.message",
        "RemotePeeked": "leveret.client.message",
        "RemoteRecord": "leveret.client.message",
        "AsyncRemoteQueue": "leveret.client.queue",
        "RemoteQueue": "leveret.client.queue",
        "ClientOptions": "leveret.client.session",
        "AsyncRemoteReader": "leveret.client.stream",
        "AsyncRemoteStream": "leveret.client.stream",
        "RemoteReader": "leveret.client.stream",
        "RemoteStream": "leveret.client.stream",
        "Assignment": "leveret.core.consumer_groups",
        "Properties": "leveret.core.properties",
        "Subscription": "leveret.embedded.queue",
        "Conditions": "leveret.runtime.keywords",
        "ConsumerOptions": "leveret.runtime.keywords",
        "ExchangeOptions": "leveret.runtime.keywords",
        "OpenOptions": "leveret.runtime.keywords",
        "QueueOptions": "leveret.runtime.keywords",
        "ReaderOptions": "leveret.runtime.keywords",
        "RecordOptions": "leveret.runtime.keywords",
        "SendOptions": "leveret.runtime.keywords",
        "WorkerOptions": "leveret.runtime.keywords",
        "BrokerStats": "leveret.runtime.stats",
        "QueueStats": "leveret.runtime.stats",
        "RecoveryReport": "leveret.runtime.stats",
        "PartitionStats": "leveret.runtime.stream",
        "StreamStats": "leveret.runtime.stream",
        "AsyncRemoteBroker": "leveret.client.broker",
        "aconnect": "leveret.client.broker",
        "RemoteBroker": "leveret.client.broker",
        "connect": "leveret.client.broker",
        "Cipher": "leveret.client.encryption",
        "AsyncOnce": "leveret.client.once",
        "Once": "leveret.client.once",
        "ManualClock": "leveret.clock",
        "Options": "leveret.config",
        "AsyncEmbeddedBroker": "leveret.embedded.asynchronous",
        "AsyncExchange": "leveret.embedded.asynchronous",
        "AsyncGroup": "leveret.embedded.asynchronous",
        "AsyncQueue": "leveret.embedded.asynchronous",
        "AsyncReader": "leveret.embedded.asynchronous",
        "AsyncStream": "leveret.embedded.asynchronous",
        "aopen": "leveret.embedded.asynchronous",
        "AsyncMessage": "leveret.runtime.message",
        "Serializer": "leveret.runtime.bodies",
        "use_serializer": "leveret.runtime.bodies",
        "StreamSettings": "leveret.runtime.keywords",
        "Broker": "leveret.embedded.broker",
        "open": "leveret.embedded.broker",
        "Exchange": "leveret.embedded.exchange",
        "Group": "leveret.embedded.group",
        "AsyncGroupConsumer": "leveret.embedded.group",
        "GroupConsumer": "leveret.embedded.group",
        "Message": "leveret.runtime.message",
        "Peeked": "leveret.runtime.message",
        "Outgoing": "leveret.runtime.outgoing",
        "Queue": "leveret.embedded.queue",
        "StreamReader": "leveret.runtime.reading",
        "StreamRecord": "leveret.runtime.reading",
        "RedriveResult": "leveret.runtime.redrive",
        "verify": "leveret.runtime.storage",
        "Appended": "leveret.runtime.stream",
        "Stream": "leveret.embedded.stream",
        "Reject": "leveret.embedded.worker",
        "Worker": "leveret.embedded.worker",
        "Damage": "leveret.storage.segments",
    }

    def __getattr__(name: str) -> object:
        """A name of this package, from the module that has it; errors have one of their own."""
        if name not in __all__:
            raise AttributeError(f"module 'leveret' has no attribute '{name}'")
        found = globals()[name] = getattr(import_module(MODULES.get(name, ERRORS)), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "AccessRefused",
    "Appended",
    "Assignment",
    "AsyncEmbeddedBroker",
    "AsyncExchange",
    "AsyncGroup",
    "AsyncGroupConsumer",
    "AsyncMessage",
    "AsyncOnce",
    "AsyncQueue",
    "AsyncReader",
    "AsyncRemoteBroker",
    "AsyncRemoteExchange",
    "AsyncRemoteGroup",
    "AsyncRemoteGroupConsumer",
    "AsyncRemoteMessage",
    "AsyncRemoteQueue",
    "AsyncRemoteReader",
    "AsyncRemoteStream",
    "AsyncStream",
    "BlobStoreFailed",
    "Broker",
    "BrokerClosed",
    "BrokerStats",
    "Cipher",
    "ClientOptions",
    "Conditions",
    "ConsumerOptions",
    "Damage",
    "DamagedJournal",
    "DataLocked",
    "DiskFull",
    "Exchange",
    "ExchangeNotFound",
    "ExchangeOptions",
    "Fenced",
    "Group",
    "GroupConsumer",
    "InvalidArgument",
    "InvalidReceipt",
    "JournalError",
    "JournalFailed",
    "KeyReused",
    "LeveretError",
    "ManualClock",
    "Message",
    "MessageNotFound",
    "MessageTooLarge",
    "NotFound",
    "NotSupported",
    "Once",
    "OpenOptions",
    "Options",
    "Outgoing",
    "PartitionStats",
    "Peeked",
    "PreconditionFailed",
    "Properties",
    "Queue",
    "QueueFull",
    "QueueNotFound",
    "QueueOptions",
    "QueueStats",
    "ReaderOptions",
    "RecordOptions",
    "RecoveryReport",
    "RedriveResult",
    "Reject",
    "RemoteBroker",
    "RemoteExchange",
    "RemoteGroup",
    "RemoteGroupConsumer",
    "RemoteMessage",
    "RemotePeeked",
    "RemoteQueue",
    "RemoteReader",
    "RemoteRecord",
    "RemoteStream",
    "ResourceLocked",
    "SendOptions",
    "Serializer",
    "StaleGeneration",
    "StoreUnreachable",
    "Stream",
    "StreamReader",
    "StreamRecord",
    "StreamSettings",
    "StreamStats",
    "Subscription",
    "TooMany",
    "UnknownFormat",
    "Unreachable",
    "VhostNotFound",
    "Worker",
    "WorkerOptions",
    "WrongKey",
    "aconnect",
    "aopen",
    "connect",
    "open",
    "use_serializer",
    "verify",
]
