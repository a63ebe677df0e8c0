"""Reply codes: what they are called, how far they reach, and which one each refusal of the core becomes."""

from enum import IntEnum

from leveret.core import errors

REPLY_TEXT_BYTES_MAX = 255  # a short string


class Reply(IntEnum):
    """A reply code by its AMQP name."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541


# These close the channel only; on channel 0, which has no close of its own, they close the connection as all others do.
CLOSES_CHANNEL = frozenset(
    {
        Reply.CONTENT_TOO_LARGE,
        Reply.NO_ROUTE,
        Reply.NO_CONSUMERS,
        Reply.ACCESS_REFUSED,
        Reply.NOT_FOUND,
        Reply.RESOURCE_LOCKED,
        Reply.PRECONDITION_FAILED,
    }
)

REPLIES: dict[type[errors.LeveretError], Reply] = {
    errors.LeveretError: Reply.INTERNAL_ERROR,
    errors.NotFound: Reply.NOT_FOUND,
    errors.VhostNotFound: Reply.NOT_ALLOWED,
    errors.QueueNotFound: Reply.NOT_FOUND,
    errors.ExchangeNotFound: Reply.NOT_FOUND,
    errors.MessageNotFound: Reply.NOT_FOUND,
    errors.PreconditionFailed: Reply.PRECONDITION_FAILED,
    errors.InvalidArgument: Reply.PRECONDITION_FAILED,
    errors.StaleGeneration: Reply.PRECONDITION_FAILED,
    errors.KeyReused: Reply.PRECONDITION_FAILED,
    errors.AccessRefused: Reply.ACCESS_REFUSED,
    errors.ResourceLocked: Reply.RESOURCE_LOCKED,
    errors.InvalidReceipt: Reply.PRECONDITION_FAILED,
    errors.NotSupported: Reply.NOT_IMPLEMENTED,
    errors.QueueFull: Reply.PRECONDITION_FAILED,
    errors.MessageTooLarge: Reply.PRECONDITION_FAILED,
    errors.TooMany: Reply.PRECONDITION_FAILED,
    errors.Unreachable: Reply.RESOURCE_ERROR,
    errors.BrokerClosed: Reply.CONNECTION_FORCED,
    errors.JournalError: Reply.INTERNAL_ERROR,
    errors.JournalFailed: Reply.INTERNAL_ERROR,
    errors.Fenced: Reply.INTERNAL_ERROR,
    errors.StoreUnreachable: Reply.RESOURCE_ERROR,
    errors.DiskFull: Reply.RESOURCE_ERROR,
    errors.BlobStoreFailed: Reply.RESOURCE_ERROR,
    errors.DataLocked: Reply.INTERNAL_ERROR,
    errors.UnknownFormat: Reply.INTERNAL_ERROR,
    errors.DamagedJournal: Reply.INTERNAL_ERROR,
    errors.WrongKey: Reply.INTERNAL_ERROR,
}


class ProtocolError(errors.LeveretError):
    """What ends a channel or a connection: a reply code and the text that goes with it."""

    def __init__(self, code: int, explanation: str) -> None:
        """Make the text as RabbitMQ does: `NAME - explanation`, cut to what a short string holds."""
        self.code = Reply(code)
        self.text = clipped(f"{self.code.name} - {explanation}")
        super().__init__(self.text)

    @property
    def closes_connection(self) -> bool:
        """Whether it reaches beyond its channel."""
        return self.code not in CLOSES_CHANNEL


def clipped(text: str) -> str:
    """A text of at most 255 bytes, cut between characters."""
    encoded = text.encode("utf-8", "surrogateescape")
    if len(encoded) <= REPLY_TEXT_BYTES_MAX:
        return text
    return encoded[: REPLY_TEXT_BYTES_MAX - 3].decode("utf-8", "ignore") + "..."


def refusal(error: Exception) -> ProtocolError:
    """What a client is told about an exception; of broken code it learns nothing but that."""
    if isinstance(error, ProtocolError):
        return error
    if isinstance(error, errors.LeveretError):
        return ProtocolError(_reply_for(type(error)), str(error))
    return ProtocolError(Reply.INTERNAL_ERROR, "the broker failed; its log says how")


def _reply_for(kind: type[errors.LeveretError]) -> Reply:
    # A subclass from elsewhere means what its nearest known base means.
    return next(REPLIES[base] for base in kind.__mro__ if base in REPLIES)
