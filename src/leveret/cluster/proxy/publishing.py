"""A publish on a node: checked and routed here, sent to the shards of its queues, which route it again among theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core.properties import content
from leveret.protocols.amqp.codec import encode
from leveret.protocols.amqp.methods import BasicPublish
from leveret.protocols.amqp.publishing import Publish
from leveret.protocols.amqp.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.cluster.proxy.channel import ProxyChannel


class ProxyPublish(Publish):
    """One message."""

    def __init__(
        self,
        channel: ProxyChannel,
        exchange: str,
        routing_key: str,
        mandatory: bool,
        immediate: bool,
        wire: bytes,
        header_len: int,
    ) -> None:
        if immediate:
            raise ProtocolError(Reply.NOT_IMPLEMENTED, "immediate=true")
        super().__init__(channel, exchange, routing_key, mandatory, wire, header_len)
        self._proxy = channel

    def send(self, number: int) -> None:
        """Hand it to the shards of its queues; `number` is that of its confirm, 0: none."""
        node, vhost = self._proxy.proxy.node, self._proxy.vhost
        shard_ids = list(
            dict.fromkeys(node.shard_id_of(vhost, queue.name) for queue in self._queues if not queue.deleted)
        )
        if self._sent_as_reply():
            shard_ids = []
        elif not shard_ids and self.mandatory:
            self._return()
        elif not shard_ids:
            self._proxy.dropped += 1
        mandatory = (
            self.mandatory and len(shard_ids) == 1
        )  # one of several shards must not send back what another one has
        method = encode(BasicPublish(self.exchange, self.routing_key, mandatory, False))
        self._proxy.forward(shard_ids, method, *self._forwarded(), number)

    def _forwarded(self) -> tuple[bytes, int]:
        """Properties and body as the shards get them: as they came, or with a name to reply to."""
        if not self._is_changed:
            return self.content, self._header_len
        return content(self._properties, self.content[self._header_len :])
