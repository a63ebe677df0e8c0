"""Load for SQS: one connection sends batches of ten, another receives and deletes them."""

import hmac
import json
import os
import ssl
import time
from hashlib import sha256
from http.client import HTTPException
from typing import Any, Self
from urllib.parse import urlsplit

from leveret.cli.bench.plan import Plan, Race, age_s, stamp
from leveret.core.errors import InvalidArgument, Unreachable
from leveret.http_client import ThreadedClient
from leveret.security.sigv4 import ALGORITHM, signing_key

BATCH = 10
ANSWER_S = 30.0
ANSWER_BYTES_MAX = 16 << 20  # ten messages are at most 10 MiB, unless the server has other limits
KEY, SECRET, REGION = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"
SIGNED = "content-type;host;x-amz-date;x-amz-target"
CEILING_REQUESTS = 200


class Signer:
    """Signs requests to one endpoint by Signature Version 4."""

    def __init__(self, host: str, path: str, key: str, secret: str, region: str) -> None:
        """`host` is the header: with the port, unless it is the usual one."""
        self._host, self._path, self._key, self._secret, self._region = host, path, key, secret, region
        self._day, self._signing_key = "", b""

    def headers(self, action: str, body: bytes) -> dict[str, str]:
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        if now[:8] != self._day:
            self._day, self._signing_key = now[:8], signing_key(self._secret, now[:8], self._region, "sqs")
        fields = {
            "content-type": "application/x-amz-json-1.0",
            "host": self._host,
            "x-amz-date": now,
            "x-amz-target": f"AmazonSQS.{action}",
        }
        lines = "".join(f"{name}:{value}\n" for name, value in fields.items())
        canonical = f"POST\n{self._path}\n\n{lines}\n{SIGNED}\n{sha256(body).hexdigest()}"
        scope = f"{self._day}/{self._region}/sqs/aws4_request"
        to_sign = f"{ALGORITHM}\n{now}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._signing_key, to_sign.encode(), "sha256").hex()
        credential = f"{ALGORITHM} Credential={self._key}/{scope}, SignedHeaders={SIGNED}, Signature={signature}"
        return {**fields, "authorization": credential}


class BenchEndpoint:
    """A connection to an endpoint, which signs what it sends."""

    def __init__(self, plan: Plan) -> None:
        """Connect with the first request; the key is where AWS's own tools look for it."""
        parts = urlsplit(plan.url)
        tls = ssl.create_default_context(cafile=plan.ca_file) if parts.scheme == "https" else None
        self._path = parts.path or "/"
        self._http = ThreadedClient(parts.hostname or "", parts.port, ANSWER_S, tls)
        host = parts.netloc.rpartition("@")[2]
        if KEY not in os.environ or SECRET not in os.environ:
            raise InvalidArgument(f"requests of SQS are signed: set {KEY} and {SECRET}, see `leveret keys add`")
        region = os.environ.get(REGION, "us-east-1")
        self.signer = Signer(host, self._path, os.environ[KEY], os.environ[SECRET], region)

    def call(self, action: str, **parameters: Any) -> dict[str, Any]:
        body = json.dumps(parameters).encode()
        try:
            headers = self.signer.headers(action, body)
            status, told = self._http.ask("POST", self._path, headers, body, ANSWER_BYTES_MAX)
        except (OSError, HTTPException) as error:
            raise Unreachable(f"the endpoint does not answer: {error}; check the URL") from error
        if status != 200:
            raise Unreachable(f"{action} was refused with {status}: {told[:300].decode(errors='replace')}")
        found: dict[str, Any] = json.loads(told) if told else {}
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()


def publish(race: Race) -> None:
    """Send batches, one after the other."""
    plan = race.plan
    with BenchEndpoint(plan) as endpoint:
        url = endpoint.call("GetQueueUrl", QueueName=plan.queue)["QueueUrl"]
        sent = 0
        while (count := min(race.left(sent), BATCH)) > 0:
            time.sleep(race.due(sent))
            began_s = time.monotonic()
            answer = endpoint.call("SendMessageBatch", QueueUrl=url, Entries=entries(plan.size_bytes, count))
            if answer.get("Failed"):
                raise Unreachable(f"the endpoint refuses messages: {answer['Failed'][0].get('Message')}")
            sent += count
            race.sent.note(count, [time.monotonic() - began_s] * count)


def entries(size_bytes: int, count: int) -> list[dict[str, str]]:
    """The messages of a batch."""
    return [{"Id": str(index), "MessageBody": stamp(size_bytes).decode()} for index in range(count)]


def consume(race: Race) -> None:
    """Receive and delete until all are there."""
    plan = race.plan
    with BenchEndpoint(plan) as endpoint:
        url = endpoint.call("GetQueueUrl", QueueName=plan.queue)["QueueUrl"]
        while not race.is_over():
            answer = endpoint.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=BATCH, WaitTimeSeconds=1)
            found = answer.get("Messages", [])
            if not found:
                continue
            now_ns = time.monotonic_ns()
            race.received.note(len(found), [age_s(each["Body"].encode(), now_ns) for each in found])
            handles = [{"Id": str(index), "ReceiptHandle": each["ReceiptHandle"]} for index, each in enumerate(found)]
            endpoint.call("DeleteMessageBatch", QueueUrl=url, Entries=handles)


def ceiling(plan: Plan) -> float:
    """How many messages in a second this program could send and receive if the endpoint took no time."""
    with BenchEndpoint(plan) as endpoint:
        began_s = time.perf_counter()
        for _ in range(CEILING_REQUESTS):
            for action in ("SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch"):
                body = json.dumps({"QueueUrl": plan.url, "Entries": entries(plan.size_bytes, BATCH)}).encode()
                endpoint.signer.headers(action, body)
                json.loads(body)
    return CEILING_REQUESTS * BATCH / (time.perf_counter() - began_s)


def prepare(plan: Plan) -> None:
    """Make the queue."""
    with BenchEndpoint(plan) as endpoint:
        endpoint.call("CreateQueue", QueueName=plan.queue)


def clean(plan: Plan) -> None:
    """Remove the queue."""
    with BenchEndpoint(plan) as endpoint:
        url = endpoint.call("GetQueueUrl", QueueName=plan.queue)["QueueUrl"]
        endpoint.call("DeleteQueue", QueueUrl=url)
