"""A process whose disk fails: it says what it got to do, and must not get to say more."""

import errno
import sys
import threading
from pathlib import Path

import leveret
from leveret.runtime import storage
from tests.durability.children import say
from tests.storage.journal.world import FaultyDisk


def main(path: str, call: str) -> None:
    """Send until the call fails."""
    disk = FaultyDisk(Path(path))
    vars(storage)["Disk"] = lambda where: disk
    broker = leveret.open(path, spare_bytes=0, disk_free_min_bytes=0)
    orders = broker.queue("orders")
    say("sent", orders.send("before"))
    threading.Thread(target=orders.receive, args=(2, 1_000), daemon=True).start()
    disk.failing[call] = errno.EIO
    orders.send("after")
    say("went on")


if __name__ == "__main__":
    main(*sys.argv[1:])
