"""The port for SQS without a port: requests in, answers out, on a broker in memory and a clock that the test turns."""

import asyncio
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

import leveret
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.limits import Throttle
from leveret.protocols.http.request import HttpPeer, Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.service import Service
from leveret.protocols.sqs.settings import Settings
from leveret.runtime.shared.limits import RateLimit
from leveret.security.access import Access

JSON = {b"host": b"sqs.test", b"content-type": b"application/x-amz-json-1.0"}
FORM = {b"host": b"sqs.test", b"content-type": b"application/x-www-form-urlencoded"}
NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
Headers = dict[bytes, bytes]
LISTS = {
    "AttributeNames": "AttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "TagKeys": "TagKey",
}
MAPS = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name"),
    "tags": ("Tag", "Key"),
    "Tags": ("Tag", "Key"),
}


class Refused(AssertionError):
    """An answer that is not 200."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(f"{status} {code}: {text}")
        self.status, self.code, self.text = status, code, text


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def xml(self) -> ElementTree.Element:
        return ElementTree.fromstring(self.body)

    def text(self, path: str) -> str | None:
        """The text of an element, by its names."""
        return self.xml.findtext("/".join(NAMESPACE + name for name in path.split("/")))


def flat(action: str, parameters: dict[str, Any]) -> dict[str, str]:
    """Parameters in the names of the Query protocol."""
    fields: dict[str, str] = {}

    def put(prefix: str, given: dict[str, Any]) -> None:
        for name, value in given.items():
            if name == "Entries":
                for number, entry in enumerate(value, 1):
                    put(f"{prefix}{action}RequestEntry.{number}.", entry)
            elif name in LISTS:
                members = {f"{prefix}{LISTS[name]}.{number}": each for number, each in enumerate(value, 1)}
                fields.update(members or {prefix + name: ""})  # so does botocore
            elif name in MAPS:
                member, key = MAPS[name]
                for number, (word, each) in enumerate(value.items(), 1):
                    fields[f"{prefix}{member}.{number}.{key}"] = word
                    nested = each if isinstance(each, dict) else {"": each}
                    for part, inner in nested.items():
                        fields[f"{prefix}{member}.{number}.Value{'.' if part else ''}{part}"] = inner
            else:
                fields[prefix + name] = str(value)

    put("", parameters)
    return fields


class World:
    """A broker and its service."""

    def __init__(self, path: str | None = None, limit: RateLimit | None = None, **settings: Any) -> None:
        self.clock = leveret.ManualClock()
        self.path = path
        self.throttle = Throttle(limit, self.clock)
        self.settings = Settings(**{"auth": False, **settings})
        self._runner = asyncio.Runner()
        self.open()

    def open(self) -> None:
        self.broker = leveret.open(self.path, clock=self.clock)
        with self.broker.runtime as core:
            self.access = Access(core, None)
        self._runner.run(self._start())

    async def _start(self) -> None:
        self.async_broker = AsyncBroker(self.broker.runtime, access=self.access)
        self.account = Account(self.broker.runtime, self.access, self.async_broker, self.settings)
        self.service = Service(self.account, self.throttle)

    async def _stop(self) -> None:
        self.account.close()
        self.async_broker.close()
        await asyncio.sleep(0)

    def close(self) -> None:
        self._runner.run(self._stop())
        self.broker.close()

    def end(self) -> None:
        self.close()
        self._runner.close()

    def restart(self) -> None:
        self.close()
        self.open()

    # Requests

    def handle(self, *requests: Request) -> list[Answer]:
        """The answers to requests that are made at the same time."""
        return self._runner.run(self._handle(requests))

    async def _handle(self, requests: tuple[Request, ...]) -> list[Answer]:
        answers = [self.service(request) for request in requests]
        return [_answer(await each if isinstance(each, Awaitable) else each) for each in answers]

    def later(self, seconds: float) -> None:
        """Let time pass in the broker and in the loop."""
        self.clock.advance(seconds)
        with self.broker.runtime:
            pass
        self._runner.run(asyncio.sleep(0.001))

    def run(self, work: Awaitable[Any]) -> Any:
        """Wait for something in the loop of the service."""

        async def wait() -> Any:
            return await work

        return self._runner.run(wait())

    def poll_while(self, url: str, act: Callable[[], None]) -> list[str]:
        """Wait for messages while something happens."""
        waiting = json_request("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 20})

        async def poll() -> Answer:
            asyncio.get_running_loop().call_later(0.01, act)
            answer = self.service(waiting)
            assert isinstance(answer, Awaitable), "there is nothing to receive yet"
            return _answer(await answer)

        return [message["Body"] for message in self.run(poll()).json.get("Messages", [])]

    def json(self, action: str, *, headers: Headers | None = None, **parameters: Any) -> Answer:
        """A request in JSON."""
        request = json_request(action, parameters)
        request.headers.update(headers or {})
        return self.handle(request)[0]

    def json_of(self, action: str, body: bytes) -> Request:
        """A request with a body that may be no JSON."""
        request = json_request(action, {})
        request.body = body
        return request

    def query(self, action: str, *, path: bytes = b"/", headers: Headers | None = None, **parameters: Any) -> Answer:
        """The same as a form."""
        fields = {"Action": action, "Version": "2012-11-05", **flat(action, parameters)}
        request = Request("POST", path, {**FORM, **(headers or {})}, HttpPeer("127.0.0.1", 1))
        request.body = urlencode(fields).encode()
        return self.handle(request)[0]

    def get(self, path: str, *, headers: Headers | None = None, **fields: str) -> Answer:
        """The same as a link."""
        target = f"{path}?{urlencode(fields)}".encode()
        return self.handle(Request("GET", target, {**FORM, **(headers or {})}, HttpPeer("127.0.0.1", 1)))[0]

    # Shorthands

    def do(self, action: str, **parameters: Any) -> Any:
        """A request that works."""
        answer = self.json(action, **parameters)
        if answer.status != 200:
            raise Refused(answer.status, answer.json["__type"].partition("#")[2], answer.json["message"])
        return answer.json

    def create(self, name: str, **attributes: Any) -> str:
        """The URL of a queue."""
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        given = {key: value if isinstance(value, str) else json.dumps(value) for key, value in attributes.items()}
        url: str = self.do("CreateQueue", QueueName=name, Attributes={**fifo, **given})["QueueUrl"]
        return url

    def send(self, url: str, body: str, **parameters: Any) -> dict[str, Any]:
        """Send a message."""
        sent: dict[str, Any] = self.do("SendMessage", QueueUrl=url, MessageBody=body, **parameters)
        return sent

    def receive(self, url: str, count: int = 1, **parameters: Any) -> list[dict[str, Any]]:
        """Take messages."""
        found: list[dict[str, Any]] = self.do(
            "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=count, **parameters
        ).get("Messages", [])
        return found

    def bodies(self, url: str, count: int = 10, **parameters: Any) -> list[str]:
        """Take messages and give their bodies."""
        return [message["Body"] for message in self.receive(url, count, **parameters)]

    def delete(self, url: str, message: dict[str, Any]) -> None:
        """Done with a message."""
        self.do("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def attributes(self, url: str, *names: str) -> dict[str, str]:
        """The attributes of a queue."""
        found: dict[str, str] = self.do("GetQueueAttributes", QueueUrl=url, AttributeNames=list(names) or ["All"]).get(
            "Attributes", {}
        )
        return found

    def arn(self, url: str) -> str:
        """The ARN of a queue."""
        return self.settings.arn(url.rpartition("/")[2])


def json_request(action: str, parameters: dict[str, Any]) -> Request:
    """A request in JSON."""
    headers = {**JSON, b"x-amz-target": f"AmazonSQS.{action}".encode()}
    request = Request("POST", b"/", headers, HttpPeer("127.0.0.1", 1))
    request.body = json.dumps(parameters).encode()
    return request


def _answer(response: object) -> Answer:
    assert isinstance(response, Response)
    headers = {name.lower(): value for name, value in response.headers}
    return Answer(response.status, {"content-type": str(response.content_type), **headers}, response.body)


@contextmanager
def refused(code: str, text: str = "") -> Iterator[None]:
    """What happens inside is refused with a code of the JSON protocol."""
    with pytest.raises(Refused) as caught:
        yield
    assert caught.value.code == code, str(caught.value)
    assert text in caught.value.text, str(caught.value)
