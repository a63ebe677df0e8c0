"""Clients of streams: one publishes to all of them, others read each from its beginning and keep their own place.

A record is named as a message is, "u0 17", whichever node it went through: its publisher numbers what it sends, and
sends a record until it is confirmed before it sends the next one. So none may be missing, or be there twice.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from urllib.parse import urlencode

from leveret.core.properties import Properties
from leveret.wire import methods as m
from tests.jepsen.history import FAIL, INVOKE, OK, PUBLISH, READ, UNKNOWN, History
from tests.jepsen.http_link import LOST, RestLink
from tests.jepsen.wanderer import LATER_S, Connect, Gone, Wanderer
from tests.protocols.amqp.wire import Client, Ended

PARTITIONS = 2
KEYS = 4  # of each publisher, so that it has records in both partitions
PREFETCH = 50
POLL_S = 1


class StreamPublisher(Wanderer[Client]):
    """Publishes to all streams in turn, a record at a time."""

    lost = (Ended, Gone, OSError)

    def __init__(
        self, name: str, connect: Connect[Client], first: int, history: History, streams: Sequence[str], pause_s: float
    ) -> None:
        """`pause_s` is the time between two records."""
        super().__init__(name, connect, first, history)
        self._streams = streams
        self._pause_s = pause_s
        self._number = 1

    def talk(self, client: Client, life: int) -> None:
        client.call(1, m.ConfirmSelect())
        while not self.ended.is_set():
            if self._publish(client):
                self._number += 1
            self.ended.wait(self._pause_s)

    def _publish(self, client: Client) -> bool:
        """Publish the record whose turn it is; whether it is confirmed."""
        turn, place = divmod(self._number, len(self._streams))
        stream, message = self._streams[place], f"{self.name} {self._number}"
        headers = {"x-producer": self.name, "x-sequence": self._number, "x-partition-key": f"{self.name}{turn % KEYS}"}
        self.history.note(self.name, PUBLISH, INVOKE, stream, message)
        try:
            client.publish(1, m.BasicPublish("", stream), Properties(headers=headers), message.encode())
            answer = client.any_method()[1]
            if not isinstance(answer, m.BasicAck | m.BasicNack):
                raise Gone(answer)
        except self.lost:
            self.history.note(self.name, PUBLISH, UNKNOWN, stream, message)
            raise
        confirmed = isinstance(answer, m.BasicAck)
        self.history.note(self.name, PUBLISH, OK if confirmed else FAIL, stream, message)
        return confirmed


class StreamReader(Wanderer[Client]):
    """Reads one stream by AMQP."""

    lost = (Ended, Gone, OSError)
    pause_s = LATER_S

    def __init__(self, name: str, connect: Connect[Client], first: int, history: History, stream: str) -> None:
        super().__init__(name, connect, first, history)
        self._stream = stream
        self._offsets = [0] * PARTITIONS

    def talk(self, client: Client, life: int) -> None:
        client.call(1, m.BasicQos(prefetch_count=PREFETCH))
        client.call(1, m.BasicConsume(self._stream, "c", arguments={"x-stream-offsets": list(self._offsets)}))
        while not self.ended.is_set():
            method = client.any_method()[1]
            if not isinstance(method, m.BasicDeliver):
                raise Gone(method)
            content = client.content(1)
            headers = content.properties.headers or {}
            partition, offset = int(str(headers["x-stream-partition"])), int(str(headers["x-stream-offset"]))
            note_record(self.history, self.name, self._stream, content.body.decode(), partition, offset)
            self._offsets[partition] = offset + 1
            client.send(1, m.BasicAck(method.delivery_tag))


class RestReader(Wanderer[RestLink]):
    """Reads one stream by REST, its partitions in turn."""

    lost = LOST

    def __init__(self, name: str, connect: Connect[RestLink], first: int, history: History, stream: str) -> None:
        super().__init__(name, connect, first, history)
        self._stream = stream
        self._offsets = [0] * PARTITIONS

    def talk(self, client: RestLink, life: int) -> None:
        for partition in itertools.cycle(range(PARTITIONS)):
            if self.ended.is_set():
                return
            wanted = {"partition": partition, "offset": self._offsets[partition], "encoding": "base64"}
            found = client.ask(f"GET /streams/{self._stream}/records?{urlencode(wanted)}")
            for each in found["records"]:
                message = base64.b64decode(each["payload_base64"]).decode()
                note_record(self.history, self.name, self._stream, message, partition, each["offset"])
                self._offsets[partition] = each["offset"] + 1
            self.ended.wait(0 if found["records"] else POLL_S / PARTITIONS)


def note_record(history: History, reader: str, stream: str, message: str, partition: int, offset: int) -> None:
    """Write down what a reader was given, and where it is."""
    history.note(reader, READ, OK, stream, message, partition=partition, offset=offset)
