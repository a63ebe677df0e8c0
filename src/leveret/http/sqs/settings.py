"""What an operator decides about the port for SQS."""

from dataclasses import dataclass


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
