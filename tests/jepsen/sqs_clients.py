"""Clients of SQS: one sends to all queues, one for each queue receives and deletes.

A message is named as those of AMQP are. Its line is also its group in a FIFO queue, where order is promised.
"""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Sequence
from typing import Any, Self

from tests.jepsen.history import DELIVER, FAIL, INVOKE, OK, PUBLISH, SETTLE, UNKNOWN, History
from tests.jepsen.wanderer import PATIENCE_S, Connect, Gone, Wanderer

ACCOUNT = "000000000000"
FIFO = ".fifo"
BATCH = 10
POLL_S = 1  # a receiver that waits hears soon that its node is gone
VISIBILITY_S = 3
AGAIN = "ApproximateReceiveCount"


class SqsLink:
    """A connection to a node; its requests are not signed."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        self._place = f"http://{host}:{port}/{ACCOUNT}"
        self._connection.connect()

    def ask(self, action: str, queue: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something that is about a queue; raises Gone when it was not done."""
        name = {"QueueName": queue} if action == "CreateQueue" else {"QueueUrl": f"{self._place}/{queue}"}
        fields = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"AmazonSQS.{action}"}
        self._connection.request("POST", "/", json.dumps({**name, **parameters}), fields)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise Gone(f"{action}: {answer.status} {text.decode()}")
        found: dict[str, Any] = json.loads(text or b"{}")
        return found

    def create(self, queue: str) -> None:
        """Make a queue."""
        attributes = {"VisibilityTimeout": str(VISIBILITY_S), **({"FifoQueue": "true"} if queue.endswith(FIFO) else {})}
        self.ask("CreateQueue", queue, Attributes=attributes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


class Sender(Wanderer[SqsLink]):
    """Sends to all queues in turn, one message at a time."""

    lost = (Gone, OSError, http.client.HTTPException)

    def __init__(
        self, name: str, connect: Connect[SqsLink], first: int, history: History, queues: Sequence[str], pause_s: float
    ) -> None:
        """`pause_s` is the time between two messages."""
        super().__init__(name, connect, first, history)
        self._queues = queues
        self._pause_s = pause_s

    def talk(self, client: SqsLink, life: int) -> None:
        line = f"{self.name}.{life}"
        for number in itertools.count(1):
            if self.ended.is_set():
                return
            self._send(client, self._queues[number % len(self._queues)], line, f"{line} {number}")
            self.ended.wait(self._pause_s)

    def _send(self, client: SqsLink, queue: str, line: str, message: str) -> None:
        """Send a message; the group of a FIFO queue remembers its name, so that it is not there twice."""
        group = (
            {"MessageGroupId": line, "MessageDeduplicationId": message.replace(" ", "-")}
            if queue.endswith(FIFO)
            else {}
        )
        self.history.note(line, PUBLISH, INVOKE, queue, message)
        try:
            client.ask("SendMessage", queue, MessageBody=message, **group)
        except Gone:
            self.history.note(line, PUBLISH, FAIL, queue, message)
            raise
        except self.lost:
            self.history.note(line, PUBLISH, UNKNOWN, queue, message)
            raise
        self.history.note(line, PUBLISH, OK, queue, message)


class Receiver(Wanderer[SqsLink]):
    """Takes everything out of one queue."""

    lost = (Gone, OSError, http.client.HTTPException)

    def __init__(self, name: str, connect: Connect[SqsLink], first: int, history: History, queue: str) -> None:
        super().__init__(name, connect, first, history)
        self._queue = queue

    def talk(self, client: SqsLink, life: int) -> None:
        wanted = {"MaxNumberOfMessages": BATCH, "WaitTimeSeconds": POLL_S, "AttributeNames": [AGAIN]}
        while not self.ended.is_set():
            for each in client.ask("ReceiveMessage", self._queue, **wanted).get("Messages", ()):
                again = int(each["Attributes"][AGAIN]) > 1
                self.history.note(self.name, DELIVER, OK, self._queue, each["Body"], again)
                client.ask("DeleteMessage", self._queue, ReceiptHandle=each["ReceiptHandle"])
                self.history.note(self.name, SETTLE, OK, self._queue, each["Body"])
