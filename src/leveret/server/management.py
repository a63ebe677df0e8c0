"""What the management API works on, joined: the broker, AMQP's clients, files of definitions, facts of the process."""

import os
import resource
import shutil
import socket
from collections.abc import Iterable
from typing import Any

from leveret.config import ServerOptions
from leveret.observability.alerting.service import Alerting
from leveret.observability.audit import Audit
from leveret.operations import definitions
from leveret.operations.context import OperationContext
from leveret.protocols.amqp.description import Description
from leveret.protocols.amqp.server import AmqpServer
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.reports import Reports
from leveret.protocols.management.context import AdminContext, Listening, Process, Row
from leveret.protocols.management.rates import Rates
from leveret.server import memory
from leveret.server.addresses import WITH_TLS, Sockets
from leveret.server.tls_files import TlsFiles
from leveret.version import version


class VerbDefinitionFiles:
    """Files of definitions, by the verbs that the command line has too."""

    def __init__(self, operations: OperationContext) -> None:
        self._operations = operations

    def give_out(self, section: str) -> Iterable[Row]:
        """The objects of a section."""
        return definitions.SECTIONS[section][0](self._operations)

    def take_in(self, section: str, objects: list[Any], vhost: str) -> list[str]:
        """Add objects; why some were left out."""
        taken = definitions.take_in(self._operations, section, objects, vhost)
        return [f"{row['object']}: {row['reason']}" for row in taken["skipped"]]


def make_admin_context(
    options: ServerOptions,
    async_broker: AsyncBroker,
    operations: OperationContext,
    alerts: Alerting,
    amqp: AmqpServer,
    sockets: Sockets,
    tls_files: TlsFiles,
    audit: Audit,
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
        access=operations.access,
        clients=clients,
        definitions=VerbDefinitionFiles(operations),
        process=process,
        rates=Rates(async_broker.runtime, clients.churn),
        audit=audit,
        reports=Reports(options.reports_dir),
        alerts=alerts,
    )


def listening(sockets: Sockets) -> list[Listening]:
    """The addresses that clients can come to."""
    found = []
    for protocol, bound in sockets.items():
        for each in bound:
            host, port = each.getsockname()[:2]
            found.append(Listening(protocol, host, port, protocol in WITH_TLS))
    return found
