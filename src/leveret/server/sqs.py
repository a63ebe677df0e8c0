"""The port for SQS as a part of the server process."""

import socket

from leveret.config import ServerOptions
from leveret.embedded.broker import Broker
from leveret.http.desk import Desk
from leveret.http.limits import Limits
from leveret.http.server import Context, HttpServer
from leveret.http.sqs.account import Account
from leveret.http.sqs.service import Service
from leveret.http.sqs.settings import Settings
from leveret.http.throttle import Throttle
from leveret.net.admission import Admission
from leveret.security.access import Access
from leveret.telemetry.logs import Log

BODY_BYTES_MAX = 8 << 20  # a form with ten messages of together 1 MiB, each byte percent-encoded, and the rest

LOG = Log("sqs")


class SqsServer:
    """Listeners, and what their requests share."""

    def __init__(
        self, broker: Broker, access: Access, admission: Admission, options: ServerOptions, throttle: Throttle
    ) -> None:
        """Nothing is listened on yet."""
        settings = Settings(
            account=options.sqs_account,
            region=options.sqs_region,
            vhost=options.sqs_vhost,
            auth=options.sqs_auth == "on",
            guards=options.sqs_guards,
        )
        if not settings.auth and options.sqs_port is not None:
            LOG.warning("signatures not checked", advice="sqs_auth is off: everybody who can connect may do everything")
        self._desk = Desk(broker)
        self._account = Account(broker, access, self._desk, settings)
        service = Service(self._account, throttle)
        limits = Limits(body_bytes_max=BODY_BYTES_MAX, half_open_max=options.half_open_max)
        self._http = HttpServer(service, limits, admission, broker.guard.clock, service.refuse)

    def listen(self, bound: socket.socket, context: Context | None = None) -> None:
        """Accept connections; with a context, by TLS."""
        self._http.listen(bound, context)

    def set_alarm(self, reason: str | None) -> None:
        """Refuse sends for a reason, or take them again."""
        self._account.alarm = reason

    def stop_listening(self) -> None:
        """Accept no more."""
        self._http.stop_listening()

    async def drain(self, timeout_s: float) -> int:
        """Let requests at hand be answered; give how many connections did not end in time."""
        self._account.tasks.close()
        self._desk.close()
        return await self._http.drain(timeout_s)
