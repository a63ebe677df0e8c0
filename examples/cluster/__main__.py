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

Who has which shard:

    leveret cluster status --data {data}

Kill a node by its pid (kill -9), and look again. Ctrl-C stops everything.
"""


def told(nodes: Nodes) -> str:
    """How to connect."""
    places = "\n".join(
        f"    node {name}: amqp://guest:guest@127.0.0.1:{nodes.port(name)}/  pid {nodes.pid(name)}"
        for name in nodes.names
    )
    ports = ", ".join(str(nodes.port(name)) for name in nodes.names)
    return HOW.format(places=places, ports=ports, data=nodes.data(nodes.names[0]))


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
