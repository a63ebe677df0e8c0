"""The server process: joins broker, access, AMQP, HTTP and control, starts them, and stops them in order.

bind ports -> open the broker -> accept -> ready -> ... SIGTERM -> accept no more -> clients leave -> broker closes
"""

import asyncio
import os
import resource
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol

import uvloop

from leveret.clock import Clock
from leveret.config import ServerOptions
from leveret.core.broker import Broker as CoreBroker
from leveret.embedded.broker import Broker, open
from leveret.ingest.sinks import staged_in
from leveret.observability.audit import FILES_OF_KIND, Audit
from leveret.observability.logs import Log, start_logging, stop_logging
from leveret.operations.context import OperationContext
from leveret.operations.perform import durably
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.server import AmqpServer
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.net.admission import Admissions
from leveret.protocols.rest.api import RestApi
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.queue_actions import kept_details
from leveret.protocols.sqs.service import Service
from leveret.security.access import Access
from leveret.security.tls import CertificateNames, Certificates, ServerTls
from leveret.server import memory
from leveret.server.addresses import WITH_TLS, Sockets, address, bound_sockets, proxies_of
from leveret.server.audit_forward import forwarder_of
from leveret.server.authentication import authentication_of, oauth_of
from leveret.server.control import ControlServer, RemoteControl
from leveret.server.first_user import make_first_user
from leveret.server.management import alerting_of, make_admin_context
from leveret.server.memory import Alarms, gauges
from leveret.server.settings import broker_options
from leveret.server.tls_files import TlsFiles
from leveret.server.web import Shared, SqsServer, Web, quota_of, settings_of, sinks_of
from leveret.storage.disk import Disk
from leveret.storage.journal.store import Store
from leveret.storage.options import shown
from leveret.wire.replies import Reply


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop whose known defect is not logged as an error."""
    loop = uvloop.new_event_loop()
    loop.set_exception_handler(_handle)
    return loop


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error as asyncio does, but for one that is uvloop's and harmless."""
    if _is_cancelled_connect(context):
        LOG.debug("connection attempt cancelled", transport=context["transport"])
    else:
        loop.default_exception_handler(context)


def _is_cancelled_connect(context: dict[str, Any]) -> bool:
    """Whether this comes of a connection attempt with TLS that was cancelled, as those to etcd are at a stop.

    A defect of uvloop (seen with 0.23): `Loop.create_connection` closes the handle when it is cancelled after TCP has
    connected, and does not tell the `SSLProtocol` above it. If the handshake has ended by then, `SSLProtocol._do_read`
    is due and writes the end of the handshake to the closed handle. The connection was wanted by nothing any more; a
    transport that was closed in any other way has told its `SSLProtocol`, which then writes nothing.
    """
    error = context.get("exception")
    return (
        context.get("message") == "Fatal error on SSL protocol"
        and isinstance(error, RuntimeError)
        and str(error).endswith("; the handler is closed")
        and _frames(error) == ["SSLProtocol._do_read", "SSLProtocol._process_outgoing", "UVStream.write"]
    )


def _frames(error: BaseException) -> list[str]:
    """The functions of uvloop that an error came through, without the one that raised it."""
    names, trace = [], error.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name.removeprefix("uvloop.loop."))
        trace = trace.tb_next
    return names[:-1]


CLOSE_TEXT = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
ALARM_CHECK_S = 1.0
EXIT_SIGNALLED = 128
SPARE_FILES = 400  # of the journal, of listeners, of Python itself, and of connections that are about to be closed

LOG = Log("server")
MICROSECONDS = 1_000_000
TELL_S = 10.0  # for a supervisor with much to read: it would wait in vain for what it is told once
DEFINITIONS_LOG = Log("definitions")


def serve(options: ServerOptions) -> int:
    """Serve until a signal comes; gives the exit code. Raises what keeps it from starting."""
    handler = start_logging(options.log_level, options.log_format)
    try:
        tls = tls_of(options)
        with (
            bound_sockets(options) as sockets,
            opened(options) as broker,
            audit_of(options, broker.runtime.clock) as audit,
        ):
            server = ServerProcess(options, broker, tls, sockets, audit)
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(server.run())
        LOG.info("stopped")
    finally:
        stop_logging(handler)
    return 0


def tls_of(options: ServerOptions) -> ServerTls | None:
    """TLS for clients, if there is a certificate."""
    if options.tls_cert is None:
        return None
    client = options.tls_client_ca, options.tls_verify_client, options.tls_crl
    names = CertificateNames(options.tls_cert_login_from, options.tls_cert_login_san_type)
    return ServerTls(Certificates(options.tls_cert, options.tls_key, *client), names)


@contextmanager
def opened(options: ServerOptions) -> Iterator[Broker]:
    """The broker of the data directory or of a database; at the end everything is durable, with a checkpoint."""
    LOG.info("opening", data=options.data, **({} if options.store is None else {"store": shown(options.store)}))
    with held(options):
        broker = open(options.store or options.data, **broker_options(options))
        try:
            report = broker.recovery
            if report is not None:
                LOG.info("recovered", **asdict(report))
            yield broker
        finally:
            broker.close()


@contextmanager
def audit_of(options: ServerOptions, clock: Clock) -> Iterator[Audit]:
    """The audit log in the data directory, which this process holds; at the end everything is written."""
    forwarder = forwarder_of(options)
    audit = Audit(clock, options.data, bytes_max=options.audit_bytes_max // FILES_OF_KIND)
    if forwarder is not None:
        audit.forward(forwarder)
    audit.start()
    try:
        yield audit
    finally:
        audit.close()


@contextmanager
def held(options: ServerOptions) -> Iterator[None]:
    """The data directory, for this process alone; a broker on files sees to that itself."""
    if options.store is None:
        yield
        return
    disk = Disk(options.data)
    disk.lock()
    try:
        yield
    finally:
        disk.unlock()


def limits_of(options: ServerOptions) -> AmqpLimits:
    """What one connection may ask for."""
    return AmqpLimits(
        frame_max=options.frame_bytes_max,
        channel_max=options.channels_max,
        heartbeat_s=options.heartbeat_s,
        handshake_ms=int(options.handshake_timeout_s * 1_000),
        consumer_timeout_ms=options.consumer_timeout_s * 1_000,
        message_bytes_max=options.message_bytes_max,
        blob_bytes=options.blob_bytes,
        passwords_in_clear=options.plain_auth_remote,
    )


def raise_file_limit(admissions: Admissions) -> None:
    """Ask for as many open files as there may be connections; where the machine allows less, have fewer connections.

    A journal that cannot open its next file ends the process: connections never take the last descriptors.
    """
    wanted = admissions.files_max + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < wanted:
            sockets_max = allowed - min(SPARE_FILES, allowed // 2)
            admissions.share(sockets_max)
            if sockets_max < max(each.files_max for each in admissions):
                advice = "raise LimitNOFILE, or lower connections_max"
                LOG.warning("few open files", allowed=allowed, wanted=wanted, advice=advice)


def noticed(task: asyncio.Task[None]) -> asyncio.Task[None]:
    """Say so when something ends that was to go on as long as the server does."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            LOG.error("job failed", task.exception())

    task.add_done_callback(ended)
    return task


def tell_trouble(store: Store | None, before: str | None) -> str | None:
    """Log when the store does not take what is sent, and when it does again; give what is the matter."""
    trouble = None if store is None else store.trouble
    if trouble is not None and trouble != before:
        LOG.error("store does not answer", reason=trouble, advice="nothing is confirmed meanwhile: see to PostgreSQL")
    elif trouble is None and before is not None:
        LOG.info("store answers again")
    return trouble


class Alarmed(Protocol):
    """The part that stops publishers while something is short."""

    def set_alarm(self, reason: str | None) -> None:
        """Refuse sends for a reason, or take them again."""


class ServerProcess:
    """Everything that runs while clients are served."""

    def __init__(
        self, options: ServerOptions, broker: Broker, tls: ServerTls | None, sockets: Sockets, audit: Audit
    ) -> None:
        self._options = options
        self._broker = broker
        self._tls = tls
        self._tls_files = TlsFiles(tls, broker.runtime.clock)
        self._sockets = sockets
        self._audit = audit
        self._supervisor = Supervisor()
        self._stopping = asyncio.Event()
        self._signal = ""

    async def run(self) -> None:
        options, runtime = self._options, self._broker.runtime
        admissions = Admissions.of(options)
        raise_file_limit(admissions)
        with runtime as core:
            access = Access(core, None)
            warn_of_patterns(core, access)
        access.password_chars_min = options.password_chars_min
        await make_first_user(options, self._sockets, access, durably(runtime))
        shared = Shared(options, runtime.clock)
        oauth = oauth_of(options)
        authentication = authentication_of(options, access, shared.failures("token"), oauth)
        amqp = AmqpServer(runtime, access, limits_of(options), admissions.amqp, authentication=authentication)
        amqp.hub.audit = audit = self._audit
        alerting = alerting_of(options, runtime)
        operations = OperationContext(
            core,
            access,
            partial(self._facts, amqp),
            alerting,
            audit=audit,
            runtime=runtime,
            staged_keys=partial(staged_in, options.data),
            check_details=kept_details,
        )
        sharing = await shared.start(access.users)
        async_broker = AsyncBroker(runtime, access=access)
        api = RestApi(async_broker, access, audit, sinks_of(options, runtime, quota_of(options)), shared.idempotency)
        web = Web(
            options, async_broker, api, access, admissions.http, audit, runtime.clock, shared, authentication, oauth
        )
        admin_context = make_admin_context(options, async_broker, operations, amqp, self._sockets, self._tls_files)
        web.manage(admin_context)
        web.operate(RemoteControl(durably(runtime), operations, audit))
        control = ControlServer(durably(runtime), operations, options.data, audit)
        account = Account(runtime, access, AsyncBroker(runtime, access=access), settings_of(options))
        service = Service(account, shared.throttle)
        service.audit = audit
        sqs = SqsServer(options, account, service, admissions.sqs, shared.budget)
        self._handle_signals()
        self._listen(amqp, web, sqs)
        await control.start()
        alerts = alerting.run(options.alerts_every_s)
        background = await self._serve(
            (amqp, web, sqs), self._watch(amqp, sqs), admin_context.rates.run(), alerts, *sharing
        )
        await self._send_away(amqp, web, sqs)
        await control.stop()
        for task in background:
            task.cancel()
        await shared.stop()

    async def _serve(
        self, edges: tuple[AmqpServer, Web, SqsServer], *jobs: Coroutine[Any, Any, None]
    ) -> list[asyncio.Task[None]]:
        """Serve clients until the server is to stop, and accept no more; gives what still runs in the background."""
        self._announce()
        lasting = (*jobs, self._stay_alive(), self._tls_files.run(), memory.return_free_memory())
        background = [noticed(asyncio.create_task(each)) for each in lasting]
        await self._stopping.wait()
        self._stop_listening(*edges)
        return background

    def _listen(self, amqp: AmqpServer, web: Web, sqs: SqsServer) -> None:
        proxies = proxies_of(self._options)
        for name, sockets in self._sockets.items():
            edge = web if name.startswith("http") else sqs if name.startswith("sqs") else amqp
            for bound in sockets:
                edge.listen(bound, self._tls if name in WITH_TLS else None, proxies.get(name))

    def _addresses(self) -> dict[str, str]:
        """Where clients can come to, by protocol."""
        return {name: ",".join(address(each) for each in sockets) for name, sockets in self._sockets.items()}

    def _facts(self, amqp: AmqpServer) -> dict[str, Any]:
        """What `leveret status` tells about the process."""
        connections = sum(each.connections for each in amqp.admission.siblings)
        usage = {"connections": connections, "memory_bytes": memory.resident_bytes(), "alarm": amqp.hub.alarm}
        tracer = self._broker.runtime.tracer
        spans = {} if tracer is None else {f"spans_{name}": count for name, count in tracer.counts.items()}
        return {"pid": os.getpid(), **self._addresses(), **usage, **spans}

    def _announce(self) -> None:
        LOG.announce("ready", **self._addresses(), data=self._options.data, pid=os.getpid())
        self._supervisor.ready()

    # Signals

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._interrupt, number)
        loop.add_signal_handler(signal.SIGHUP, self._tls_files.reload)

    def _interrupt(self, number: int) -> None:
        """The first signal stops in order, the second at once: nothing that was confirmed is lost by that."""
        if self._stopping.is_set():
            sys.stderr.flush()
            os._exit(EXIT_SIGNALLED + number)
        self._signal = signal.Signals(number).name
        self._stopping.set()

    # In the background

    async def _watch(self, *edges: Alarmed) -> None:
        def tell(reason: str | None) -> None:
            for edge in edges:
                edge.set_alarm(reason)

        options = self._options
        limit = memory.limit_bytes(options.memory_limit, memory.available_bytes())
        alarms = Alarms(gauges(options.data, self._is_full), limit, options.disk_alarm_bytes, tell)
        trouble: str | None = None
        while True:
            alarms.check()
            trouble = tell_trouble(self._broker.runtime.store, trouble)
            await asyncio.sleep(ALARM_CHECK_S)

    def _is_full(self) -> bool:
        """Whether the journal has no room for publishes."""
        return self._broker.runtime.core.journal.full

    async def _stay_alive(self) -> None:
        """Tell the supervisor that the loop turns, if it wants to know."""
        while self._supervisor.watchdog_s:
            self._supervisor.alive()
            await asyncio.sleep(self._supervisor.watchdog_s)

    def _stop_listening(self, *edges: AmqpServer | Web | SqsServer) -> None:
        for edge in edges:
            edge.stop_listening()
        self._supervisor.stopping()
        LOG.info("stopping", signal=self._signal)

    async def _send_away(self, amqp: AmqpServer, web: Web, sqs: SqsServer) -> None:
        drain_s = self._options.drain_s
        closed = await asyncio.gather(
            amqp.drain(Reply.CONNECTION_FORCED, CLOSE_TEXT, drain_s), web.drain(drain_s), sqs.drain(drain_s)
        )
        if any(closed):
            LOG.warning("clients did not close in time", connections=sum(closed))


class Supervisor:
    """The supervisor that started the server and wants to know its state; mostly there is none."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        own = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = environ.get("WATCHDOG_USEC", "") if own else ""
        self.watchdog_s = int(microseconds) / MICROSECONDS / 2 if microseconds.isdecimal() else 0.0
        """How often `alive` has to be called, with a margin; 0: never."""

    def ready(self) -> None:
        self._tell("READY=1", TELL_S)

    def alive(self) -> None:
        if self.watchdog_s:
            self._tell("WATCHDOG=1", 0.0)  # there is a next one: the loop need not wait

    def stopping(self) -> None:
        self._tell("STOPPING=1", TELL_S)

    def _tell(self, state: str, wait_s: float) -> None:
        """Send a datagram; wait so long for room for it."""
        if not self._address:
            return
        # A name that begins with @ is not a file.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(wait_s)
            try:
                sender.connect(address)  # or no wake-up would come when there is room
                sender.send(state.encode())
            except OSError:
                return  # the supervisor does not listen any more, or read: no reason to stop


def warn_of_patterns(core: CoreBroker, access: Access) -> None:
    """Log each policy and permission whose pattern matches nothing because it cannot be used; under the lock."""
    for virtual_host in core.topology.vhosts.values():
        for policy in (*virtual_host.policies.values(), *virtual_host.operator_policies.values()):
            if policy.problem is not None:
                advice = "it applies to nothing: set it again with another pattern"
                DEFINITIONS_LOG.warning(
                    "policy not used", vhost=virtual_host.name, policy=policy.name, reason=policy.problem, advice=advice
                )
    for permission in (*access.permissions, *access.permissions.topics()):
        if permission.problem is not None:
            owner = {"user": permission.user, "vhost": permission.vhost}
            advice = "it allows nothing: set it again with another pattern"
            DEFINITIONS_LOG.warning("permission not used", **owner, reason=permission.problem, advice=advice)
