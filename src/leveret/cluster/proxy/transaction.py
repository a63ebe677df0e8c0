"""A transaction on a node: collected here, done by the shards. Each shard does its part; no crash undoes another's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.protocols.amqp.replies import ProtocolError, Reply
from leveret.protocols.amqp.transaction import Transaction

if TYPE_CHECKING:
    from leveret.cluster.proxy.channel import ProxyChannel


class ProxyTransaction(Transaction):
    """The open transaction of a channel."""

    def __init__(self, channel: ProxyChannel) -> None:
        super().__init__(channel)
        self._proxy = channel

    def settle(self, tag: int, multiple: bool, how: int) -> None:
        """Collect a settlement; what is unknown, or collected already, is refused at once."""
        tags = self._proxy.tags
        if not (tag == 0 and multiple) and (tag not in tags or tag in self._settlements):
            raise ProtocolError(Reply.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
        for each in tags.through(tag) if multiple else [tag]:
            self._settlements.setdefault(each, how)
        self._check_room()

    def commit(self) -> None:
        """Send everything to the shards, and begin anew."""
        publishes, settlements = self._publishes, self._settlements
        for publish in publishes:
            publish.check_sizes()
        self.clear()
        for number, publish in enumerate(publishes, 1):
            publish.send(number)
        for tag, how in settlements.items():
            if tag in self._proxy.tags:
                self._proxy.settle_now(tag, False, how)
