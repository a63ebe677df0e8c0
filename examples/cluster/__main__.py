"""Run three nodes on this machine until Ctrl-C, and say how to connect.

python -m examples.cluster
"""

import signal
import threading

from examples.cluster.machine import running
from tests.node.processes import Nodes

HOW = """\
Three nodes run on one PostgreSQL, one etcd and one Redis; their data is removed at the end.

{places}

A client names all of them, and gets the first that answers:

    import pika

    nodes = [pika.ConnectionParameters("127.0.0.1", port) for port in [{ports}]]
    channel = pika.BlockingConnection(nodes).channel()
    channel.queue_declare("orders", durable=True)

By REST, of whatever node:

    curl -u guest:guest -X POST http://127.0.0.1:{http}/queues/orders/dequeue -d '{{"wait_seconds": 5}}'

Clients of SQS need a key: leveret keys add guest --data {data}

Who has which shard:

    leveret cluster status --data {data}

Kill a node by its pid (kill -9), and look again. Ctrl-C stops everything.
"""


def told(nodes: Nodes) -> str:
    """How to connect."""
    places = "\n".join(
        f"    node {name}: amqp://guest:guest@127.0.0.1:{nodes.port(name)}/  REST on {nodes.web_port(name, 'http')}  "
        f"SQS on {nodes.web_port(name, 'sqs')}  pid {nodes.pid(name)}"
        for name in nodes.names
    )
    ports = ", ".join(str(nodes.port(name)) for name in nodes.names)
    first = nodes.names[0]
    return HOW.format(places=places, ports=ports, http=nodes.web_port(first, "http"), data=nodes.data(first))


def main() -> None:
    """Run them."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Not an exception somewhere: what is being started is started first.
        signal.signal(number, lambda *_: stopped.set())
    with running() as nodes:
        print(told(nodes), flush=True)
        stopped.wait()
        print("stopping", flush=True)


if __name__ == "__main__":
    main()
