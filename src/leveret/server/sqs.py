"""The port for SQS as a part of the server process."""

import socket

from leveret.config import ServerOptions
from leveret.observability.logs import Log
from leveret.protocols.http.limits import Budget, HttpLimits
from leveret.protocols.http.origins import parse_origins, refuse_pages
from leveret.protocols.http.request import Request
from leveret.protocols.http.server import HttpServer
from leveret.protocols.net.admission import ConnectionBudget
from leveret.protocols.net.proxy_protocol import Proxies
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.service import Service
from leveret.protocols.sqs.settings import Settings
from leveret.security.tls import ServerTls
from leveret.server.addresses import hosts_of

BODY_BYTES_MAX = 8 << 20  # a form with ten messages of together 1 MiB, each byte percent-encoded, and the rest

LOG = Log("sqs")


def settings_of(options: ServerOptions) -> Settings:
    """What the options say about the port."""
    return Settings(
        account=options.sqs_account,
        region=options.sqs_region,
        vhost=options.sqs_vhost,
        regions=options.sqs_regions,
        auth=options.sqs_auth == "on",
        guards=options.sqs_guards,
    )


class SqsServer:
    """Listeners, and what their requests share."""

    def __init__(
        self,
        options: ServerOptions,
        account: Account,
        service: Service,
        admission: ConnectionBudget,
        budget: Budget | None = None,
    ) -> None:
        """Nothing is listened on yet; `budget` is shared with HTTP."""
        if not account.settings.auth and options.sqs_port is not None:
            LOG.warning("signatures not checked", advice="sqs_auth is off: every client may do everything")
        self._account = account
        self._hosts = hosts_of(options)
        self._origins = parse_origins(options.http_origins)
        service.check_sender = self._check_sender
        limits = HttpLimits(
            body_bytes_max=BODY_BYTES_MAX, handshake_s=options.handshake_timeout_s, body_s_max=options.http_body_s
        )
        clock = account.runtime.clock
        self._http = HttpServer(service, limits, admission, clock, service.refuse, budget=budget, admits=True)

    def _check_sender(self, request: Request) -> None:
        self._hosts.check(request)
        refuse_pages(request, self._origins)

    def listen(self, bound: socket.socket, tls: ServerTls | None = None, proxies: Proxies | None = None) -> None:
        """Accept connections; by TLS if it is given, from load balancers if these are given."""
        self._http.listen(bound, tls, proxies)

    def set_alarm(self, reason: str | None) -> None:
        """Refuse sends for a reason, or take them again."""
        self._account.set_alarm(reason)

    def stop_listening(self) -> None:
        """Accept no more."""
        self._http.stop_listening()

    async def drain(self, timeout_s: float) -> int:
        """Let requests at hand be answered; give how many connections did not end in time."""
        self._account.close()
        self._account.async_broker.close()
        return await self._http.drain(timeout_s)
