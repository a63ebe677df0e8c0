"""The region that a request is for, when the queues of regions are apart.

A signed request names it in the scope of its credential, which is a part of what was signed. An unsigned one names it
in the server that it asks (`sqs.REGION.example.org` or `REGION.queue.example.org`). Any other is for the default one.
"""

import re
from collections.abc import Container

from leveret.protocols.http.request import Request
from leveret.protocols.sqs.errors import SqsError

FORWARDED = b"x-leveret-sqs-region"
"""Names the region in a request that a node forwards, because signatures stay with the node."""
REGION_CHARS_MAX = 32
_SLASH = rb"(?:/|%2[Ff])"
_SCOPE = re.compile(rb"Credential=[^/,\s&%]+" + _SLASH + rb"[0-9]{8}" + _SLASH + rb"([\w-]+)" + _SLASH)
_HOST = re.compile(r"sqs\.([a-z0-9-]{1,32})\.|([a-z0-9-]{1,32})\.queue\.")


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
