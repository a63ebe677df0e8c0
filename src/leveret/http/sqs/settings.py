"""What an operator decides about the port for SQS."""

import re
from dataclasses import dataclass

from leveret.core.errors import InvalidArgument

_ACCOUNT = re.compile(r"[0-9]{12}")
_REGION = re.compile(r"[a-z0-9-]{1,32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Names that appear in URLs and ARNs, and what is checked."""

    account: str = "000000000000"
    region: str = "us-east-1"
    vhost: str = "/"
    auth: bool = True
    """Whether requests have to be signed by an access key of a user."""
    guards: bool = True
    """Whether a queue is purged once a minute at most, and made again a minute after its deletion at the earliest."""
    in_flight_max: int = 120_000
    """Messages of a queue that are received and not deleted."""

    def __post_init__(self) -> None:
        """Refuse names that no ARN could have in it."""
        if not _ACCOUNT.fullmatch(self.account):
            raise InvalidArgument(f"sqs_account has twelve digits, unlike {self.account!r}")
        if not _REGION.fullmatch(self.region):
            raise InvalidArgument(f"sqs_region has letters, digits and hyphens, unlike {self.region!r}")

    def arn(self, queue: str) -> str:
        """The name of a queue in all of AWS."""
        return f"arn:aws:sqs:{self.region}:{self.account}:{queue}"

    def user_arn(self, user: str) -> str:
        """The name of a user."""
        return f"arn:aws:iam::{self.account}:user/{user}"

    def queue_of(self, arn: str) -> str | None:
        """The queue that an ARN of this account names."""
        start = self.arn("")
        return arn[len(start) :] if arn.startswith(start) and len(arn) > len(start) else None
