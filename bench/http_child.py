"""The server of bench_http, a process of its own: its CPU time is what is measured."""

import asyncio
import resource
import sys
import tempfile
from collections.abc import Awaitable

import uvloop

import leveret
from leveret.clock import SystemClock
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.limits import HttpLimits
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import JSON, Answer, Response, json_response
from leveret.protocols.http.router import Endpoint, Router
from leveret.protocols.http.server import HttpServer
from leveret.protocols.net.admission import ConnectionBudget
from leveret.protocols.net.listener import bind
from leveret.runtime.outgoing import Outgoing

HELLO = Response(200, b'{"hello":"world"}', JSON)
NOTHING = Response(204)


def hello(request: Request) -> Response:
    return HELLO


def routes(async_broker: AsyncBroker) -> dict[tuple[str, str], Endpoint]:
    """The least that a queue over HTTP has to do: no authentication, no JSON in requests."""

    def send(request: Request) -> Answer | Awaitable[Answer]:
        queue = async_broker.queue(request.parameters["queue"])
        return async_broker.send(queue, Outgoing(request.body), lambda sent: json_response({"id": sent}, 201))

    def receive(request: Request) -> Answer | Awaitable[Answer]:
        queue = async_broker.queue(request.parameters["queue"])
        return async_broker.receive(queue, lambda taken: Response(200, taken[0].receipt.encode()), wait_s=10)

    def ack(request: Request) -> Answer | Awaitable[Answer]:
        async_broker.queue(request.parameters["queue"]).ack(request.body.decode())
        return async_broker.committed(NOTHING)

    return {
        ("GET", "/"): hello,
        ("POST", "/queues/{queue}/messages"): send,
        ("POST", "/queues/{queue}/dequeue"): receive,
        ("POST", "/queues/{queue}/ack"): ack,
    }


async def serve(broker: leveret.Broker) -> None:
    """Serve until the standard input ends; each line of it is answered with the CPU seconds so far."""
    broker.queue("orders")
    async_broker = AsyncBroker(broker.runtime)
    server = HttpServer(
        Router(routes(async_broker)), HttpLimits(), ConnectionBudget(2_000, 2_000, 2_000), SystemClock()
    )
    bound = bind("127.0.0.1", 0)
    server.listen(bound)
    print(bound.getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        usage = resource.getrusage(resource.RUSAGE_SELF)
        print(usage.ru_utime + usage.ru_stime, flush=True)
    server.stop_listening()
    await server.drain(1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, leveret.open(folder) as opened:
        uvloop.run(serve(opened))
