"""Direct replies to clients of other nodes. As in one process, one that cannot be handed over is lost.

head (JSON): reply (the name that it is sent to), header_len | line feed | content header and body
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from leveret.core.errors import InvalidArgument

if TYPE_CHECKING:
    from leveret.cluster.rpc.link import PeerLink
    from leveret.protocols.amqp.hub import Hub


class RemoteReplies:
    """Who waits for replies on another node."""

    def __init__(self, link: PeerLink) -> None:
        self._link = link

    def deliver(self, exchange: str, routing_key: str, content: bytes, header_len: int) -> bool:
        """Send a reply; False when it is lost, because the other node does not read what it is sent."""
        if self._link.is_slow:
            return False
        head = json.dumps({"reply": routing_key, "header_len": header_len}).encode()
        self._link.ask(head + b"\n" + content, lambda answer: None)
        return True


def hand_over(hub: Hub, head: dict[str, Any], content: bytes) -> bool:
    """Give a reply that came from another node to the client that waits for it; False: none does."""
    name, header_len = head["reply"], head.get("header_len")
    if not isinstance(name, str) or not isinstance(header_len, int) or not 0 <= header_len <= len(content):
        raise InvalidArgument("no reply: another node says what this one does not know, is it of another version?")
    with hub.locked():
        taker = hub.replies.find(name)
        return taker is not None and taker.deliver("", name, content, header_len)
