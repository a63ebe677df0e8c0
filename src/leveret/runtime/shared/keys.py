"""Where Redis is, and every key in it, all of them under "leveret/CLUSTER/", with "-" for a server that is no node.

    probe          written every second: whether Redis takes writes
    rate/WHO       hash {level, at_ms}: the bucket of a user or an address, until it would be full again
    login/HASH     number: wrong passwords and tokens by user name or address, for five minutes after the last
    answer/HASH    what became of a request with an Idempotency-Key: see runtime/shared/answers.py

Each has an end, none is needed: whatever is evicted or lost is decided by the nodes themselves. What strangers type is
hashed, for people type passwords where names belong. Each script touches one key only.

Redis is at redis://[user][:password]@host[:port][/database], or rediss:// with TLS.
"""

import hashlib
from typing import Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from leveret.core.errors import InvalidArgument

Use = Literal["rate_limit", "login", "answer"]
"""What Redis is asked about."""
USES: tuple[Use, ...] = get_args(Use)

PROBE = "probe"
RATE = "rate/"
LOGIN = "login/"
ANSWER = "answer/"

SCHEMES = ("redis", "rediss")
CHECKS = {"ssl_cert_reqs": "required", "ssl_check_hostname": "true"}
"""Settings in the query that have one value only: a certificate and its name are always checked."""


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


def check_redis_url(url: str) -> str:
    """The URL, if it is one; what is wrong with it is said without repeating it, for it may have a password."""
    try:
        parts = urlsplit(url)
        database = parts.path.strip("/") or "0"
        fine = parts.scheme in SCHEMES and parts.hostname and parts.port != 0 and database.isdecimal()
    except ValueError:
        fine = False
    if not fine:
        raise InvalidArgument("redis is a URL such as redis://host:6379/0, or rediss:// for TLS: correct it")
    for name, value in parse_qsl(parts.query):
        if CHECKS.get(name, value.lower()) != value.lower():
            raise InvalidArgument(
                f"redis is a URL with {name}={value}, by which any server could pass for Redis: leave it out, and name "
                "the file with the authority of its certificate (ssl_ca_certs)"
            )
    return url


def shown_redis_url(url: str) -> str:
    """The URL as it may be logged: without user, password and settings."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path}"
