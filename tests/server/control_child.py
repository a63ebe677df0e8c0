"""A server with nothing but its control socket; says when it listens, and runs until it is killed."""

import asyncio
import sys

import leveret
from leveret.operations.context import OperationContext
from leveret.operations.perform import durably
from leveret.security.access import Access
from leveret.server.control import ControlServer
from tests.durability.children import say


async def serve(directory: str) -> None:
    """Listen for ever."""
    with leveret.open(directory, spare_bytes=0, disk_free_min_bytes=0) as broker:
        with broker.runtime as core:
            context = OperationContext(core, Access(core, default_user=None))
        await ControlServer(durably(broker.runtime), context, directory).start()
        say("listening")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
