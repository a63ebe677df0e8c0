"""Every way in which Leveret refuses: a closed set, so that each edge can map it by one table.

Expected outcomes (unroutable, full, duplicate) are values; what is here tells a caller what to do next.
"""


class LeveretError(Exception):
    """The base of everything that Leveret raises on purpose."""


class NotFound(LeveretError):
    """The named thing does not exist."""


class VhostNotFound(NotFound):
    """No such virtual host."""


class QueueNotFound(NotFound):
    """No such queue."""


class ExchangeNotFound(NotFound):
    """No such exchange."""


class MessageNotFound(NotFound):
    """No such message: it was settled, cancelled or never there."""


class PreconditionFailed(LeveretError):
    """The request contradicts what exists, for example a declaration with other arguments."""


class InvalidArgument(PreconditionFailed, ValueError):
    """An argument is of the wrong type or outside its range."""


class StaleGeneration(PreconditionFailed):
    """The members of a consumer group have changed since this one got its partitions."""


class KeyReused(PreconditionFailed):
    """An Idempotency-Key came again with another message."""


class AccessRefused(LeveretError):
    """The name is reserved, or the object is not to be used in this way."""


class ResourceLocked(LeveretError):
    """Another client has exclusive use of the object."""


class InvalidReceipt(LeveretError):
    """The receipt is not of this queue, was used before, or its lease has ended."""


class NotSupported(LeveretError):
    """This type of queue does not do that."""


class QueueFull(LeveretError):
    """The queue is at its limit and rejects publishes."""


class MessageTooLarge(LeveretError):
    """The message is over the configured size."""


class TooMany(LeveretError):
    """A configured limit on the number of objects is reached."""


class Unreachable(LeveretError):
    """The server did not answer: it may have done what it was asked for, or not."""


class BrokerClosed(LeveretError):
    """The broker was closed; open it again."""


class JournalError(LeveretError):
    """The base of everything that is wrong with the stored data."""


class JournalFailed(JournalError):
    """A write or sync failed: what was not confirmed is lost, nothing more is accepted."""


class Fenced(JournalFailed):
    """Another process has taken over the store: this one does nothing to it any more."""


class StoreUnreachable(JournalError):
    """The database that holds the journal does not answer; what is confirmed lies there."""


class DiskFull(JournalError):
    """No room for publishes; acknowledgements are still taken, and they free room."""


class BlobStoreFailed(JournalError):
    """The store for large bodies did not do what it was asked for; the log is not harmed."""


class DataLocked(JournalError):
    """Another process has this data directory open."""


class UnknownFormat(JournalError):
    """The data was written by a newer or foreign version."""


class DamagedJournal(JournalError):
    """Bytes that were durable have changed; the message names the file and the offset."""


class WrongKey(JournalError):
    """The data is encrypted and the key given is not the one."""
