"""Links between nodes notice that the other one is gone, though nobody says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from leveret.cluster.rpc import link as links
from leveret.cluster.rpc.link import PeerLink
from tests.cluster.peer import Peer
from tests.waiting import PATIENCE_S


class Mute(PeerLink):
    """A link whose words are lost on the way once it is up."""

    def _beat(self) -> None:
        pass


@asynccontextmanager
async def linked(there: type[PeerLink]) -> AsyncIterator[Peer]:
    """A node that is linked to another one, which has a link of that kind."""
    loop = asyncio.get_running_loop()
    here = Peer("a")
    server = await loop.create_server(lambda: there(Peer("b"), None), "127.0.0.1", 0)
    _, link = await loop.create_connection(lambda: PeerLink(here, "b"), *server.sockets[0].getsockname())
    async with server:
        await asyncio.wait_for(here.is_up.wait(), PATIENCE_S)
        yield here
        link.close()


@pytest.fixture(autouse=True)
def _beats_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PING_S", 0.02)


def test_a_node_that_says_nothing_more_is_gone() -> None:
    async def main() -> None:
        async with linked(Mute) as here:
            await asyncio.wait_for(here.is_down.wait(), PATIENCE_S)

    asyncio.run(main())


def test_a_node_that_has_nothing_to_say_is_there() -> None:
    async def main() -> None:
        async with linked(PeerLink) as here:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(here.is_down.wait(), 4 * links.UNANSWERED_PINGS_MAX * links.PING_S)

    asyncio.run(main())
