"""Real nodes that get another secret one after the other, as the runbook says: links, messages and logins go on."""

import json
import re
from functools import partial
from http.client import HTTPConnection
from typing import Any

from tests.cluster.processes import Nodes
from tests.protocols.management.scene import Api
from tests.waiting import PATIENCE_S, wait_until

OLD, NEW = "the secret of yesterday, long enough", "and that of tomorrow, which is long, too"
NAMES = ("a", "b", "c")


class Browser:
    """A login to the console that is used at every node."""

    def __init__(self, nodes: Nodes, name: str) -> None:
        self._nodes = nodes
        login = json.dumps({"user": "guest", "password": "guest"})
        told, cookie = self._ask(name, "POST", "/console/session", login)
        self._token, self._cookie = told["token"], cookie

    def is_known(self, name: str) -> bool:
        """Whether a node takes the cookie, and the token of the page with it."""
        who, _ = self._ask(name, "GET", "/console/session")
        if who["user"] is None:
            return False
        made, _ = self._ask(name, "PUT", "/api/queues/%2F/by-browser", '{"durable": true}')
        return made is None

    def renew(self, name: str) -> None:
        """Load the page again."""
        told, self._cookie = self._ask(name, "GET", "/console/session")
        self._token = told["token"]

    def _ask(self, name: str, method: str, path: str, body: str | None = None) -> tuple[Any, str]:
        connection = HTTPConnection("127.0.0.1", self._nodes.http_port(name), timeout=PATIENCE_S)
        headers = {"Host": "localhost", "Content-Type": "application/json", "X-CSRF-Token": "-"}
        if hasattr(self, "_cookie"):
            headers |= {"Cookie": self._cookie, "X-CSRF-Token": self._token}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return json.loads(text) if text else None, (answer.getheader("Set-Cookie") or "").split(";")[0]


def restart(nodes: Nodes, name: str, **environ: str) -> None:
    """Start a node again with other secrets; returns when it is linked to all others."""
    assert nodes.stop(name) == 0
    plain = {"LEVERET_CLUSTER_PLAIN": "true"}
    nodes.environ = plain | {f"LEVERET_{option.upper()}": value for option, value in environ.items()}
    nodes.start(name)


def pass_on(nodes: Nodes, number: int) -> None:
    """Publish at one node and take at each other one."""
    for name in nodes.names:
        api = Api(nodes.http_port(name))
        text = {"payload": str(number), "payload_encoding": "string", "properties": {}, "routing_key": "orders"}
        assert api.post("/exchanges/%2F/amq.default/publish", text)["routed"]
        taken = api.post("/queues/%2F/orders/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
        assert [each["payload"] for each in taken] == [str(number)]


def is_refused(nodes: Nodes, name: str, other: str) -> bool:
    """Whether a node has logged that another one, or itself, does not know the secret."""
    refused = rf"link refused.*\b{other}\b.*does not prove that it knows the cluster_secret"
    return re.search(refused, nodes.log(name)) is not None


def test_a_secret_is_replaced_while_the_cluster_serves(nodes: Nodes) -> None:
    nodes.environ["LEVERET_CLUSTER_SECRET"] = OLD
    nodes.start(*NAMES)
    Api(nodes.http_port("a")).put("/queues/%2F/orders", {"durable": True})
    early = Browser(nodes, "a")
    for number, name in enumerate(NAMES):
        restart(nodes, name, cluster_secret=NEW, cluster_secret_previous=OLD)
        late = Browser(nodes, name)
        for each in NAMES:
            assert early.is_known(each)
            assert late.is_known(each)
        pass_on(nodes, number)
    early.renew("b")
    for number, name in enumerate(NAMES, len(NAMES)):
        restart(nodes, name, cluster_secret=NEW)
        for each in NAMES:
            assert early.is_known(each)
        pass_on(nodes, number)

    # A node that was forgotten has the old one only: it is refused, and both ends say why.
    nodes.stop("c")
    nodes.environ["LEVERET_CLUSTER_SECRET"] = OLD
    nodes.start("c", linked=False)
    for name, other in (("c", "a"), ("a", "c")):
        wait_until(partial(is_refused, nodes, name, other))
