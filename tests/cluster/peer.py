"""A node for tests of links: it has them, and nothing to say."""

import asyncio
from collections.abc import Callable
from typing import Any

from leveret.cluster.rpc.link import LinkStream, PeerLink

CLUSTER_SECRET = "between us: a secret for tests that is long enough"
KEYS: tuple[bytes, ...] = (b"a key of 32 bytes, only for tests",)


class Peer:
    """One end; whoever opens a conversation with it, or asks it for something, is wrong here."""

    cluster = "shop"
    keys = KEYS

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_up = asyncio.Event()
        self.is_down = asyncio.Event()

    def up(self, link: PeerLink) -> None:
        self.is_up.set()

    def down(self, link: PeerLink) -> None:
        self.is_down.set()

    def opened(self, link: PeerLink, number: int, request: dict[str, Any]) -> LinkStream:
        raise AssertionError(f"nobody opens {request} here")

    def asked(self, link: PeerLink, request: bytes, answer: Callable[[bytes], None]) -> None:
        raise AssertionError(f"nobody asks for {request!r} here")
