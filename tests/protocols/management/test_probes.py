"""Where a key would go, asked over HTTP: by whom, and how much of it."""

import json
from urllib.parse import quote

import pytest

from leveret.protocols.management.exchanges import HEADERS_MAX
from tests.protocols.management.scene import VHOST, Api
from tests.server_process import ServerProcess

EXCHANGE = f"/exchanges/{VHOST}/probed"


@pytest.fixture
def probed(api: Api) -> str:
    """An exchange with a binding that a key and one that nothing matches."""
    api.put(EXCHANGE, {"type": "topic", "durable": True})
    api.put(f"/queues/{VHOST}/probed", {"durable": True})
    for key in ("a.#", "b"):
        api.post(f"/bindings/{VHOST}/e/probed/q/probed", {"routing_key": key})
    return f"{EXCHANGE}/probe"


def test_the_queue_and_the_binding_are_told_and_nothing_is_published(api: Api, probed: str) -> None:
    told = api.get(f"{probed}?routing_key=a.b")
    assert (told["queues"], told["queue_count"], told["complete"]) == (["probed"], 1, True)
    assert [row["routing_key"] for row in told["bindings"]] == ["a.#"]
    assert api.get(f"/queues/{VHOST}/probed")["messages"] == 0


def test_the_default_exchange_tells_the_name_as_the_binding(api: Api, probed: str) -> None:
    told = api.get(f"/exchanges/{VHOST}/amq.default/probe?routing_key=probed")
    assert [row["destination"] for row in told["bindings"]] == ["probed"]


@pytest.mark.parametrize(
    "query",
    [
        f"routing_key={'k' * 256}",
        "headers=%5B1%5D",
        "headers=%7B",
        f"headers={quote(json.dumps(dict.fromkeys(map(str, range(HEADERS_MAX + 1)), 1)))}",
    ],
    ids=["long key", "a list", "no JSON", "many headers"],
)
def test_what_cannot_be_is_refused(api: Api, probed: str, query: str) -> None:
    assert api.call("GET", f"{probed}?{query}").status == 400


def test_who_may_not_enter_the_virtual_host_is_refused(api: Api, probed: str, server: ServerProcess) -> None:
    api.put("/users/outsider", {"password": "outsider", "tags": "management"})
    outsider = Api(server.ports["http"], "outsider", "outsider")
    assert outsider.call("GET", f"{probed}?routing_key=a").status == 401
