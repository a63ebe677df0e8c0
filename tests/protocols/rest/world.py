"""A broker behind HTTP in a thread of its own, as the server wires it, and requests to it."""

import asyncio
import json
import threading
from http.client import HTTPConnection
from types import TracebackType
from typing import Any, NamedTuple, Self

import uvloop

import leveret
from leveret.config import ServerOptions
from leveret.observability.audit import Audit
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.net.admission import ConnectionBudget
from leveret.protocols.net.listener import bind
from leveret.protocols.rest.api import RestApi
from leveret.security.access import Access
from leveret.security.passwords import Cost
from leveret.server.authentication import authentication_of
from leveret.server.web import Shared, Web, quota_of, sinks_of
from leveret.storage.journal.files.store import FileStore
from tests.waiting import PATIENCE_S

CHEAP = Cost(n=2, r=1, p=1)
VERBS = ("configure", "write", "read")


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    json: Any


class RestWorld:
    """A server for the verbs of REST; the broker in it can be used directly too."""

    def __init__(self, broker: leveret.Broker, **options: Any) -> None:
        self.broker = broker
        store = broker.runtime.store
        if isinstance(store, FileStore):
            options.setdefault("data", str(store.disk.path))
        self._options = ServerOptions(**options)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        with broker.runtime as core:
            self.access = Access(core, cost=CHEAP)
        self.audit = Audit(broker.runtime.clock)
        self.token = self.add_token("guest", ["*:*", "manage"])

    def add_token(self, user: str, scopes: list[str], **options: Any) -> str:
        """An API key of a user."""
        with self.broker.runtime as core:
            return self.access.api_keys.add(user, scopes, core.now_ms, **options)[1]

    def add_user(self, name: str, configure: str = "", write: str = "", read: str = "") -> str:
        """A user with permissions; gives a token that takes nothing away from them."""
        with self.broker.runtime:
            self.access.add_user(name, "")
            self.access.set_permission(name, "/", configure, write, read)
        return self.add_token(name, ["*:*"])

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Let the server end."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        admission = ConnectionBudget(5_000, 5_000, 5_000)
        clock = self.broker.runtime.clock
        self.shared = shared = Shared(self._options, clock)
        jobs = [asyncio.create_task(job) for job in await shared.start(self.access.users)]
        self.async_broker = async_broker = AsyncBroker(self.broker.runtime, access=self.access)
        authentication = authentication_of(self._options, self.access, shared.failures("token"))
        sinks = sinks_of(self._options, self.broker.runtime, quota_of(self._options))
        api = RestApi(async_broker, self.access, self.audit, sinks, shared.idempotency)
        web = Web(self._options, async_broker, api, self.access, admission, self.audit, clock, shared, authentication)
        bound = bind("127.0.0.1", 0)
        self.port: int = bound.getsockname()[1]
        web.listen(bound)
        self._ready.set()
        await self._stopping.wait()
        web.stop_listening()
        await web.drain(PATIENCE_S)
        for job in jobs:
            job.cancel()
        await self.shared.stop()
        await asyncio.sleep(0.01)  # uvloop closes sockets in the turns of the loop after the connection has ended

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def call(self, line: str, body: Any = None, token: str | None = None, **headers: str) -> Answer:
        """Send one request; `body` is JSON unless it is bytes."""
        method, path = line.split(" ", 1)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token != "":
            sent.setdefault("Authorization", f"Bearer {token or self.token}")
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            text = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
            is_json = "json" in found.get("content-type", "")
            return Answer(answer.status, found, json.loads(text) if is_json else text)
        finally:
            connection.close()

    def ok(self, line: str, body: Any = None, **options: Any) -> Any:
        """The same for a request that succeeds: what it gave."""
        answer = self.call(line, body, **options)
        assert answer.status < 300, answer
        return answer.json

    def take(self, queue: str, **options: Any) -> Any:
        """The one message that there is."""
        (message,) = self.ok(f"POST /queues/{queue}/dequeue", options)["messages"]
        return message
