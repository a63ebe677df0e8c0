"""An operation of the API: the one row from which it is routed, checked, audited and described."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from leveret.core.broker import Broker as Core
from leveret.core.errors import QueueNotFound, ResourceLocked, TooMany
from leveret.ingest.sinks import Sinks
from leveret.ingest.staging import PART, PIECES_MAX
from leveret.observability.audit import Audit, kind_of
from leveret.operations.operation import Operation
from leveret.operations.registry import OPERATIONS, rule_of
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.bulk import asked_for, came_of
from leveret.protocols.http.cluster import ALONE, PLAIN, Cluster, InCluster
from leveret.protocols.http.fields import JsonField, Name, PatternText, RecordField, Text, Whole, json_body
from leveret.protocols.http.idempotency import KEY_HEADER, Idempotency
from leveret.protocols.http.problem import detail_of
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Answer, Answered, Response
from leveret.runtime.declare import VHOST
from leveret.runtime.managed import ManagedQueue
from leveret.runtime.stream import RuntimeStream
from leveret.security.access import Access
from leveret.security.authorisation import Decisions, Role, admit, allowed, authorise, check_user_id
from leveret.security.identity import Identity

SCANS_MAX = 4
REFUSED = 400
SINK_CHARS_MAX = 200
PART_CHARS_MAX = 64
BATCH_MAX = (1 << 53) - 1  # the largest whole number that JSON has in every language
ID_CHARS_MAX = 255
TOPIC = "topic"
DONE = {204: ("Done, and on the disk.", None)}
USER_ID = "userId"  # among the attributes of a message


def part_name(**options: Any) -> JsonField:
    """The name of a part of a batch, in a path or in a body."""
    return PatternText("The name of a part.", PART, "1 to 64 letters, digits, _ and -", PART_CHARS_MAX, **options)


PATH_FIELDS: dict[str, JsonField] = {
    "queue": Name("The queue."),
    "exchange": Name("The exchange."),
    "stream": Name("The stream."),
    "group": Name("The group."),
    "message_id": Text("The message_id.", ID_CHARS_MAX, 1),
    "sink": Text("The sink.", SINK_CHARS_MAX, 1),
    "part": part_name(),
    "piece": Whole("The number of the piece.", 0, PIECES_MAX - 1),
    "batch": Whole("The number of the batch.", 0, BATCH_MAX),
}
"""The parameters that paths may have: what the server checks is what the OpenAPI document says."""
VHOST_FIELD = Name("The virtual host that the names are in.", default=VHOST)

T = TypeVar("T")
R = TypeVar("R", bound=Callable[..., Any])
Run = Callable[["RestCall"], Answered]
ROLES: dict[str, Role] = {"queue": "queue", "stream": "queue", "exchange": "exchange"}
"""Names in paths, and their roles in the table of rights: a stream is a queue."""


class RestOperation(NamedTuple):
    """A method of a path. `answers` have for each status a sentence, and the schema of the body if there is one."""

    method: str
    path: str
    summary: str
    run: Run
    registered: Operation
    """Its row of the registry: the rights that it needs, where it runs, whether it is audited."""
    answers: Mapping[int, tuple[str, Mapping[str, Any] | None]]
    body: RecordField | None = None
    query: RecordField | None = None
    headers: Mapping[str, JsonField] = {}
    bulk: bool = False
    """Whether the audit log says which messages were meant, and how many there were."""
    upload: str | None = None
    """What the body is, when it is bytes and no JSON."""
    keyed: bool = False
    """Its queues remember Idempotency-Keys, durably: its answers need not be remembered."""
    cluster: InCluster = PLAIN
    """What it adds to its scope on a node of a cluster."""

    @property
    def name(self) -> str:
        return self.registered.name


def routes(operations: list[RestOperation]) -> Callable[..., Callable[[R], R]]:
    """A decorator that adds a function to a list of operations: its docstring begins with the summary."""

    def route(
        line: str, name: str, answers: Mapping[int, tuple[str, Mapping[str, Any] | None]], **options: Any
    ) -> Callable[[R], R]:
        method, path = line.split()

        def add(run: R) -> R:
            summary = (run.__doc__ or run.__name__).partition(".")[0]
            operations.append(RestOperation(method, path, summary, run, OPERATIONS[name], answers, **options))
            return run

        return add

    return route


class Scans:
    """Work that looks at a whole queue, in threads of which there are few: a bounded number at the same time."""

    def __init__(self, async_broker: AsyncBroker, at_once_max: int = SCANS_MAX) -> None:
        self._async_broker = async_broker
        self._at_once_max = at_once_max
        self._running = 0

    async def run(self, function: Callable[[], T]) -> T:
        if self._running >= self._at_once_max:
            raise TooMany(f"{self._at_once_max} requests look through queues, which is the limit: try again later")
        self._running += 1
        work = self._async_broker.in_thread(function)
        work.add_done_callback(self._done)
        # A client that goes does not end the work in the thread: it counts until it is done.
        return await asyncio.shield(work)

    def _done(self, work: asyncio.Future[Any]) -> None:
        self._running -= 1
        if not work.cancelled():
            work.exception()  # the client may have gone


@dataclass(slots=True, eq=False)
class RestCall:
    """One request as operations see it."""

    async_broker: AsyncBroker
    access: Access
    audit: Audit | None
    scans: Scans
    sinks: Sinks | None
    request: Request
    identity: Identity
    vhost: str = VHOST
    cluster: Cluster = ALONE
    body: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    """The parameters of the path, checked and converted."""

    def __post_init__(self) -> None:
        if self.request.raw_query:
            self.vhost = self.request.query.get("vhost", VHOST)

    def read_path(self) -> None:
        if self.request.raw_query:
            VHOST_FIELD.check("vhost", self.vhost)
        self.parameters = {
            name: PATH_FIELDS[name].parse(f"the {name} in the path", text)
            for name, text in self.request.parameters.items()
        }

    @property
    def owner(self) -> str:
        """The user that what the call makes belongs to."""
        return self.identity.principal

    @property
    def queue(self) -> ManagedQueue:
        queue = self.async_broker.queue(self.request.parameters["queue"], self.vhost)
        if queue.anyway.owner is not None:
            raise ResourceLocked(f"queue '{queue.name}' belongs to one connection of AMQP: use another one")
        return queue

    @property
    def exchange(self) -> str:
        return self.request.parameters["exchange"]

    @property
    def stream(self) -> RuntimeStream:
        name = self.request.parameters["stream"]
        # Without the lock, as AsyncBroker.queue: one look into a dictionary.
        found = self.async_broker.runtime.core.topology.vhost(self.vhost).queues.get(name)
        if found is None or found.recorder is None:
            raise QueueNotFound(f"no stream '{name}' in vhost '{self.vhost}': create it first")
        return RuntimeStream(self.async_broker.runtime, found)

    @property
    def names(self) -> dict[Role, str]:
        """The resources in the path, by their roles."""
        return {ROLES[name]: value for name, value in self.request.parameters.items() if name in ROLES}

    def authorise(self, operation: str, names: Mapping[Role, str], keys: Sequence[str] = ()) -> None:
        """Refuse what the rights of the caller do not allow; `keys` count where the exchange is a topic exchange."""
        if keys and self.is_topic(names.get("source") or names["exchange"]):
            authorise(self.access.permissions, self.identity, rule_of(operation), self.vhost, names, keys)
        else:
            authorise(self.access.permissions, self.identity, rule_of(operation), self.vhost, names)

    def change(self, action: Callable[[Core], object]) -> Any:
        """Do something to the core; answer when it is on the disk."""

        def changed(core: Core) -> Response:
            action(core)
            return Response(204)

        return self.async_broker.change(changed)

    def allows(self, operation: str, names: Mapping[Role, str]) -> bool:
        return allowed(self.access.permissions, self.identity, rule_of(operation), self.vhost, names)

    def check_user_id(self, *bodies: Mapping[str, Any]) -> None:
        for body in bodies:
            attributes = body.get("attributes")
            if attributes:
                check_user_id(self.identity, attributes.get(USER_ID))

    def is_topic(self, exchange: str) -> bool:
        """Whether routing keys of an exchange have permissions of their own."""
        with self.async_broker.runtime as core:
            found = core.topology.vhost(self.vhost).exchanges.get(exchange)
            return found is not None and found.type == TOPIC


class OperationRunner:
    """Performs operations of requests, which have their identity by then: see Auth.wrap."""

    def __init__(
        self,
        async_broker: AsyncBroker,
        access: Access,
        audit: Audit | None,
        sinks: Sinks | None,
        idempotency: Idempotency | None,
    ) -> None:
        """Use what the server has; without an audit another part notes what is done, and so with keys of requests."""
        self._async_broker = async_broker
        self._access = access
        self._audit = audit
        self._scans = Scans(async_broker)
        self._sinks = sinks
        self._idempotency = idempotency
        self._decisions = Decisions()

    def close(self) -> None:
        if self._sinks is not None:
            self._sinks.close()

    def run(self, operation: RestOperation, request: Request) -> Answered:
        identity = request.identity
        if identity is None:
            raise Refusal(401, "no user is logged in: send credentials")
        call = RestCall(self._async_broker, self._access, self._audit, self._scans, self._sinks, request, identity)
        if operation.registered.audited and self._audit is not None:
            return self._audited(self._audit, operation, call)
        return self.perform(operation, call)

    def perform(self, operation: RestOperation, call: RestCall) -> Answered:
        """Do what is asked for, if the caller may; what has a key that no queue remembers, once."""
        call.read_path()
        self.allow(operation, call)
        if self._idempotency is None or operation.method == "GET" or operation.keyed:
            return self.do(operation, call)
        if KEY_HEADER not in call.request.headers:
            return self.do(operation, call)
        return self._idempotency.run(call.request, partial(self.do, operation, call))

    def do(self, operation: RestOperation, call: RestCall) -> Answered:
        self.read(operation, call)
        return operation.run(call)

    def allow(self, operation: RestOperation, call: RestCall) -> None:
        names = call.names
        asked = (call.identity, operation.registered.name, call.vhost, *names.values())
        if self._decisions.has(asked, self._access.generation):
            return
        if operation.registered.rule.roles <= names.keys():
            call.authorise(operation.name, names)
        else:  # a name is in the body: the operation itself authorises
            admit(self._access.permissions, call.identity, operation.registered.rule, call.vhost)
        self._decisions.add(asked)

    def read(self, operation: RestOperation, call: RestCall) -> None:
        """Read the body and the query; refuse those that do not fit the operation."""
        request = call.request
        if operation.body is not None:
            call.body = operation.body.read("the body", json_body(request))
        query = {name: value for name, value in request.query.items() if name != "vhost"} if request.raw_query else {}
        if operation.query is not None:
            call.query = operation.query.parse_all(query)
        elif query:
            raise Refusal(400, f"{request.method} {request.path} takes no query but vhost: leave it out")

    async def _audited(self, audit: Audit, operation: RestOperation, call: RestCall) -> Answer:
        """Do something that is noted, whether it is allowed or not."""
        facts: dict[str, object] = {"path": call.request.path, "vhost": call.vhost, "peer": call.request.peer.host}
        if operation.bulk:
            facts |= asked_for(call.request)
        act = f"{operation.method} {operation.path}"
        with audit.noting(call.identity.user, act, act, kind_of(call.identity.tags), **facts) as noted:
            answer = self.perform(operation, call)
            if isinstance(answer, Awaitable):
                answer = await answer
            if isinstance(answer, Response) and answer.status >= REFUSED:
                noted.refuse(answer.status, detail_of(answer))
            elif isinstance(answer, Response) and operation.bulk:
                noted.facts = came_of(answer)
            return answer
