"""What is written to one client: small answers of one turn of the loop together, and how much of it is unread."""

import asyncio
from collections.abc import Callable
from typing import Any

from leveret.protocols.http.budget import MemoryShare

OUTPUT_BYTES_HIGH = 262_144  # of answers that the client has not read, before no more are made
SMALL_BYTES_MAX = 65_536  # of answers that may wait for the end of the turn


class Output:
    """The bytes on their way to a client."""

    def __init__(self, call_soon: Callable[[Callable[[], object]], Any], share: MemoryShare) -> None:
        self._call_soon = call_soon
        self._share = share
        self._transport: asyncio.Transport | None = None
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._paused = False

    def open(self, transport: asyncio.Transport) -> None:
        """Write to a transport."""
        self._transport = transport
        transport.set_write_buffer_limits(high=OUTPUT_BYTES_HIGH)

    def write_soon(self, data: bytes) -> None:
        """Write at the end of this turn of the loop: a client that reads many answers is woken once, not for each."""
        self._unwritten_bytes += len(data)
        if self._unwritten_bytes > SMALL_BYTES_MAX:
            self.write(data)
            return
        if not self._unwritten:
            self._call_soon(self.flush)
        self._unwritten.append(data)

    def flush(self) -> None:
        """Write what was to be written soon."""
        if self._unwritten:
            data = b"".join(self._unwritten)
            self._unwritten.clear()
            self.write(data)

    def write(self, data: bytes) -> None:
        """Write now, after what was to be written soon."""
        self.flush()
        self._unwritten_bytes = 0
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
            if self._paused:
                self._count()

    def pause(self) -> None:
        """The client does not read."""
        self._paused = True
        self._count()

    def resume(self) -> None:
        """The client reads again."""
        self._paused = False
        self._share.set_unread(0)

    def close(self) -> None:
        """Write nothing any more."""
        self._unwritten.clear()
        self._paused = False
        self._transport = None

    def _count(self) -> None:
        """Tell how much is unread; of all connections together that may be too much, and close this one."""
        assert self._transport is not None, "something was written to it"
        self._share.set_unread(self._transport.get_write_buffer_size())
