"""Alerting as the server has it: joined with the streams of the broker, the options, and the name of the machine."""

import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from leveret.config import ServerOptions
from leveret.core.consumer_groups import ConsumerGroup
from leveret.core.errors import InvalidArgument
from leveret.observability.alerting.service import Alerting, Change
from leveret.observability.alerting.transports import Ways
from leveret.runtime.runtime import Guard
from leveret.storage.stream.recorder import StreamRecorder


class StreamReaders:
    """The consumer groups of all streams; under the lock."""

    def __init__(self, guard: Guard) -> None:
        """Of a broker that has streams."""
        self._guard = guard

    def groups(self) -> list[ConsumerGroup]:
        """Every group."""
        return list(self._guard.streams.groups)

    def lag(self, group: ConsumerGroup) -> tuple[str, str, int] | None:
        """How far a group is behind; None when its stream is gone."""
        home = self._guard.core.topology.vhosts.get(group.vhost)
        stream: Any = None if home is None else home.queues.get(group.stream)
        if stream is None or not isinstance(stream.recorder, StreamRecorder):
            return None
        return group.vhost, group.stream, sum(group.lag(stream.recorder).values())


def alerting_of(
    options: ServerOptions,
    guard: Guard,
    shards: Callable[[], Sequence[Guard]] | None = None,
    change: Change | None = None,
) -> Alerting:
    """Alerting with what its options say; the last two are those of a node."""

    def trusted() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=options.alerts_ca)

    try:
        trusted()
    except OSError as error:
        raise InvalidArgument(f"alerts_ca cannot be used: {error.strerror or error}") from None
    ways = Ways(socket.gethostname(), options.alerts_plain_remote, trusted)
    return Alerting(guard, StreamReaders, ways, options.data, shards=shards, change=change)
