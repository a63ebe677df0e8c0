"""Clients of one node in shards of another, and direct replies: the same as in one process, with a link between.

proxy: RemoteSession ---- link ---- RemoteListener: proxied client: shard
shard: RemoteReplies ---- link ---- hand_over: client      as in one process, one that cannot be handed over is lost

reply: head (JSON): reply (the name that it is sent to), header_len | line feed | content header and body
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from leveret.cluster.proxy.connection import ProxyCaller
from leveret.cluster.proxy.proxied import ProxiedClient
from leveret.cluster.rpc.link import DOWN
from leveret.core.errors import InvalidArgument, NotFound
from leveret.protocols.amqp.connection import AmqpPeer
from leveret.security.identity import Identity
from leveret.wire.frames import FrameWriter

if TYPE_CHECKING:
    from leveret.cluster.proxy.shard_connection import ShardConnection
    from leveret.cluster.rpc.link import PeerLink
    from leveret.cluster.shards.shard import Shard
    from leveret.protocols.amqp.hub import Hub
    from leveret.protocols.amqp.session import FrameSession
    from leveret.security.users import Users

QUESTION = b'{"version": 0}'  # which every node knows


class RemoteSession:
    """A way from a proxy to a shard of another node."""

    def __init__(self, link: PeerLink, shard_connection: ShardConnection, caller: ProxyCaller) -> None:
        """Open it; what is to be said waits until the other node has let the client in, as it may not have the shard.

        Whatever it answers to a question that is asked next: by then it has refused the client, or has not.
        """
        self._shard_connection = shard_connection
        self._is_in = False
        self._is_over = False
        self._is_paused = False
        shard_connection.held(True)
        self.heard = shard_connection.received
        number = link.open({"shard": shard_connection.shard_id, **told(caller)}, self)
        # What the proxy says goes straight to the link.
        self.send, self.pause = partial(link.send, number), partial(link.pause, number)
        self.close = partial(link.end, number)
        link.ask(QUESTION, self._answered)

    # From the link

    def _answered(self, answer: bytes | None) -> None:
        """The other node has let the client in, if it has not said the opposite; None: the link is down."""
        if answer is not None and not self._is_over:
            self._is_in = True
            self._shard_connection.held(self._is_paused)

    def paused(self, paused: bool) -> None:
        self._is_paused = paused
        self._shard_connection.held(paused or not self._is_in)

    def ended(self, reason: str) -> None:
        self._is_over = True
        if self._is_in:
            self._shard_connection.lost(reason)
        else:
            self._shard_connection.turned_away()


class RemoteListener:
    """The other end: a proxied client in a shard of this node, whose client is elsewhere."""

    def __init__(self, link: PeerLink, number: int, shard: Shard, caller: ProxyCaller) -> None:
        self._link = link
        self._number = number
        self._shard = shard
        self._proxied = ProxiedClient(shard, caller, self)
        self.heard, self.paused = self._proxied.send, self._proxied.pause
        shard.proxied_clients.add(self)

    # From the link

    def ended(self, reason: str) -> None:
        self._shard.proxied_clients.discard(self)
        if reason == DOWN:
            self._proxied.cut_off()
        else:
            self._proxied.close()

    # From the proxied client

    def written(self, shard: FrameSession) -> None:
        """The link takes them as bytes: see `received`."""

    def received(self, data: bytes) -> None:
        """The shard says something; which messages it delivers comes before them."""
        writer = FrameWriter()
        for number, payload in self._proxied.connection.names():
            writer.method(number, payload)
        self._link.send(self._number, writer.take() + data)

    def held(self, held: bool) -> None:
        self._link.pause(self._number, held)

    def lost(self, reason: str) -> None:
        self._shard.proxied_clients.discard(self)
        self._link.end(self._number, reason)

    def leave(self, reason: str) -> None:
        """This node has the shard no more."""
        self.ended(reason)
        self._link.end(self._number, reason)


def told(caller: ProxyCaller) -> dict[str, Any]:
    """A caller as another node is told of it."""
    peer = caller.peer
    return {
        "identity": caller.identity.to_list(),
        "vhost": caller.vhost,
        "peer": [peer.host, peer.port, peer.tls, peer.certificate_name],
        "local": caller.local,
        "node": caller.node,
        "name": caller.client_properties.get("connection_name"),
        "capabilities": caller.client_properties.get("capabilities", {}),
    }


def caller_of(request: dict[str, Any], users: Users) -> ProxyCaller:
    """The reverse; raises what another node should not have said."""
    try:
        properties = {"connection_name": request["name"], "capabilities": dict(request["capabilities"])}
        host, port = request["local"]
        came = (str(host), int(port)), str(request["node"])
        identity = Identity.from_list(request["identity"])
        if identity.local:
            users.get(identity.user)  # refused if this node knows already that the user was deleted
        return ProxyCaller(AmqpPeer(*request["peer"]), identity, str(request["vhost"]), properties, *came)
    except NotFound:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"no caller: {error}") from None


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
