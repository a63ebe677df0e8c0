"""The same as pool.py for asyncio."""

import asyncio
from collections.abc import Coroutine

from leveret.client.address import Address
from leveret.client.pool import HANGS, IDLE_MAX, AnswerLost
from leveret.client.servers import UNABLE, Request, ServerList, probe
from leveret.core.errors import Unreachable
from leveret.http_client import Answer, AsyncConnection


def _reason(error: OSError) -> str:
    """What went wrong; a time limit of asyncio says nothing itself."""
    return str(error) or "it took too long"


class AsyncLink(AsyncConnection):
    """One connection."""

    def __init__(self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.address = address

    @classmethod
    async def open(cls, address: Address, connect_s: float) -> "AsyncLink":
        """Connect."""
        try:
            async with asyncio.timeout(connect_s):
                return cls(address, *await asyncio.open_connection(address.host, address.port, ssl=address.tls))
        except (OSError, TimeoutError) as error:
            problem = f"cannot connect to {address!r} ({_reason(error)}): see whether it runs"
            raise AnswerLost(Unreachable(problem), False) from None

    async def ask(self, request: bytes, timeout_s: float) -> Answer:
        """Send a request and wait for the answer."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self.exchange(request)
        except (OSError, TimeoutError) as error:
            raise AnswerLost(Unreachable(f"no answer came ({_reason(error)}): try again"), True) from None


class AsyncPool:
    """The connections of a client, in one loop."""

    def __init__(self, servers: ServerList) -> None:
        self._servers = servers
        self._idle: list[AsyncLink] = []
        self._closed = False

    async def ask(self, request: Request, timeout_s: float, repeatable: bool = False) -> Answer:
        """Send a request by any connection; if it is `repeatable`, a server that gives no sign of life is left."""
        address, silent_s = self._servers.current, self._servers.silent_s(repeatable)
        try:
            link = self._take(address) or await AsyncLink.open(address, self._servers.connect_s)
            asked = self._ask(link, request, timeout_s)
            answer = await (asked if silent_s is None else self._watched(asked, address, silent_s))
        except AnswerLost:
            self._servers.failed(address)
            raise
        if answer.status in UNABLE:
            self._servers.failed(address)
        return answer

    async def _ask(self, link: AsyncLink, request: Request, timeout_s: float) -> Answer:
        """Send a request by a connection, which is kept if all went well."""
        try:
            answer = await link.ask(request(link.address), timeout_s)
        except BaseException:
            # Also when the task is cancelled: the answer to this request must not be taken for that to another one.
            link.abort()
            raise
        if link.reusable and not self._closed and len(self._idle) < IDLE_MAX:
            self._idle.append(link)
        else:
            await link.close()
        return answer

    async def _watched(self, asked: Coroutine[None, None, Answer], address: Address, silent_s: float) -> Answer:
        """Wait for an answer as long as the server gives signs of life."""
        asking = asyncio.ensure_future(asked)
        try:
            while not (await asyncio.wait([asking], timeout=silent_s))[0]:
                if not await self._lives(address) and not asking.done():
                    raise AnswerLost(Unreachable(f"no answer came ({HANGS}): try again"), True)
                silent_s *= 2
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _lives(self, address: Address) -> bool:
        """Whether a server answers anything."""
        try:
            link = await AsyncLink.open(address, self._servers.connect_s)
        except AnswerLost:
            return False
        try:
            await link.ask(probe(address), self._servers.connect_s)
        except (AnswerLost, Unreachable):
            return False
        finally:
            link.abort()
        return True

    def _take(self, address: Address) -> AsyncLink | None:
        """A connection to a server that is still open; those to others are closed."""
        while self._idle:
            link = self._idle.pop()
            if link.address is address and link.fresh:
                return link
            link.abort()
        return None

    async def close(self) -> None:
        """Close what is idle now, and everything else when its answer has come."""
        self._closed = True
        idle, self._idle = self._idle, []
        for link in idle:
            await link.close()
