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
    from leveret.client.broker import AsyncRemoteBroker, RemoteBroker, aconnect, connect
    from leveret.client.encryption import Cipher
    from leveret.client.once import AsyncOnce, Once
    from leveret.clock import ManualClock
    from leveret.config import Options
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
    from leveret.embedded.broker import Broker, open
    from leveret.embedded.exchange import Exchange
    from leveret.embedded.group import AsyncGroupConsumer, Group, GroupConsumer
    from leveret.embedded.queue import Queue
    from leveret.embedded.stream import Stream
    from leveret.embedded.worker import Reject, Worker
    from leveret.runtime.message import Message, Peeked
    from leveret.runtime.outgoing import Outgoing
    from leveret.runtime.reading import StreamReader, StreamRecord
    from leveret.runtime.redrive import RedriveResult
    from leveret.runtime.storage import verify
    from leveret.runtime.stream import Appended
    from leveret.storage.segments import Damage
else:
    # A name is imported when it is asked for: a command line that only sends a request needs no journal.
    ERRORS = "leveret.core.errors"
    MODULES = {
        "AsyncRemoteBroker": "leveret.client.broker",
        "aconnect": "leveret.client.broker",
        "RemoteBroker": "leveret.client.broker",
        "connect": "leveret.client.broker",
        "Cipher": "leveret.client.encryption",
        "AsyncOnce": "leveret.client.once",
        "Once": "leveret.client.once",
        "ManualClock": "leveret.clock",
        "Options": "leveret.config",
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
    "AsyncGroupConsumer",
    "AsyncOnce",
    "AsyncRemoteBroker",
    "BlobStoreFailed",
    "Broker",
    "BrokerClosed",
    "Cipher",
    "Damage",
    "DamagedJournal",
    "DataLocked",
    "DiskFull",
    "Exchange",
    "ExchangeNotFound",
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
    "Options",
    "Outgoing",
    "Peeked",
    "PreconditionFailed",
    "Queue",
    "QueueFull",
    "QueueNotFound",
    "RedriveResult",
    "Reject",
    "RemoteBroker",
    "ResourceLocked",
    "StaleGeneration",
    "StoreUnreachable",
    "Stream",
    "StreamReader",
    "StreamRecord",
    "TooMany",
    "UnknownFormat",
    "Unreachable",
    "VhostNotFound",
    "Worker",
    "WrongKey",
    "aconnect",
    "connect",
    "open",
    "verify",
]
