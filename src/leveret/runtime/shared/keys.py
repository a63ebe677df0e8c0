"""Every key in Redis, all of them under "leveret/CLUSTER/", with "-" for a server that is no node.

    probe          written every second: whether Redis takes writes
    rate/WHO       hash {level, at_ms}: the bucket of a user or an address, until it would be full again
    login/HASH     number: wrong passwords and tokens by user name or address, for five minutes after the last
    answer/HASH    what became of a request with an Idempotency-Key: see runtime/shared/answers.py

Each has an end, none is needed: whatever is evicted or lost is decided by the nodes themselves. What strangers type is
hashed, for people type passwords where names belong. Each script touches one key only.
"""

import hashlib
from typing import Literal, get_args

Use = Literal["rate_limit", "login", "answer"]
"""What Redis is asked about."""
USES: tuple[Use, ...] = get_args(Use)

PROBE = "probe"
RATE = "rate/"
LOGIN = "login/"
ANSWER = "answer/"


def space(cluster: str | None) -> str:
    """What the keys of a cluster begin with."""
    return f"leveret/{cluster or '-'}/"


def hashed(*parts: bytes) -> str:
    """A name for some texts, the same for the same ones only."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
