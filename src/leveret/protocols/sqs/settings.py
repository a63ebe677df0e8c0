"""What an operator decides about the port for SQS, and the region that a request is for.

When the queues of regions are apart, a signed request names its region in the scope of its credential, which is a part
of what was signed. An unsigned one names it in the server that it asks (`sqs.REGION.example.org` or
`REGION.queue.example.org`). Any other is for the default one.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, replace

from leveret.core.errors import InvalidArgument
from leveret.protocols.http.request import Request
from leveret.protocols.sqs.errors import SqsError

_ACCOUNT = re.compile(r"[0-9]{12}")
_REGION = re.compile(r"[a-z0-9-]{1,32}")
REGIONS_MAX = 100
FORWARDED = b"x-leveret-sqs-region"
"""Names the region in a request that a node forwards, because signatures stay with the node."""
REGION_CHARS_MAX = 32
_SLASH = rb"(?:/|%2[Ff])"
_SCOPE = re.compile(rb"Credential=[^/,\s&%]+" + _SLASH + rb"[0-9]{8}" + _SLASH + rb"([\w-]+)" + _SLASH)
_HOST = re.compile(r"sqs\.([a-z0-9-]{1,32})\.|([a-z0-9-]{1,32})\.queue\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Names that appear in URLs and ARNs, and what is checked."""

    account: str = "000000000000"
    region: str = "us-east-1"
    vhost: str = "/"
    regions: str | None = None
    """Regions whose queues are apart, by commas; None: all requests see the same queues, whatever their region."""
    auth: bool = True
    """Whether requests have to be signed by an access key of a user."""
    guards: bool = True
    """Whether a queue is purged once a minute at most, and made again a minute after its deletion at the earliest."""
    in_flight_max: int = 120_000
    """Messages of a queue that are received and not deleted."""

    def __post_init__(self) -> None:
        if not _ACCOUNT.fullmatch(self.account):
            raise InvalidArgument(f"sqs_account has twelve digits, unlike {self.account!r}")
        if not _REGION.fullmatch(self.region):
            raise InvalidArgument(f"sqs_region has letters, digits and hyphens, unlike {self.region!r}")
        others = self.other_regions
        for region in others:
            if not _REGION.fullmatch(region):
                raise InvalidArgument(f"sqs_regions has names like us-east-1, by commas, and {region[:100]!r} is none")
        if len(others) > REGIONS_MAX:
            raise InvalidArgument(f"sqs_regions has {len(others)} names; at most {REGIONS_MAX}")
        if self.vhost in others:
            raise InvalidArgument(
                f"sqs_regions has {self.vhost!r}, which is the virtual host of region {self.region!r} by sqs_vhost: two"
                " regions cannot have the same one; change sqs_vhost"
            )

    @property
    def other_regions(self) -> tuple[str, ...]:
        named = dict.fromkeys(each.strip() for each in (self.regions or "").split(","))
        return tuple(each for each in named if each and each != self.region)

    def in_region(self, region: str) -> Settings:
        """The same for another region: its queues are those of the virtual host that has its name."""
        return replace(self, region=region, vhost=region, regions=None)

    def arn(self, queue: str) -> str:
        return f"arn:aws:sqs:{self.region}:{self.account}:{queue}"

    def user_arn(self, user: str) -> str:
        return f"arn:aws:iam::{self.account}:user/{user}"

    def queue_of(self, arn: str) -> str | None:
        start = self.arn("")
        return arn[len(start) :] if arn.startswith(start) and len(arn) > len(start) else None


class WrongRegion(SqsError):
    """A credential for a region that the server does not have."""

    def __init__(self, region: str) -> None:
        """Refuse as AWS does; the option says which regions there are."""
        super().__init__(
            "SignatureDoesNotMatch",
            f"Credential should be scoped to a valid region, not '{region[:REGION_CHARS_MAX]}'.",
        )


def region_of(request: Request, regions: Container[str], default: str) -> str:
    """The region of a request; one that is signed may name any, of which the caller refuses those it does not have."""
    signed = request.headers.get(b"authorization")
    found = _SCOPE.search(request.raw_query if signed is None else signed)
    if found is not None:
        return found[1].decode("ascii", "replace")
    host = _HOST.match(request.header(b"host").lower())
    named = "" if host is None else host[1] or host[2]
    return named if named in regions else default
