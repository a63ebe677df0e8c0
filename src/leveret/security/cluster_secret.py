"""The secret that the nodes of a cluster share, and the keys that are derived from it: one for each purpose.

    master = scrypt(secret, salt: "leveret cluster" and the name of the cluster)     once, when the server starts
    key    = HMAC-SHA256(master, purpose)

MACs made with such a key leave the node: in the handshake between nodes and in cookies of the console. A MAC over known
values allows its reader to test guesses of the secret offline. scrypt makes each guess cost 32 MiB and a tenth of a
second, and a secret of at least 32 bytes, if it is random, leaves nothing to guess.

While a secret is replaced, nodes have two: keys of the current one come first, those of the previous one second.
"""

import hmac
from functools import lru_cache

from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.security.passwords import Cost

SECRET_BYTES_MIN = 32
SECRET_BYTES_MAX = 1_024
DISTINCT_MIN = 8  # different bytes: a random secret has more, and "0000..." is not one
HOW = "make one by `openssl rand -hex 32` and give the same to every node"
SALT = b"leveret cluster\0"
COST = Cost(n=32_768, r=8, p=1)

PEERS = b"handshake between nodes"
CONSOLE = b"sessions of the console"


def check_secrets(options: ServerOptions) -> None:
    """Raise InvalidArgument if a secret of the options can be guessed, or both are the same."""
    _check("cluster_secret", options.cluster_secret)
    if options.cluster_secret_previous:
        _check("cluster_secret_previous", options.cluster_secret_previous)
        if options.cluster_secret_previous == options.cluster_secret:
            raise InvalidArgument("cluster_secret_previous is the same as cluster_secret: leave it out")


def _check(option: str, secret: str) -> None:
    size = len(secret.encode())
    if not SECRET_BYTES_MIN <= size <= SECRET_BYTES_MAX:
        raise InvalidArgument(
            f"{option} has {size} bytes; it must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}: {HOW}"
        )
    if len(set(secret.encode())) < DISTINCT_MIN:
        raise InvalidArgument(f"{option} consists of fewer than {DISTINCT_MIN} different characters: {HOW}")


def cluster_keys(options: ServerOptions, purpose: bytes) -> tuple[bytes, ...]:
    """The keys for a purpose: of the current secret, then of the previous one if there is one."""
    given = (options.cluster_secret, options.cluster_secret_previous)
    return keys_of(tuple(secret for secret in given if secret), options.cluster or "", purpose)


def keys_of(secrets: tuple[str, ...], cluster: str, purpose: bytes) -> tuple[bytes, ...]:
    """The keys of some secrets for a purpose."""
    return tuple(hmac.digest(_master(secret, cluster), purpose, "sha256") for secret in secrets)


@lru_cache(maxsize=4)  # two secrets; both purposes need the same result of scrypt
def _master(secret: str, cluster: str) -> bytes:
    return COST.digest(SALT + cluster.encode(), secret.encode())
