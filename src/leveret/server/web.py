"""HTTP and SQS as the server has them: one router for all behind the port of HTTP, who asks, how often; that of SQS."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from os.path import isdir, join
from typing import TYPE_CHECKING, Any

from leveret.clock import Clock
from leveret.config import MIB, ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.ingest.publishing import OtherShards
from leveret.ingest.quota import Quota, StagingLimits
from leveret.ingest.sinks import Sinks
from leveret.observability.audit import Audit
from leveret.observability.logs import Log
from leveret.protocols.console import handler as console
from leveret.protocols.console.handler import ConsoleLogin, OAuthLogin
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.auth import Auth
from leveret.protocols.http.idempotency import Idempotency
from leveret.protocols.http.limits import Budget, HttpLimits, Throttle
from leveret.protocols.http.origins import cross_origin
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.http.router import Router
from leveret.protocols.http.server import HEALTH_PREFIX, Handler, Health, HttpServer, is_health_check
from leveret.protocols.http.sessions import SessionFile, Sessions
from leveret.protocols.management import handler as management
from leveret.protocols.management.context import AdminContext
from leveret.protocols.metrics import handler as metrics
from leveret.protocols.metrics.handler import Exporter
from leveret.protocols.net.admission import ConnectionBudget
from leveret.protocols.rest.api import OPEN_PATHS, RestApi
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.service import Service
from leveret.protocols.sqs.settings import Settings
from leveret.runtime.runtime import Runtime
from leveret.runtime.shared.answers import Answers
from leveret.runtime.shared.limits import RateLimit
from leveret.security.access import Access
from leveret.security.authentication import Authentication
from leveret.security.cluster_secret import CONSOLE, cluster_keys
from leveret.security.logins import Failures
from leveret.security.users import Users
from leveret.server.addresses import hosts_of
from leveret.server.authentication import OAuth
from leveret.server.control import PREFIX, RemoteControl

if TYPE_CHECKING:
    from leveret.runtime.shared.redis import Redis

BASE64_GROWTH = 4 / 3

Job = Coroutine[Any, Any, None]


class Shared:
    """Rate limits, failed logins and answers, with Redis or without; in the running loop."""

    def __init__(self, options: ServerOptions, clock: Clock) -> None:
        self.redis = redis_of(options)
        self.idempotency = Idempotency(Answers(clock, self.redis))
        self._jobs: list[Callable[[], Job]] = []
        self.throttle = Throttle(self._rate_limit(options, clock), clock)
        # A body of the largest size fits, whatever the option says.
        self.budget = Budget(max(options.http_memory_bytes, 2 * body_bytes_max(options)), options.http_unread_bytes)

    async def start(self, users: Users) -> list[Job]:
        """See whether Redis is there, and go on either way; gives what is to run as long as the server does."""
        if self.redis is not None:
            await self.redis.probe()
            users.count_failures(self.failures("name"), self.failures("origin"))
            self._jobs.append(self.redis.watch)
        return [job() for job in self._jobs]

    async def stop(self) -> None:
        """Share nothing any more."""
        if self.redis is not None:
            await self.redis.close()

    def told(self) -> dict[str, str | None]:
        """For operators: whether limits, failed logins and answers are shared with other nodes, and why not."""
        if self.redis is None:
            return {"state": "none", "trouble": None}
        return {"state": "shared" if self.redis.up else "local", "trouble": self.redis.trouble}

    def degraded(self) -> list[str]:
        """What is not as it should be, and works nevertheless."""
        away = self.redis is not None and not self.redis.up
        return ["redis does not answer: limits are kept by each node alone"] if away else []

    def failures(self, kind: str) -> Failures:
        if self.redis is None:
            return Failures()
        from leveret.runtime.shared.limits import SharedFailures

        return SharedFailures(kind, self.redis)

    def _rate_limit(self, options: ServerOptions, clock: Clock) -> RateLimit | None:
        """How often one may ask; None: without limit."""
        rate, burst = options.http_rate_max, options.http_burst_max
        if not rate:
            return None
        if self.redis is None:
            return RateLimit(rate, burst)
        from leveret.runtime.shared.limits import SharedRateLimit

        limit = SharedRateLimit(rate, burst, self.redis, clock)
        self._jobs.append(limit.run)
        return limit


def body_bytes_max(options: ServerOptions) -> int:
    """The largest body of HTTP: a message of the largest size fits, in base64 with something around it."""
    return int(options.message_bytes_max * BASE64_GROWTH) + MIB


def redis_of(options: ServerOptions) -> Redis | None:
    """The Redis of the options, which is not asked yet."""
    if options.redis is None:
        return None
    try:
        from leveret.runtime.shared.redis import Redis
    except ModuleNotFoundError:
        raise InvalidArgument("redis needs a library: pip install 'leveret[redis]'") from None
    return Redis(options.redis, options.redis_password, options.cluster)


BODY_BYTES_MAX = 8 << 20  # a form with ten messages of together 1 MiB, each byte percent-encoded, and the rest

SESSIONS = "console-sessions"

LOG = Log("sqs")


class Web:
    """The HTTP server and what it needs; in the running loop."""

    def __init__(
        self,
        options: ServerOptions,
        async_broker: AsyncBroker,
        api: RestApi,
        access: Access,
        admission: ConnectionBudget,
        audit: Audit,
        clock: Clock,
        shared: Shared,
        authentication: Authentication,
        oauth: OAuth | None = None,
    ) -> None:
        """Nothing is listened on yet; `api` is what is not asked of others."""
        self.async_broker = async_broker
        self._api = api
        has_file = not options.cluster and isdir(options.data)  # a broker in memory has no directory
        self._auth = Auth(
            access,
            clock,
            authentication,
            secrets_in_clear=options.plain_auth_remote,
            certificates=options.http_cert_login,
            session_keys=cluster_keys(options, CONSOLE) if options.cluster else (),
            session_file=SessionFile(join(options.data, SESSIONS), clock.now_ms()) if has_file else None,
        )
        self._auth.audit = audit
        self.login = ConsoleLogin(self._auth, access, audit, oauth_login_of(options, oauth))
        self._shared = shared
        self._throttle = throttle = shared.throttle
        self._metrics_public = options.metrics_public
        self.stale: Callable[[], Awaitable[None] | None] | None = None
        """What has to be waited for before anything is answered by what users and queues there are."""
        self._owners: dict[bytes, Handler] = dict.fromkeys(console.PATHS, throttle.wrap(console.Console(self.login)))
        """What answers the requests for a path, or for all that begin with it up to a slash."""
        self._rest = self._auth.wrap(throttle.wrap(Router(api.routes())), OPEN_PATHS)
        self._hosts = hosts_of(options)
        self.server = HttpServer(
            cross_origin(self._answer, problem, self._hosts.origins),
            limits_of(options),
            admission,
            clock,
            is_health=is_health_check,
            budget=shared.budget,
            admits=True,
        )
        self.listen = self.server.listen

    def _answer(self, request: Request) -> Answered:
        """Answer by the API that the path belongs to, when nothing is stale."""
        path = request.raw_path
        answer = self._owners.get(path[: path.find(b"/", 1) + 1] or path, self._rest)
        if b"origin" in request.headers:
            self._hosts.check_page(request)
        if answer is not self._owners.get(HEALTH_PREFIX):
            self._hosts.check(request)  # balancers ask after the health by any name, and learn nothing else
            stale = None if self.stale is None or answer is self._owners.get(metrics.PATHS[0]) else self.stale()
            if stale is not None:
                return self._answer_after(stale, answer, request)
        return answer(request)

    async def _answer_after(self, stale: Awaitable[None], handler: Handler, request: Request) -> Answer:
        await stale
        answer = handler(request)
        return await answer if isinstance(answer, Awaitable) else answer

    def manage(self, context: AdminContext) -> None:
        """Answer the management API, scrapes and questions after the health too."""
        throttle = self._throttle
        exporter = Exporter(context, lambda: throttle.refused, self._shared.redis)
        scrapes = metrics.Metrics(exporter, self._auth, throttle.wrap, public=self._metrics_public)
        health = Health(
            self.async_broker.runtime, lambda: self.server.draining, context.process.alarm, self._shared.degraded
        )
        self._owners |= dict.fromkeys(management.PATHS, management.Management(context, self._auth, throttle.wrap))
        self._owners |= {**dict.fromkeys(metrics.PATHS, scrapes), HEALTH_PREFIX: health.answer}

    @property
    def sessions(self) -> Sessions:
        return self._auth.sessions

    def operate(self, control: RemoteControl) -> None:
        self._owners[PREFIX.encode()] = self._auth.wrap(self._throttle.wrap(Router(control.routes())))

    def stop_listening(self) -> None:
        """Accept no more, and let no request wait for messages any longer."""
        self.server.stop_listening()
        self.async_broker.close()
        self._api.close()

    async def drain(self, timeout_s: float) -> int:
        """Answer what was asked; give how many connections did not end in time."""
        return await self.server.drain(timeout_s)


def limits_of(options: ServerOptions) -> HttpLimits:
    """What one client may ask for."""
    return HttpLimits(
        body_bytes_max=body_bytes_max(options), handshake_s=options.handshake_timeout_s, body_s_max=options.http_body_s
    )


def quota_of(options: ServerOptions) -> Quota:
    """How much clients may stage at a server, or at a node for all of its shards."""
    return Quota(
        StagingLimits(
            bytes_max=options.staging_bytes_max,
            sink_bytes_max=options.staging_sink_bytes_max,
            user_bytes_max=options.staging_user_bytes_max,
            pieces_max=options.staging_pieces_max,
            user_pieces_max=options.staging_user_pieces_max,
            age_ms=int(options.staging_age_s * 1000),
        )
    )


def sinks_of(
    options: ServerOptions, runtime: Runtime, quota: Quota, other_shards: OtherShards | None = None
) -> Sinks | None:
    """The sinks of a broker that has a directory, or of a shard; what they had begun goes on."""
    if runtime.store is None:
        return None
    sinks = Sinks(runtime, options.data, quota, options.sink_batches_max, other_shards)
    sinks.start()
    return sinks


def oauth_login_of(options: ServerOptions, oauth: OAuth | None) -> OAuthLogin | None:
    """How people log in to the console at the provider of tokens, if this server is registered there."""
    if oauth is None or oauth.login is None:
        return None
    return OAuthLogin(oauth.login, options.oauth_label, options.oauth_redirect_url)


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
        service.check_sender = hosts_of(options).check_sender
        limits = HttpLimits(
            body_bytes_max=BODY_BYTES_MAX, handshake_s=options.handshake_timeout_s, body_s_max=options.http_body_s
        )
        clock = account.runtime.clock
        self._http = HttpServer(service, limits, admission, clock, service.refuse, budget=budget, admits=True)
        self.listen, self.stop_listening = self._http.listen, self._http.stop_listening
        self.set_alarm = account.set_alarm

    async def drain(self, timeout_s: float) -> int:
        self._account.close()
        self._account.async_broker.close()
        return await self._http.drain(timeout_s)
