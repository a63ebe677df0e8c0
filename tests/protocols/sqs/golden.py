"""Refusals, word by word: the table, the queues that its rows need, and how a row is checked in both protocols."""

from tests.protocols.sqs.refusals import (
    SIMPLE,
    Row,
    attribute,
    invalid,
    message_attribute,
    missing,
    no_queue,
    redrive,
    row,
    unknown_attribute,
)
from tests.protocols.sqs.world import World

BIG = "x" * 1_048_577
ENTRY = {"Id": "a", "MessageBody": "hello"}


FIFO_NAME = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo "
    "suffix and be 1 to 80 in length"
)
NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
DLQ = "arn:aws:sqs:us-east-1:000000000000:"
ONE_ENCRYPTION = (
    "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
)
NO_FIFO = "Unknown Attribute FifoQueue."
CONTENTS = "InvalidMessageContents"
NO_NUMBER = "Could not cast message attribute 'a' value to number."
NO_TASK = "Source queue must be configured as a Dead Letter Queue."
NO_DEDUPLICATION = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
NOT_FOR_TYPE = "The request include parameter that is not valid for this queue type."
CHARACTERS = (
    "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | "
    "#x10000 to #x10FFFF"
)
ATTRIBUTE_NAME = (
    "Invalid attribute name: '{}'. A name has 1 to 256 letters, digits, underscores, hyphens and single dots, neither "
    "begins nor ends with a dot, and does not begin with AWS. or Amazon."
)
TYPES = (
    "The message attribute 'a' has an invalid message attribute type, the set of supported type prefixes is Binary, "
    "Number, and String."
)
ENTRY_ID = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters "
    "long."
)
ON_QUEUE = (
    "SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessage", "DeleteMessageBatch", "PurgeQueue",
    "ChangeMessageVisibility", "ChangeMessageVisibilityBatch", "DeleteQueue", "GetQueueAttributes", "TagQueue",
    "SetQueueAttributes", "ListDeadLetterSourceQueues", "ListQueueTags", "UntagQueue", "AddPermission",
    "RemovePermission",
)  # fmt: skip

GOLDEN = [
    # Queues that are not there, and requests that name none
    *(no_queue(action, QueueUrl="nowhere") for action in ON_QUEUE),
    *(missing(action, "QueueUrl") for action in ON_QUEUE),
    no_queue("GetQueueUrl", QueueName="nowhere"),
    no_queue("GetQueueUrl", QueueName="orders", QueueOwnerAWSAccountId="111111111111"),
    # Other parameters that have to be there
    missing("CreateQueue", "QueueName"),
    missing("GetQueueUrl", "QueueName"),
    missing("SendMessage", "MessageBody", QueueUrl="orders"),
    missing("SendMessage", "MessageGroupId", QueueUrl="orders.fifo", MessageBody="a"),
    missing("DeleteMessage", "ReceiptHandle", QueueUrl="orders"),
    missing("ChangeMessageVisibility", "ReceiptHandle", QueueUrl="orders", VisibilityTimeout=1),
    missing("SetQueueAttributes", "Attributes", QueueUrl="orders"),
    missing("TagQueue", "Tags", QueueUrl="orders"),
    missing("TagQueue", "Tags", QueueUrl="orders", Tags={}),
    missing("UntagQueue", "TagKeys", QueueUrl="orders"),
    missing("AddPermission", "Label", QueueUrl="orders"),
    missing("AddPermission", "AWSAccountIds", QueueUrl="orders", Label="a"),
    missing("AddPermission", "Actions", QueueUrl="orders", Label="a", AWSAccountIds=["111111111111"]),
    missing("RemovePermission", "Label", QueueUrl="orders"),
    missing("StartMessageMoveTask", "SourceArn"),
    missing("ListMessageMoveTasks", "SourceArn"),
    missing("CancelMessageMoveTask", "TaskHandle"),
    # Names
    invalid("CreateQueue", NAME, QueueName=""),
    invalid("CreateQueue", NAME, QueueName="a b"),
    invalid("CreateQueue", NAME, QueueName="a" * 81),
    invalid("CreateQueue", NAME, QueueName="a.fifo"),
    invalid("CreateQueue", FIFO_NAME, QueueName="a", Attributes={"FifoQueue": "true"}),
    # Attributes of queues
    *(
        attribute(name, value)
        for name, values in {
            "DelaySeconds": ("-1", "901", "x"),
            "MaximumMessageSize": ("1023", "1048577"),
            "MessageRetentionPeriod": ("59", "1209601"),
            "ReceiveMessageWaitTimeSeconds": ("-1", "21"),
            "VisibilityTimeout": ("-1", "43201"),
            "KmsDataKeyReusePeriodSeconds": ("59", "86401"),
            "SqsManagedSseEnabled": ("yes",),
            "Policy": ("[]", "{", '{"Statement": [{"Effect": "Allow"}]}'),
            "RedriveAllowPolicy": ('{"redrivePermission": "some"}', '{"redrivePermission": "byQueue"}'),
        }.items()
        for value in values
    ),
    attribute("ContentBasedDeduplication", "maybe", "new.fifo"),
    attribute("DeduplicationScope", "group", "new.fifo"),
    attribute("FifoThroughputLimit", "perMessageGroupId", "new.fifo"),
    unknown_attribute("CreateQueue", "Unknown Attribute Foo.", QueueName="new", Attributes={"Foo": "1"}),
    unknown_attribute("CreateQueue", NO_FIFO, QueueName="new", Attributes={"FifoQueue": "false"}),
    unknown_attribute(
        "CreateQueue",
        "You can specify the DeduplicationScope only when FifoQueue is set to true.",
        QueueName="new",
        Attributes={"DeduplicationScope": "queue"},
    ),
    unknown_attribute("SetQueueAttributes", NO_FIFO, QueueUrl="orders", Attributes={"FifoQueue": "true"}),
    row(
        "SetQueueAttributes",
        "InvalidAttributeValue",
        "InvalidAttributeValue",
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
        QueueUrl="orders.fifo",
        Attributes={"FifoQueue": "false"},
    ),
    unknown_attribute("GetQueueAttributes", "Unknown Attribute Foo.", QueueUrl="orders", AttributeNames=["Foo"]),
    unknown_attribute("ReceiveMessage", "Unknown Attribute Foo.", QueueUrl="orders", AttributeNames=["Foo"]),
    unknown_attribute(
        "SetQueueAttributes",
        ONE_ENCRYPTION,
        QueueUrl="orders",
        Attributes={"KmsMasterKeyId": "alias/mine", "SqsManagedSseEnabled": "true"},
    ),
    row(
        "CreateQueue",
        "QueueNameExists",
        "QueueAlreadyExists",
        "A queue already exists with the same name and a different value for attribute DelaySeconds",
        QueueName="orders",
        Attributes={"DelaySeconds": "5"},
    ),
    row(
        "CreateQueue",
        "QueueDeletedRecently",
        SIMPLE + "QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
        QueueName="deleted",
    ),
    row(
        "PurgeQueue",
        "PurgeQueueInProgress",
        SIMPLE + "PurgeQueueInProgress",
        "Only one PurgeQueue operation on purged is allowed every 60 seconds.",
        403,
        QueueUrl="purged",
    ),
    # Dead letters
    attribute("RedrivePolicy", "[]"),
    redrive('{"maxReceiveCount": 1}', "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."),
    redrive(
        f'{{"deadLetterTargetArn": "{DLQ}dead", "maxReceiveCount": 1001}}',
        "Invalid value for maxReceiveCount: 1001, valid values are from 1 to 1000 both inclusive.",
    ),
    redrive(f'{{"deadLetterTargetArn": "{DLQ}nowhere"}}', "Dead letter target does not exist."),
    redrive('{"deadLetterTargetArn": "arn:aws:sqs:mars:1:dead"}', "Dead letter target does not exist."),
    redrive(
        f'{{"deadLetterTargetArn": "{DLQ}dead"}}',
        "Dead-letter queue must be same type of queue as the source.",
        "orders.fifo",
    ),
    redrive(f'{{"deadLetterTargetArn": "{DLQ}proud"}}', "Dead letter target does not allow this queue as its source."),
    # Messages
    missing("SendMessage", "MessageBody", QueueUrl="orders", MessageBody=""),
    *(
        row("SendMessage", CONTENTS, CONTENTS, CHARACTERS, QueueUrl="orders", MessageBody=f"a{bad}")
        for bad in ("\0", "\x1f", "\ufffe", "\uffff")
    ),
    invalid(
        "SendMessage",
        "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
        QueueUrl="orders",
        MessageBody=BIG,
    ),
    invalid(
        "SendMessage",
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
        QueueUrl="small",
        MessageBody="x" * 1_000,
        MessageAttributes={"a": {"DataType": "String", "StringValue": "x" * 20}},
    ),
    invalid(
        "SendMessage",
        "Value 901 for parameter DelaySeconds is invalid. Reason: Must be >= 0 and <= 900, if provided.",
        QueueUrl="orders",
        MessageBody="a",
        DelaySeconds=901,
    ),
    invalid(
        "SendMessage",
        f"Value 1 for parameter DelaySeconds is invalid. Reason: {NOT_FOR_TYPE}",
        QueueUrl="orders.fifo",
        MessageBody="a",
        MessageGroupId="g",
        MessageDeduplicationId="d",
        DelaySeconds=1,
    ),
    invalid(
        "SendMessage",
        f"Value d for parameter MessageDeduplicationId is invalid. Reason: {NOT_FOR_TYPE}",
        QueueUrl="orders",
        MessageBody="a",
        MessageDeduplicationId="d",
    ),
    invalid(
        "SendMessage",
        NO_DEDUPLICATION,
        QueueUrl="orders.fifo",
        MessageBody="a",
        MessageGroupId="g",
    ),
    invalid(
        "SendMessage",
        "Value a b for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and "
        "punctuation characters. 1 to 128 in length.",
        QueueUrl="orders",
        MessageBody="a",
        MessageGroupId="a b",
    ),
    message_attribute(
        "Number of message attributes [11] exceeds the allowed maximum [10].",
        **{f"a{number}": {"DataType": "String", "StringValue": "x"} for number in range(11)},
    ),
    message_attribute(TYPES, a={"DataType": "Text", "StringValue": "x"}),
    message_attribute(
        "The message attribute 'a' must contain non-empty message attribute type.", a={"StringValue": "x"}
    ),
    message_attribute(NO_NUMBER, a={"DataType": "Number", "StringValue": "x"}),
    message_attribute(
        "Message (user) attribute 'a' must contain a non-empty value of type 'String'.",
        a={"DataType": "String", "StringValue": ""},
    ),
    *(message_attribute(CHARACTERS, a={"DataType": "String", "StringValue": bad}) for bad in ("\b", "\v", "\uffff")),
    *(
        message_attribute(ATTRIBUTE_NAME.format(name), **{name: {"DataType": "String", "StringValue": "x"}})
        for name in ("a!", "a\u00a7", "a(", ".a", "a.", "aWs.a", "AMAZON.a")
    ),
    invalid(
        "SendMessage",
        "Message system attribute name 'SenderId' is invalid.",
        QueueUrl="orders",
        MessageBody="a",
        MessageSystemAttributes={"SenderId": {"DataType": "String", "StringValue": "me"}},
    ),
    # Batches
    *(
        row(
            f"{action}Batch",
            "EmptyBatchRequest",
            SIMPLE + "EmptyBatchRequest",
            f"There should be at least one {action}BatchRequestEntry in the request.",
            QueueUrl="orders",
        )
        for action in ("SendMessage", "DeleteMessage", "ChangeMessageVisibility")
    ),
    row(
        "SendMessageBatch",
        "TooManyEntriesInBatchRequest",
        SIMPLE + "TooManyEntriesInBatchRequest",
        "Maximum number of entries per request are 10. You have sent 20.",
        QueueUrl="orders",
        Entries=[{**ENTRY, "Id": str(number)} for number in range(20)],
    ),
    row(
        "SendMessageBatch",
        "BatchEntryIdsNotDistinct",
        SIMPLE + "BatchEntryIdsNotDistinct",
        "Id a repeated.",
        QueueUrl="orders",
        Entries=[ENTRY, ENTRY],
    ),
    row(
        "SendMessageBatch",
        "InvalidBatchEntryId",
        SIMPLE + "InvalidBatchEntryId",
        ENTRY_ID,
        QueueUrl="orders",
        Entries=[{**ENTRY, "Id": "a b"}],
    ),
    row(
        "SendMessageBatch",
        "BatchRequestTooLong",
        SIMPLE + "BatchRequestTooLong",
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1200000 bytes.",
        QueueUrl="orders",
        Entries=[{"Id": "a", "MessageBody": "x" * 600_000}, {"Id": "b", "MessageBody": "x" * 600_000}],
    ),
    row(
        "SendMessageBatch",
        "BatchRequestTooLong",
        SIMPLE + "BatchRequestTooLong",
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
        QueueUrl="orders",
        Entries=[{"Id": "a", "MessageBody": BIG}],
    ),
    row(
        "SendMessageBatch",
        "BatchRequestTooLong",
        SIMPLE + "BatchRequestTooLong",
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048586 bytes.",
        QueueUrl="orders",
        Entries=[
            {
                "Id": "a",
                "MessageBody": "x" * 1_048_576,
                "MessageAttributes": {"a": {"DataType": "String", "StringValue": "red"}},
            }
        ],
    ),
    invalid(
        "SendMessageBatch",
        "The request must contain the parameter MessageGroupId.",
        QueueUrl="orders.fifo",
        Entries=[{**ENTRY, "MessageGroupId": "g", "MessageDeduplicationId": "d"}, {**ENTRY, "Id": "b"}],
    ),
    invalid(
        "SendMessageBatch",
        NO_DEDUPLICATION,
        QueueUrl="orders.fifo",
        Entries=[
            {**ENTRY, "MessageGroupId": "g", "MessageDeduplicationId": "d"},
            {**ENTRY, "Id": "b", "MessageGroupId": "g"},
        ],
    ),
    # Receiving and what comes after
    invalid(
        "ReceiveMessage",
        "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
        QueueUrl="orders",
        MaxNumberOfMessages=11,
    ),
    invalid(
        "ReceiveMessage",
        "Value 0 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
        QueueUrl="orders",
        MaxNumberOfMessages=0,
    ),
    invalid(
        "ReceiveMessage",
        "Value 21 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
        QueueUrl="orders",
        WaitTimeSeconds=21,
    ),
    invalid(
        "ReceiveMessage",
        "Value 43201 for parameter VisibilityTimeout is invalid. Reason: Must be >= 0 and <= 43200, if provided.",
        QueueUrl="orders",
        VisibilityTimeout=43_201,
    ),
    row(
        "DeleteMessage",
        "ReceiptHandleIsInvalid",
        "ReceiptHandleIsInvalid",
        'The input receipt handle "garbage" is not a valid receipt handle.',
        QueueUrl="orders",
        ReceiptHandle="garbage",
    ),
    row(
        "ChangeMessageVisibility",
        "ReceiptHandleIsInvalid",
        "ReceiptHandleIsInvalid",
        'The input receipt handle "garbage" is not a valid receipt handle.',
        QueueUrl="orders",
        ReceiptHandle="garbage",
        VisibilityTimeout=1,
    ),
    row(
        "ReceiveMessage",
        "OverLimit",
        "OverLimit",
        "Too many messages in flight for the queue crowded: delete some first.",
        403,
        QueueUrl="crowded",
    ),
    # Lists, tags, permissions
    invalid(
        "ListQueues",
        "Value 1001 for parameter MaxResults is invalid. Reason: Must be between 1 and 1000, if provided.",
        MaxResults=1_001,
    ),
    invalid(
        "ListQueues", "MaxResults is a mandatory parameter when you provide a value for NextToken.", NextToken="YQ=="
    ),
    invalid("ListQueues", "Invalid or expired next token.", NextToken="?", MaxResults=1),
    invalid(
        "TagQueue",
        "Too many tags added: a queue has at most 50.",
        QueueUrl="orders",
        Tags={f"tag{number}": "x" for number in range(51)},
    ),
    invalid("UntagQueue", "Tag keys must be between 1 and 128 characters in length.", QueueUrl="orders", TagKeys=[]),
    invalid(
        "RemovePermission",
        "Value a for parameter Label is invalid. Reason: can't find label.",
        QueueUrl="orders",
        Label="a",
    ),
    invalid(
        "AddPermission",
        "Value ['me'] for parameter PrincipalId is invalid. Reason: Unable to verify.",
        QueueUrl="orders",
        Label="a",
        AWSAccountIds=["me"],
        Actions=["SendMessage"],
    ),
    row(
        "AddPermission",
        "OverLimit",
        "OverLimit",
        "8 Actions were found, maximum allowed is 7.",
        403,
        QueueUrl="orders",
        Label="a",
        AWSAccountIds=["111111111111"],
        Actions=["SendMessage"] * 8,
    ),
    # Move tasks
    invalid("StartMessageMoveTask", NO_TASK, SourceArn=f"{DLQ}orders"),
    row(
        "StartMessageMoveTask",
        "ResourceNotFoundException",
        "ResourceNotFoundException",
        "The resource that you specified for the SourceArn parameter doesn't exist.",
        404,
        SourceArn=f"{DLQ}nowhere",
    ),
    row(
        "StartMessageMoveTask",
        "ResourceNotFoundException",
        "ResourceNotFoundException",
        "The resource that you specified for the DestinationArn parameter doesn't exist.",
        404,
        SourceArn=f"{DLQ}dead",
        DestinationArn=f"{DLQ}nowhere",
    ),
    invalid(
        "StartMessageMoveTask",
        "You must use this format to specify the DestinationArn: "
        "arn:<partition>:<service>:<region>:<account-id>:<resource-id>",
        SourceArn=f"{DLQ}dead",
        DestinationArn="dead",
    ),
    invalid("CancelMessageMoveTask", "Value for parameter TaskHandle is invalid.", TaskHandle="?"),
    row(
        "CancelMessageMoveTask",
        "ResourceNotFoundException",
        "ResourceNotFoundException",
        "Task does not exist.",
        404,
        TaskHandle="eyJ0YXNrSWQiOiAiYSJ9",
    ),
]


def prepare(world: World) -> None:
    """Make the queues of the table."""
    for name in ("orders", "orders.fifo", "dead", "deleted", "purged", "crowded"):
        world.create(name)
    world.create("small", MaximumMessageSize="1024")
    world.create("redriven", RedrivePolicy={"deadLetterTargetArn": f"{DLQ}dead", "maxReceiveCount": 5})
    world.create("proud", RedriveAllowPolicy={"redrivePermission": "denyAll"})
    world.do("DeleteQueue", QueueUrl="deleted")
    world.do("PurgeQueue", QueueUrl="purged")
    world.send("crowded", "a")
    world.receive("crowded")


def check(prepared: World, case: Row) -> None:
    """A request is refused as the table says."""
    answer = prepared.json(case.action, **case.parameters)
    assert answer.json == {"__type": f"com.amazonaws.sqs#{case.shape}", "message": case.text}
    assert (answer.status, answer.headers["x-amzn-query-error"]) == (case.status, f"{case.code};Sender")
    assert answer.headers["x-amzn-requestid"]
    other = prepared.query(case.action, **case.parameters)
    assert other.text("Error/Message") == (case.query_text or case.text)
    assert (other.status, other.text("Error/Code"), other.text("Error/Type")) == (case.status, case.code, "Sender")
    assert other.text("RequestId") == other.headers["x-amzn-requestid"]
