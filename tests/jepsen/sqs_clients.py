"""Clients of SQS: one sends to all queues, one for each queue receives and deletes.

A message is named as those of AMQP are. Its line is also its group in a FIFO queue, where order is promised.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.jepsen.history import DELIVER, FAIL, INVOKE, OK, PUBLISH, SETTLE, UNKNOWN, History
from tests.jepsen.http_link import LOST, HttpLink
from tests.jepsen.wanderer import Connect, Gone, Wanderer

ACCOUNT = "000000000000"
KEY, SECRET, REGION = "AKIAJEPSENJEPSEN", "secret/with+signs", "us-east-1"
FIFO = ".fifo"
BATCH = 10
POLL_S = 1  # a receiver that waits hears soon that its node is gone
VISIBILITY_S = 3
AGAIN = "ApproximateReceiveCount"


class SqsLink(HttpLink):
    """A connection to a node; its requests are signed as those of AWS are, by the code of AWS."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._signer = SigV4Auth(Credentials(KEY, SECRET), "sqs", REGION)

    def ask(self, action: str, queue: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something that is about a queue; raises Gone when it was not done."""
        place = f"http://{self.host}"
        name = {"QueueName": queue} if action == "CreateQueue" else {"QueueUrl": f"{place}/{ACCOUNT}/{queue}"}
        body = json.dumps({**name, **parameters}).encode()
        fields = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"AmazonSQS.{action}"}
        request = AWSRequest("POST", f"{place}/", fields, body)
        self._signer.add_auth(request)
        found: dict[str, Any] = self.request("POST", "/", body, dict(request.headers))
        return found

    def create(self, queue: str) -> None:
        """Make a queue."""
        attributes = {"VisibilityTimeout": str(VISIBILITY_S), **({"FifoQueue": "true"} if queue.endswith(FIFO) else {})}
        self.ask("CreateQueue", queue, Attributes=attributes)


class Sender(Wanderer[SqsLink]):
    """Sends to all queues in turn, one message at a time."""

    lost = LOST

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

    lost = LOST

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
