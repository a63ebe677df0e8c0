"""Where the dead letters of a queue go, and which queues may send theirs to one.

RedrivePolicy       {"deadLetterTargetArn": "arn:aws:sqs:...", "maxReceiveCount": 5}
RedriveAllowPolicy  {"redrivePermission": "allowAll" | "denyAll" | "byQueue", "sourceQueueArns": [...]}
"""

from typing import Any, NamedTuple

from leveret.protocols.sqs.attributes import parsed
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.settings import Settings

RECEIVES_MAX = 1_000
RECEIVES_DEFAULT = 10
SOURCES_MAX = 10
PERMISSIONS = ("allowAll", "denyAll", "byQueue")


class RedrivePolicy(NamedTuple):
    """The queue for dead letters, and how often a message is received before it goes there."""

    target: str
    receives_max: int

    def arguments(self) -> dict[str, Any]:
        """The same for the core."""
        return {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self.target,
            "x-max-receive-count": self.receives_max,
        }


NAMES = tuple(RedrivePolicy("", 1).arguments())


def read_redrive_policy(value: str, settings: Settings) -> RedrivePolicy | None:
    """The policy in an attribute; None when that is empty."""
    if not value:
        return None
    policy = parsed(value)

    def refused(reason: str) -> SqsError:
        return invalid(f"Value {value} for parameter RedrivePolicy is invalid. Reason: {reason}")

    if not isinstance(policy, dict):
        raise refused("Redrive policy is not a valid JSON map.")
    arn, count = policy.get("deadLetterTargetArn"), policy.get("maxReceiveCount", RECEIVES_DEFAULT)
    if not isinstance(arn, str):
        raise refused("Redrive policy does not contain mandatory attribute: deadLetterTargetArn.")
    if isinstance(count, str) and count.isdecimal() and len(count) < 9:
        count = int(count)
    if type(count) is not int or not 1 <= count <= RECEIVES_MAX:
        raise refused(
            f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to {RECEIVES_MAX} both inclusive."
        )
    target = settings.queue_of(arn)
    if target is None:
        raise refused("Dead letter target does not exist.")
    return RedrivePolicy(target, count)


def check_allow_policy(value: str) -> None:
    """Refuse an allow policy that makes no sense."""
    policy = parsed(value) if value else {}
    permission, sources = policy.get("redrivePermission", "allowAll"), policy.get("sourceQueueArns")
    by_queue = permission == "byQueue"
    if permission not in PERMISSIONS or (sources is not None) != by_queue or (by_queue and not _are_sources(sources)):
        raise SqsError("InvalidAttributeValue", name="RedriveAllowPolicy")


def _are_sources(value: Any) -> bool:
    """Whether it is a list of ARNs."""
    return isinstance(value, list) and 1 <= len(value) <= SOURCES_MAX and all(isinstance(each, str) for each in value)


def allows_source(value: str | None, source_arn: str) -> bool:
    """Whether a queue takes the dead letters of another."""
    policy = parsed(value) if value else {}
    permission = policy.get("redrivePermission", "allowAll")
    return permission == "allowAll" or (permission == "byQueue" and source_arn in policy["sourceQueueArns"])
