"""Run three nodes on this machine until Ctrl-C, and say how to connect.

python -m examples.cluster
"""

import os
import signal
import sys
import threading
from pathlib import Path

from examples.cluster.machine import running
from tests.cluster.processes import Nodes

HOW = """\
Three nodes run on one PostgreSQL, one etcd and one Redis; their data is removed at the end.

{places}

A client names all of them, and gets the first that answers:

    import pika

    nodes = [pika.ConnectionParameters("127.0.0.1", port) for port in [{ports}]]
    channel = pika.BlockingConnection(nodes).channel()
    channel.queue_declare("orders", durable=True)

By REST, of whatever node:

    curl -u guest:guest http://127.0.0.1:{http}/queues/orders/messages -d '{{"payload": "hello"}}'
    curl -u guest:guest http://127.0.0.1:{http}/queues/orders/dequeue -d '{{"wait_seconds": 5}}'

By SQS, with the key that the first line prints (the second needs the AWS CLI):

    {leveret} keys add guest --data {data}
    aws sqs list-queues --endpoint-url http://127.0.0.1:{sqs} --region us-east-1

The console is at http://127.0.0.1:{http}/ (guest, guest). Who has which shard, and what is not as it should be:

    {leveret} cluster status --data {data}
    {leveret} doctor {data}

Kill a node (kill -9 {pid}) and look again, at another one. Ctrl-C stops everything.
"""


def told(nodes: Nodes) -> str:
    """How to connect."""
    places = "\n".join(
        f"    node {name}: amqp://guest:guest@127.0.0.1:{nodes.port(name)}/  HTTP on {nodes.ports(name)['http']}  "
        f"SQS on {nodes.ports(name)['sqs']}  pid {nodes.pid(name)}"
        for name in nodes.names
    )
    ports = ", ".join(str(nodes.port(name)) for name in nodes.names)
    first, last = nodes.names[0], nodes.names[-1]
    return HOW.format(
        places=places,
        ports=ports,
        http=nodes.ports(first)["http"],
        sqs=nodes.ports(first)["sqs"],
        data=nodes.data(first),
        pid=nodes.pid(last),
        leveret=os.path.relpath(Path(sys.executable).with_name("leveret")),
    )


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
