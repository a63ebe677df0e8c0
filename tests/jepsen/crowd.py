"""The clients of a cluster, and what they are promised.

q0 ...         AMQP: bursts with confirms, a consumer each
s0 ... .fifo   SQS: standard and FIFO queues
t0 ...         streams, read by AMQP and by REST
k0 ...         where rows of sinks go: queues that are emptied when all faults are over, and a stream
d0.1 ...       exchanges, queues and bindings that come and go
"""

import time
from collections.abc import Mapping
from functools import partial
from itertools import chain

from leveret.wire import methods as m
from tests.cluster.processes import Nodes
from tests.jepsen.checker import Promises
from tests.jepsen.clients import Consumer, Publisher
from tests.jepsen.definition_clients import DEFINITIONS, Definer
from tests.jepsen.history import DELIVER, OK, PUBLISH, READ, History
from tests.jepsen.http_link import RestLink
from tests.jepsen.sink_clients import SinkWriter
from tests.jepsen.sqs_clients import KEY, SECRET, Receiver, Sender, SqsLink
from tests.jepsen.stream_clients import PARTITIONS, RestReader, StreamPublisher, StreamReader
from tests.jepsen.wanderer import PATIENCE_S, Gone
from tests.machine import Machine
from tests.protocols.amqp.wire import Client, SocketLink

AMQP_QUEUES = tuple(f"q{number}" for number in range(6))
HELD_QUEUES, HELD = AMQP_QUEUES[4:], 8  # their consumers hold some messages at any time
STANDARD_QUEUES = ("s0", "s1")
FIFO_QUEUES = ("s2.fifo", "s3.fifo")
SQS_QUEUES = STANDARD_QUEUES + FIFO_QUEUES
STREAMS = ("t0", "t1")
SINK_QUEUES = ("k0", "k1", "k2")
SINK_STREAM = "k3"
SINKS = 2
READERS = {stream: (f"{stream}.amqp", f"{stream}.rest") for stream in (*STREAMS, SINK_STREAM)}
PROMISES = Promises(
    queues=AMQP_QUEUES + SQS_QUEUES + STREAMS,
    unordered=(*STANDARD_QUEUES, *SINK_QUEUES, SINK_STREAM),
    kept=AMQP_QUEUES,
    once=SINK_QUEUES,
    streams=READERS,
    definitions=DEFINITIONS,
)
PLACES = (*PROMISES.queues, *SINK_QUEUES, SINK_STREAM, DEFINITIONS)
"""All that messages go to, and what else is written to."""
TAKEN = (*PROMISES.queues, SINK_STREAM)
"""All that is taken from while there are faults."""
LOGIN = ("hare", "quick enough")  # guest would be let in from this machine only
LISTEN_S = 12.0  # a failover, and the time that a new owner keeps what was delivered for whoever has it
QUIET_S = 1.0  # after which nothing more is on its way to the queues of sinks
POLL_S = 0.05

Publishers = Publisher | Sender | StreamPublisher | SinkWriter | Definer
Consumers = Consumer | Receiver | StreamReader | RestReader


class Crowd:
    """Everybody who talks to the nodes."""

    def __init__(self, nodes: Nodes, machines: Mapping[str, Machine], history: History, pause_s: float) -> None:
        """`pause_s` is how long clients rest between two bursts."""
        self._nodes = nodes
        self._machines = machines
        self._names = list(machines)
        self._history = history
        self._pause_s = pause_s
        self._token = ""
        self._publishers: list[Publishers] = []
        self._consumers: list[Consumers] = []

    # Connections

    def _place(self, number: int, protocol: str) -> tuple[str, int]:
        name = self._names[number % len(self._names)]
        return self._machines[name].address, self._nodes.ports(name)[protocol]

    def connect(self, number: int, patience_s: float = PATIENCE_S) -> Client:
        """A client of AMQP with one open channel."""
        link = SocketLink(*self._place(number, "amqp"), patience_s)
        try:
            return Client(link).open(login=LOGIN)
        except AssertionError as refusal:  # it says something else, as that it ends
            link.close()
            raise Gone(refusal) from refusal
        except BaseException:
            link.close()
            raise

    def listen(self, number: int) -> Client:
        """The same for one that waits for deliveries."""
        return self.connect(number, LISTEN_S)

    def connect_sqs(self, number: int) -> SqsLink:
        """A client of SQS."""
        return SqsLink(*self._place(number, "sqs"))

    def connect_rest(self, number: int) -> RestLink:
        """A client of REST."""
        return RestLink(*self._place(number, "http"), self._token)

    # Coming

    def start(self) -> None:
        """Declare what there is, and begin."""
        self._declare()
        for each in chain(self._new_consumers(), self._new_publishers()):
            each.start()

    def _declare(self) -> None:
        operate = partial(self._nodes.operate, self._names[0])
        operate("keys.add", user=LOGIN[0], id=KEY, secret=SECRET)
        self._token = str(operate("tokens.add", user=LOGIN[0], scopes=["*:*"])["token"])
        with self.connect(0) as client:
            for queue in AMQP_QUEUES + SINK_QUEUES:
                client.call(1, m.QueueDeclare(queue, durable=True))
            for stream in READERS:
                arguments = {"x-queue-type": "stream", "x-partitions": PARTITIONS}
                client.call(1, m.QueueDeclare(stream, durable=True, arguments=arguments))
            client.leave()
        with self.connect_sqs(0) as link:
            for queue in SQS_QUEUES:
                link.create(queue)

    def _new_consumers(self) -> list[Consumers]:
        history = self._history
        for number, queue in enumerate(AMQP_QUEUES):
            held = HELD if queue in HELD_QUEUES else 1
            self._consumers.append(Consumer(f"c{number}", self.listen, number, history, queue, held))
        for number, queue in enumerate(SQS_QUEUES):
            self._consumers.append(Receiver(f"r{number}", self.connect_sqs, number, history, queue))
        for number, (stream, (by_amqp, by_rest)) in enumerate(READERS.items()):
            self._consumers.append(StreamReader(by_amqp, self.listen, number, history, stream))
            self._consumers.append(RestReader(by_rest, self.connect_rest, number + 1, history, stream))
        return self._consumers

    def _new_publishers(self) -> list[Publishers]:
        history, pause_s = self._history, self._pause_s
        for number in range(len(self._names)):
            publisher = Publisher(f"p{number}", self.connect, number, history, AMQP_QUEUES, pause_s)
            sender = Sender(f"s{number}", self.connect_sqs, number, history, SQS_QUEUES, pause_s / 4)
            author = StreamPublisher(f"u{number}", self.connect, number, history, STREAMS, pause_s / 4)
            definer = Definer(f"d{number}", self.connect, number, history, 4 * pause_s)
            self._publishers += [publisher, sender, author, definer]
        places = (*SINK_QUEUES, SINK_STREAM)
        for number in range(SINKS):
            self._publishers.append(SinkWriter(f"w{number}", self.connect_rest, number, history, places, 4 * pause_s))
        return self._publishers

    # Going

    def stop(self) -> None:
        """Let everybody end, and wait for nobody."""
        for each in chain(self._publishers, self._consumers):
            each.ended.set()

    def join(self) -> None:
        """Wait until everybody has ended; one that listens does when its node has."""
        for each in chain(self._publishers, self._consumers):
            if each.ident is not None:
                each.join()

    def finish(self, silent_s: float) -> None:
        """Publish no more; wait until all that was confirmed has come, or nothing has for so long."""
        for publisher in self._publishers:
            publisher.ended.set()
        for publisher in self._publishers:
            publisher.end()
        for number, queue in enumerate(SINK_QUEUES):
            consumer = Consumer(f"k{number}", self.listen, number, self._history, queue)
            self._consumers.append(consumer)
            consumer.start()
        self._wait_for_the_rest(silent_s)
        for each in self._consumers:
            each.check()

    def _wait_for_the_rest(self, silent_s: float) -> None:
        """Wait until everything has come, and then a little for what nobody waits for."""
        missing = {
            (reader, each.queue, each.message)
            for each in self._history.since()
            if each.what == PUBLISH and each.outcome == OK
            for reader in READERS.get(each.queue, [""])
        }
        position, last_s = 0, time.monotonic()
        while time.monotonic() < last_s + (silent_s if missing else QUIET_S):
            come = self._history.since(position)
            position += len(come)
            missing -= {("", each.queue, each.message) for each in come if each.what == DELIVER}
            missing -= {(each.who, each.queue, each.message) for each in come if each.what == READ}
            if come:
                last_s = time.monotonic()
            time.sleep(POLL_S)
