"""Leveret, a message broker: `leveret.open()` runs it in this process.

    broker = leveret.open("data")               # a directory; without a path in memory
    orders = broker.queue("orders", dead_letter="orders-dlq")
    orders.send({"order_id": 123})              # returns when it is on disk
    for message in orders.receive(10, wait=20):
        message.ack()
    broker.close()

Start with help(leveret.open), help(leveret.Broker) and help(leveret.Queue).
"""

from leveret.client.abroker import AsyncRemoteBroker, aconnect
from leveret.client.broker import RemoteBroker, connect
from leveret.client.encryption import Cipher
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
from leveret.embedded.group import Group
from leveret.embedded.group_consumer import GroupConsumer
from leveret.embedded.message import Message, Peeked
from leveret.embedded.outgoing import Outgoing
from leveret.embedded.queue import Queue
from leveret.embedded.reading import StreamReader
from leveret.embedded.records import StreamRecord
from leveret.embedded.redrive import RedriveResult
from leveret.embedded.storage import verify
from leveret.embedded.stream import Appended, Stream
from leveret.embedded.worker import Reject, Worker
from leveret.journal.verify import Damage

__all__ = [
    "AccessRefused",
    "Appended",
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
    "LeveretError",
    "ManualClock",
    "Message",
    "MessageNotFound",
    "MessageTooLarge",
    "NotFound",
    "NotSupported",
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
