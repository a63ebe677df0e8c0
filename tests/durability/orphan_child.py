"""A process that dies when a large body is stored and its message is not yet published."""

import os
import signal
import sys

import leveret
from leveret.runtime.large_bodies import LargeBodies
from tests.durability.children import say

put = LargeBodies.put


def put_and_die(self: LargeBodies, data: bytes | memoryview, now_ms: int) -> bytes:
    """Store a body; it is the last act of this process."""
    put(self, data, now_ms)
    say("stored")
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def main(path: str) -> None:
    """Send one large body, then another one."""
    orders = leveret.open(path, spare_bytes=0, disk_free_min_bytes=0).queue("orders")
    say("sent", orders.send(b"x" * 300_000))
    LargeBodies.put = put_and_die  # type: ignore[method-assign]
    orders.send(b"y" * 300_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
