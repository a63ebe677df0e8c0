"""Alerting as the server has it: joined with the streams of the broker, the options, and the name of the machine."""

import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from leveret.config import ServerOptions
from leveret.core.consumer_groups import ConsumerGroup
from leveret.core.errors import InvalidArgument
from leveret.observability.alerting.service import Alerting, Change
from leveret.observability.alerting.transports import Transports
from leveret.runtime.runtime import Runtime
from leveret.storage.stream.recorder import StreamRecorder


class StreamReaders:
    """The consumer groups of all streams; under the lock."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def groups(self) -> list[ConsumerGroup]:
        """Every group."""
        return list(self._runtime.streams.groups)

    def lag(self, group: ConsumerGroup) -> tuple[str, str, int] | None:
        """How far a group is behind; None when its stream is gone."""
        virtual_host = self._runtime.core.topology.vhosts.get(group.vhost)
        stream: Any = None if virtual_host is None else virtual_host.queues.get(group.stream)
        if stream is None or not isinstance(stream.recorder, StreamRecorder):
            return None
        return group.vhost, group.stream, sum(group.lag(stream.recorder).values())


def alerting_of(
    options: ServerOptions,
    runtime: Runtime,
    shards: Callable[[], Sequence[Runtime]] | None = None,
    change: Change | None = None,
) -> Alerting:
    """Alerting with what its options say; the last two are those of a node."""

    def trusted() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=options.alerts_ca)

    try:
        trusted()
    except OSError as error:
        raise InvalidArgument(f"alerts_ca cannot be used: {error.strerror or error}") from None
    transports = Transports(socket.gethostname(), options.alerts_plain_remote, trusted)
    return Alerting(runtime, StreamReaders, transports, options.data, shards=shards, change=change)
