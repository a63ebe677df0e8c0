"""Nodes of one process that serve REST and SQS as well, and clients of them."""

import json
import socket
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple, cast

import boto3
from botocore.config import Config

from leveret.cluster.forwarding.handler import MakeApis
from leveret.config import ServerOptions
from leveret.core.broker import Broker
from leveret.observability.audit import Audit
from leveret.protocols.net.admission import ConnectionBudget
from leveret.server.authentication import authentication_of
from leveret.server.clustered import NodeEdges
from leveret.server.web import Shared, SqsServer, Web
from tests.cluster.cluster import Cluster, OneNode
from tests.cluster.peer import CLUSTER_SECRET
from tests.waiting import PATIENCE_S

KEY, SECRET = "AKIAEXAMPLEEXAMPLE", "secret/with+signs"


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    json: Any


class WebNode(OneNode):
    """A node with ports for HTTP and SQS."""

    def __init__(self, name: str, cluster: Cluster, make_apis: MakeApis) -> None:
        super().__init__(name, cluster, make_apis)
        options = self.options = ServerOptions(sqs_guards=False, cluster="test", cluster_secret=CLUSTER_SECRET)
        access, clock = self.proxies.access, self.proxies.broker.runtime.clock
        edges = self.edges = NodeEdges(options, self.proxies.broker.runtime, access, self.node.decide)
        edges.join(self.node)
        self.make_apis = edges.make_apis
        self.audit = self.proxies.server.hub.audit = Audit(clock)
        shared, admission = Shared(options, clock), ConnectionBudget(1_000, 1_000, 1_000)
        authentication = authentication_of(options, access, shared.failures("token"))
        api = edges.api(self.node, self.audit, shared.idempotency)
        self.web = Web(options, edges.async_broker, api, access, admission, self.audit, clock, shared, authentication)
        self.web.stale = self.node.stale_clients.wait
        self.sqs = SqsServer(options, edges.account, edges.service(self.node, shared.throttle, self.audit), admission)
        self.token = ""

    async def start(self) -> None:
        await super().start()
        access = self.proxies.access
        scopes = ["*:*", "manage"]
        runtime = self.proxies.broker.runtime
        self.token = await self.node.decide(
            lambda core: access.api_keys.add("guest", scopes, runtime.clock.now_ms())[1]
        )
        if access.access_keys.find(KEY) is None:
            await self.node.decide(lambda core: access.add_key("guest", KEY, SECRET))
        http, sqs = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        self.http_port, self.sqs_port = http.getsockname()[1], sqs.getsockname()[1]
        self.web.listen(http)
        self.sqs.listen(sqs)

    async def stop(self) -> None:
        self.web.stop_listening()
        self.sqs.stop_listening()
        await self.web.drain(0.1)
        await self.sqs.drain(0.1)
        for shard_id in list(self.shards):
            self.node.forsake(shard_id)
        await super().stop()


class WebCluster(Cluster):
    """Some of them."""

    def __init__(self, *names: str, member: type[WebNode] = WebNode) -> None:
        super().__init__(*names, member=member)

    def at(self, name: str) -> WebNode:
        return cast(WebNode, self.members[name])

    def sqs(self, name: str) -> Any:
        """A client of boto3."""
        return self.sqs_as(name, KEY, SECRET)

    def sqs_as(self, name: str, key: str, secret: str) -> Any:
        """One that signs by this key."""
        return boto3.client(
            "sqs",
            endpoint_url=f"http://127.0.0.1:{self.at(name).sqs_port}",
            region_name="us-east-1",
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            config=Config(retries={"max_attempts": 0}),
        )

    def add_reader(self, user: str, key: str, secret: str) -> None:
        """A user who may only read, and his key."""
        member = self.at("b")
        access = member.proxies.access

        def add(core: Broker) -> None:
            access.add_user(user, "")
            access.set_permission(user, "/", "", "", ".*")
            access.add_key(user, key, secret)

        self.run(member.node.decide(add))

    def open(self, name: str, line: str, body: Any = None, token: str = "", **headers: str) -> HTTPResponse:
        """Send a request by REST; the answer is still to be read, and its connection with it."""
        method, path = line.split(" ", 1)
        node = self.at(name)
        sent = {"Authorization": f"Bearer {token or node.token}"}
        sent |= {header.replace("_", "-"): value for header, value in headers.items()}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = HTTPConnection("127.0.0.1", node.http_port, timeout=PATIENCE_S)
        connection.request(method, path, data, {**sent, "Connection": "close"})
        return connection.getresponse()

    def ask(self, name: str, line: str, body: Any = None, **options: Any) -> Answer:
        """The whole answer to a request."""
        with self.open(name, line, body, **options) as answer:
            text = answer.read()
            found = {header.lower(): value for header, value in answer.getheaders()}
            return Answer(answer.status, found, json.loads(text) if "json" in found.get("content-type", "") else text)

    def ok(self, name: str, line: str, body: Any = None, **options: Any) -> Any:
        """What a request gave that succeeds."""
        answer = self.ask(name, line, body, **options)
        assert answer.status < 300, answer
        return answer.json

    def has(self, queue: str, count: int) -> bool:
        """Whether so many messages are ready in a queue."""
        return bool(self.ok("a", f"GET /queues/{queue}")["ready"] == count)
