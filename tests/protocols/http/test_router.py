"""Which function answers."""

import pytest

from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Response
from leveret.protocols.http.router import Endpoint, Router


def named(name: str) -> Endpoint:
    """A function that tells its name and what it was called with."""

    def endpoint(request: Request) -> Response:
        return Response(200, f"{name} {dict(request.parameters)}".encode())

    return endpoint


ROUTER = Router(
    {
        ("GET", "/"): named("root"),
        ("GET", "/queues"): named("list"),
        ("GET", "/queues/{queue}"): named("get"),
        ("DELETE", "/queues/{queue}"): named("delete"),
        ("GET", "/queues/all/messages"): named("all"),
        ("POST", "/queues/{queue}/messages"): named("send"),
        ("DELETE", "/queues/{queue}/messages/{id}"): named("ack"),
    }
)


def ask(method: str, target: str) -> Response:
    answer = ROUTER(Request(method, target.encode(), {}, HttpPeer("127.0.0.1", 1)))
    assert isinstance(answer, Response)
    return answer


@pytest.mark.parametrize(
    ("method", "target", "answer"),
    [
        ("GET", "/", "root {}"),
        ("GET", "/queues?x=/y", "list {}"),
        ("GET", "/queues/a%2Fb", "get {'queue': 'a/b'}"),
        ("HEAD", "/queues/a", "get {'queue': 'a'}"),
        ("GET", "/queues/all/messages", "all {}"),
        ("GET", "/queues/all", "get {'queue': 'all'}"),
        ("DELETE", "/queues/all/messages/7", "ack {'queue': 'all', 'id': '7'}"),
        ("DELETE", "/queues/x/messages/7", "ack {'queue': 'x', 'id': '7'}"),
    ],
)
def test_the_function_of_a_path_answers(method: str, target: str, answer: str) -> None:
    assert ask(method, target).body.decode() == answer


@pytest.mark.parametrize("target", ["/nothing", "/queues/", "/queues//messages", "/queues/a/messages/1/2", "//"])
def test_a_path_that_is_not_there_is_not_found(target: str) -> None:
    with pytest.raises(Refusal, match="there is nothing at") as refused:
        ask("GET", target)
    assert refused.value.status == 404


def test_a_method_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(Refusal) as refused:
        ask("PUT", "/queues/a")
    assert (refused.value.status, refused.value.headers) == (405, (("Allow", "DELETE, GET, HEAD, OPTIONS"),))


def test_options_tells_the_methods() -> None:
    answer = ask("OPTIONS", "/queues/a/messages")
    assert (answer.status, list(answer.headers)) == (204, [("Allow", "OPTIONS, POST")])


def test_a_contradictory_table_is_an_error() -> None:
    with pytest.raises(AssertionError, match="differ"):
        Router({("GET", "/{a}"): named("a"), ("PUT", "/{b}"): named("b")})
