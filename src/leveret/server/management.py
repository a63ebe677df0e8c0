"""What the management API works on, joined: broker, AMQP's clients, definitions, alerting, facts of the process."""

import os
import resource
import shutil
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from leveret.config import ServerOptions
from leveret.core.consumer_groups import ConsumerGroup
from leveret.core.errors import InvalidArgument
from leveret.observability.alerting.service import Alerting, Change
from leveret.observability.alerting.transports import Transports
from leveret.operations.context import OperationContext
from leveret.protocols.amqp.description import Description
from leveret.protocols.amqp.server import AmqpServer
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.management.context import AdminContext, Listening, Process
from leveret.protocols.management.rates import Rates
from leveret.protocols.management.reports import Reports
from leveret.runtime.runtime import Runtime
from leveret.server import memory
from leveret.server.addresses import WITH_TLS, Sockets
from leveret.server.tls_files import TlsFiles
from leveret.storage.stream.recorder import StreamRecorder
from leveret.version import version


def make_admin_context(
    options: ServerOptions,
    async_broker: AsyncBroker,
    operations: OperationContext,
    amqp: AmqpServer,
    sockets: Sockets,
    tls_files: TlsFiles,
    node: str | None = None,
) -> AdminContext:
    """Everything that the endpoints use; `node` is what this one is called in its cluster."""
    node = node or f"leveret@{socket.gethostname()}"
    clients = Description(amqp.hub, node)
    process = Process(
        node=node,
        version=version(),
        data=os.path.abspath(options.data),
        pid=os.getpid(),
        started_ms=async_broker.runtime.clock.now_ms(),
        memory_bytes_max=memory.limit_bytes(options.memory_limit, memory.available_bytes()),
        free_bytes_min=options.disk_alarm_bytes,
        files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        memory_bytes=memory.resident_bytes,
        free_bytes=lambda: shutil.disk_usage(options.data).free,
        alarm=lambda: amqp.hub.alarm,
        listening=lambda: listening(sockets),
        certificate_ends_ms=tls_files.certificate_ends_ms,
        lists_end_ms=tls_files.lists_end_ms,
        budgets=amqp.admission.siblings,
        cluster=options.cluster or "leveret",
    )
    return AdminContext(
        async_broker=async_broker,
        operations=operations,
        clients=clients,
        process=process,
        rates=Rates(async_broker.runtime, clients.churn),
        reports=Reports(options.reports_dir),
    )


def listening(sockets: Sockets) -> list[Listening]:
    """The addresses that clients can come to."""
    found = []
    for protocol, bound in sockets.items():
        for each in bound:
            host, port = each.getsockname()[:2]
            found.append(Listening(protocol, host, port, protocol in WITH_TLS))
    return found


class StreamReaders:
    """The consumer groups of all streams; under the lock."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def groups(self) -> list[ConsumerGroup]:
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
