"""GetQueueAttributes and SetQueueAttributes."""

from leveret.protocols.http.response import Response
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.attributes import ALL, READABLE, check_attributes
from leveret.protocols.sqs.authorization import authorize_grants, authorize_redrive
from leveret.protocols.sqs.call import Answer, SqsCall
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.parameters import names, required, texts
from leveret.protocols.sqs.queue_policy import check_policy
from leveret.protocols.sqs.queues import SqsQueue
from leveret.protocols.sqs.redrive_policy import allows_source, check_allow_policy, read_redrive_policy


def get_queue_attributes(call: SqsCall, queue: SqsQueue) -> Response:
    """The attributes that are asked for."""
    wanted = names(call.parameters, "AttributeNames")
    for name in wanted:
        if name not in READABLE and name != ALL:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    if not wanted:
        return call.answer({})
    with call.account.runtime:
        known = {**described(queue), **queue.attributes}
    found = known if ALL in wanted else {name: known[name] for name in wanted if name in known}
    return call.answer({"Attributes": found} if found else {})


def described(queue: SqsQueue) -> dict[str, str]:
    """The attributes that cannot be set."""
    core, details = queue.core, queue.details
    return {
        "QueueArn": queue.arn,
        "ApproximateNumberOfMessages": str(core.depth),
        "ApproximateNumberOfMessagesNotVisible": str(core.leased + core.backing_off),
        "ApproximateNumberOfMessagesDelayed": str(core.scheduled),
        "CreatedTimestamp": str(details["created_s"]),
        "LastModifiedTimestamp": str(details["modified_s"]),
    }


def set_queue_attributes(call: SqsCall, queue: SqsQueue) -> Answer:
    """Other values for some attributes."""
    required(call.parameters, "Attributes")
    wanted = texts(call.parameters, "Attributes")
    if queue.fifo and wanted.get("FifoQueue", "true").lower() != "true":
        raise SqsError("InvalidAttributeValue", " Reason: Modifying queue type is not supported.", name="FifoQueue")
    given = check_attributes(wanted, queue.fifo)
    given.pop("FifoQueue", None)  # the queue is one
    account = call.account
    with account.runtime:
        check_values(call, queue.name, queue.fifo, {**queue.attributes, **given}, given, queue)
        account.queues.change(queue, with_encryption(given))
        commit_batch = account.runtime.commit()
    return call.durable(commit_batch)


def check_values(
    call: SqsCall,
    name: str,
    fifo: bool,
    attributes: dict[str, str],
    given: dict[str, str],
    queue: SqsQueue | None = None,
) -> None:
    """Refuse attributes that contradict each other, name queues that do not exist, or open queues. Under the lock.

    `given` are those that change; `queue` is None while it is made.
    """
    if attributes.get("FifoThroughputLimit") == "perMessageGroupId" and (
        attributes.get("DeduplicationScope", "queue") != "messageGroup"
    ):
        raise SqsError("InvalidAttributeValue", name="FifoThroughputLimit")
    if "Policy" in given:
        check_policy(given["Policy"])
        authorize_grants(call, name, queue, given["Policy"])
    if "RedriveAllowPolicy" in given:
        check_allow_policy(given["RedriveAllowPolicy"])
    if "RedrivePolicy" in given:
        target = _check_redrive(call.account, name, fifo, given["RedrivePolicy"])
        if target is not None:
            authorize_redrive(call, name, queue, target)


def _check_redrive(account: Account, name: str, fifo: bool, value: str) -> SqsQueue | None:
    """Refuse a dead-letter queue that is not there, of another type, or does not allow this source; give it."""
    policy = read_redrive_policy(value, account.settings)
    if policy is None:
        return None
    start = f"Value {value} for parameter RedrivePolicy is invalid. Reason: "
    target = account.queues.find(policy.target)
    if target is None:
        raise invalid(start + "Dead letter target does not exist.")
    if target.fifo != fifo:
        raise invalid(start + "Dead-letter queue must be same type of queue as the source.")
    if not allows_source(target.kept.get("RedriveAllowPolicy"), account.settings.arn(name)):
        raise invalid(start + "Dead letter target does not allow this queue as its source.")
    return target


def with_encryption(given: dict[str, str]) -> dict[str, str]:
    """Attributes with what they imply: either a key of KMS or Amazon's own encryption is in use, or neither."""
    key, own = given.get("KmsMasterKeyId"), given.get("SqsManagedSseEnabled") == "true"
    if key and own:
        raise SqsError(
            "InvalidAttributeName",
            "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS "
            "SSE.",
        )
    if key:
        return {**given, "SqsManagedSseEnabled": "false"}
    return {**given, "KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": ""} if own or key == "" else given
