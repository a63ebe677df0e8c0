"""Every refusal of SQS: its name in the JSON protocol, its code in the Query protocol, its status and its text.

A text with a name in braces is filled in where it is raised; some kinds have no text of their own.
"""

from typing import NamedTuple

from leveret.core import errors
from leveret.protocols.http.problem import STATUSES
from leveret.protocols.http.request import Refusal


class Fault(NamedTuple):
    """One row: what clients see of a kind of refusal."""

    code: str
    status: int = 400
    text: str = "{text}"
    query_text: str | None = None
    """Where the two protocols differ."""
    shape: str | None = None
    """The name in the JSON protocol; None: that of the kind."""


SIMPLE = "AWS.SimpleQueueService."
BAD_CHARACTERS = (
    "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | "
    "#x10000 to #x10FFFF"
)
"""Of a body this is InvalidMessageContents, of a message attribute InvalidParameterValue."""

FAULTS: dict[str, Fault] = {
    "QueueDoesNotExist": Fault(
        SIMPLE + "NonExistentQueue",
        400,
        "The specified queue does not exist.",
        query_text="The specified queue does not exist for this wsdl version.",
    ),
    "QueueNameExists": Fault(
        "QueueAlreadyExists",
        400,
        "A queue already exists with the same name and a different value for attribute {name}",
    ),
    "QueueDeletedRecently": Fault(
        SIMPLE + "QueueDeletedRecently",
        400,
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
    ),
    "PurgeQueueInProgress": Fault(
        SIMPLE + "PurgeQueueInProgress", 403, "Only one PurgeQueue operation on {name} is allowed every 60 seconds."
    ),
    "OverLimit": Fault("OverLimit", 403),
    "ResourceNotFound": Fault("ResourceNotFoundException", 404, shape="ResourceNotFoundException"),
    "EmptyBatchRequest": Fault(
        SIMPLE + "EmptyBatchRequest", 400, "There should be at least one {entry} in the request."
    ),
    "TooManyEntriesInBatchRequest": Fault(
        SIMPLE + "TooManyEntriesInBatchRequest",
        400,
        "Maximum number of entries per request are 10. You have sent {count}.",
    ),
    "BatchEntryIdsNotDistinct": Fault(SIMPLE + "BatchEntryIdsNotDistinct", 400, "Id {id} repeated."),
    "BatchRequestTooLong": Fault(
        SIMPLE + "BatchRequestTooLong",
        400,
        "Batch requests cannot be longer than {most} bytes. You have sent {size} bytes.",
    ),
    "InvalidBatchEntryId": Fault(
        SIMPLE + "InvalidBatchEntryId",
        400,
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
        "It can be at most 80 letters long.",
    ),
    "MessageNotInflight": Fault(SIMPLE + "MessageNotInflight"),
    "UnsupportedOperation": Fault(SIMPLE + "UnsupportedOperation"),
    "InvalidAttributeName": Fault("InvalidAttributeName"),
    "InvalidAttributeValue": Fault("InvalidAttributeValue", 400, "Invalid value for the parameter {name}.{text}"),
    "InvalidMessageContents": Fault("InvalidMessageContents"),
    "ReceiptHandleIsInvalid": Fault(
        "ReceiptHandleIsInvalid", 400, 'The input receipt handle "{handle}" is not a valid receipt handle.'
    ),
    "InvalidParameterValue": Fault("InvalidParameterValue", shape="InvalidParameterValueException"),
    "MissingParameter": Fault(
        "MissingParameter",
        400,
        "The request must contain the parameter {name}.",
        shape="MissingRequiredParameterException",
    ),
    "InvalidAction": Fault("InvalidAction", 400, "The action {action} is not valid for this endpoint."),
    "UnknownOperation": Fault("UnknownOperationException", 404, shape="UnknownOperationException"),
    "Serialization": Fault("MalformedInput", shape="SerializationException"),
    "RequestThrottled": Fault("RequestThrottled", 403),
    "MissingAuthenticationToken": Fault("MissingAuthenticationToken", 403, shape="MissingAuthenticationTokenException"),
    "IncompleteSignature": Fault("IncompleteSignature", 403, shape="IncompleteSignatureException"),
    "InvalidClientTokenId": Fault("InvalidClientTokenId", 403, shape="UnrecognizedClientException"),
    "SignatureDoesNotMatch": Fault("SignatureDoesNotMatch", 403, shape="InvalidSignatureException"),
    "RequestExpired": Fault("RequestExpired", 403, shape="RequestExpiredException"),
    "AccessDenied": Fault(
        "AccessDenied",
        403,
        "User: {user} is not authorized to perform: sqs:{action} on resource: {resource}",
        shape="AccessDeniedException",
    ),
    "CrossSite": Fault("AccessDenied", 403, shape="AccessDeniedException"),
    "MisdirectedRequest": Fault("MisdirectedRequest", 421, shape="MisdirectedRequestException"),
    "ServiceUnavailable": Fault("ServiceUnavailable", 503),
    "InternalFailure": Fault("InternalFailure", 500, "The server failed; its log says how."),
    "PayloadTooLarge": Fault("RequestEntityTooLarge", 413, shape="RequestEntityTooLargeException"),
}

_BY_STATUS = {404: "ResourceNotFound", 422: "UnsupportedOperation", 429: "OverLimit", 500: "InternalFailure"}
_BY_STATUS |= dict.fromkeys((400, 403, 409, 413), "InvalidParameterValue")
_BY_STATUS |= dict.fromkeys((502, 503, 507), "ServiceUnavailable")
KINDS: dict[type[errors.LeveretError], str] = {kind: _BY_STATUS[status] for kind, status in STATUSES.items()}
KINDS |= {
    errors.VhostNotFound: "QueueDoesNotExist",
    errors.QueueNotFound: "QueueDoesNotExist",
    errors.ResourceLocked: "UnsupportedOperation",
}
REFUSED_BY_HTTP = {
    403: "CrossSite",
    413: "PayloadTooLarge",
    421: "MisdirectedRequest",
    429: "RequestThrottled",
    503: "ServiceUnavailable",
}


class SqsError(errors.LeveretError):
    """A refusal by the name that the table has for it."""

    def __init__(self, kind: str, text: str = "", **facts: object) -> None:
        """Refuse; `text` is for kinds that have none of their own."""
        self.kind = kind
        self.headers: tuple[tuple[str, str], ...] = ()
        self.fault = FAULTS[kind]
        self._facts = {"text": text, **facts}
        super().__init__(self.fault.text.format(**self._facts))

    @property
    def query_text(self) -> str:
        return (self.fault.query_text or self.fault.text).format(**self._facts)


def invalid(text: str) -> SqsError:
    """The refusal of a parameter."""
    return SqsError("InvalidParameterValue", text)


def sqs_error(error: errors.LeveretError) -> SqsError:
    """Any refusal as one of SQS."""
    if isinstance(error, SqsError):
        return error
    if isinstance(error, Refusal):
        other = "InternalFailure" if error.status >= 500 else "Serialization"
        known = SqsError(REFUSED_BY_HTTP.get(error.status, other), str(error))
        known.headers = error.headers
        return known
    kind = next(KINDS[base] for base in type(error).__mro__ if base in KINDS)
    return SqsError(kind, str(error))
