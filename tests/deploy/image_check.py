"""`python -m tests.deploy.image_check IMAGE`: runs the image as production does, and uses it over AMQP, SQS and REST.

Its root file system is read-only, its user is not root. Options of the engine that this machine needs come after `--`:

python -m tests.deploy.image_check leveret -- --cgroups=disabled
"""

import argparse
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import quote

import boto3
import pika
from pika.exceptions import AMQPConnectionError

import leveret
from tests.protocols.sqs.server import KEY, SECRET
from tests.waiting import PATIENCE_S

MB = 1_000_000
SIZE_MAX = 150 * MB
USER, PASSWORD = "admin", secrets.token_urlsafe(16)
BODY = "hello, container"
PORTS = {"amqp": 5672, "http": 15672, "sqs": 9324}
POLL_S = 0.02


class Engine:
    """Podman or Docker, with one container and its volume."""

    def __init__(self, name: str, image: str, options: Sequence[str]) -> None:
        self._name, self._image, self._options = name, image, options
        self.container = f"leveret-check-{secrets.token_hex(4)}"

    def call(self, *words: str) -> str:
        """What a command of the engine prints; raises when it fails."""
        done = subprocess.run([self._name, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self._name} {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.strip()

    @contextmanager
    def running(self, *options: str) -> Iterator[dict[str, int]]:
        """A container of the image, by the ports of this machine that lead to it."""
        ports = [word for port in PORTS.values() for word in ("--publish", f"127.0.0.1::{port}")]
        volume = ("--volume", f"{self.container}:/var/lib/leveret")
        first = ("--env", f"LEVERET_DEFAULT_PASSWORD={PASSWORD}")
        named = ("--detach", "--name", self.container, "--read-only")
        self.call("run", *named, *self._options, *ports, *volume, *first, *options, self._image)
        try:
            lines = self.call("port", self.container).splitlines()
            there = {int(line.split("/")[0]): int(line.rsplit(":", 1)[1]) for line in lines}
            yield {name: there[port] for name, port in PORTS.items()}
        finally:
            self.call("rm", "--force", self.container)

    def logs(self) -> str:
        """All that the server logged."""
        done = subprocess.run([self._name, "logs", self.container], capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    def remove(self) -> None:
        self.call("volume", "rm", "--force", self.container)


def wait_for_port(port: int, engine: Engine) -> None:
    """Wait until a server greets on a port: that of a proxy of the engine may be open before."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as sock:
            sock.sendall(b"AMQP\0\0\x09\x01")
            if sock.recv(1):
                return
        time.sleep(POLL_S)
    raise RuntimeError(f"nothing serves:\n{engine.logs()}")


def parameters(port: int) -> pika.ConnectionParameters:
    return pika.ConnectionParameters("127.0.0.1", port, credentials=pika.PlainCredentials(USER, PASSWORD))


def send(ports: dict[str, int], engine: Engine) -> None:
    """Send a message by AMQP, receive it by SQS; send another by REST."""
    connection = pika.BlockingConnection(parameters(ports["amqp"]))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", BODY.encode(), pika.BasicProperties(delivery_mode=2, content_type="text/plain"))
    connection.close()
    engine.call("exec", engine.container, "leveret", "keys", "add", USER, "--id", KEY, "--secret", SECRET)
    sqs = boto3.client(
        "sqs",
        endpoint_url=f"http://127.0.0.1:{ports['sqs']}",
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )
    (message,) = sqs.receive_message(QueueUrl="orders", WaitTimeSeconds=20)["Messages"]
    assert message["Body"] == BODY, message
    sqs.delete_message(QueueUrl="orders", ReceiptHandle=message["ReceiptHandle"])
    sqs.close()
    with leveret.connect(f"http://{USER}:{quote(PASSWORD)}@127.0.0.1:{ports['http']}") as broker:
        broker.queue("orders", create=False).send(BODY)


def check(engine: Engine) -> Iterator[str]:
    """What is tried, a line for each."""
    with engine.running() as ports:
        wait_for_port(ports["amqp"], engine)
        try:
            pika.BlockingConnection(parameters(ports["amqp"])).close()
            raise RuntimeError("a password without TLS was taken from another machine")
        except AMQPConnectionError:
            assert "plain_auth_remote" in engine.logs(), engine.logs()
        yield "a remote login without TLS is refused, and the log names plain_auth_remote"
    plain = ("--env", "LEVERET_PLAIN_AUTH_REMOTE=on")
    start = time.monotonic()
    with engine.running(*plain) as ports:
        wait_for_port(ports["amqp"], engine)
        yield f"serving {time.monotonic() - start:.2f} s after `run` (target: 3 s)"
        send(ports, engine)
        yield "a message by AMQP and SQS, another by REST"
        yield f"health check: {engine.call('exec', engine.container, 'leveret', 'status').splitlines()[0]}"
        start = time.monotonic()
        engine.call("stop", engine.container)
        code = engine.call("inspect", "--format", "{{.State.ExitCode}}", engine.container)
        assert code == "0", engine.logs()
        yield f"SIGTERM: ended with {code} after {time.monotonic() - start:.2f} s"
    with engine.running(*plain) as ports:
        wait_for_port(ports["amqp"], engine)
        connection = pika.BlockingConnection(parameters(ports["amqp"]))
        assert connection.channel().basic_get("orders", auto_ack=True)[2] == BODY.encode()
        connection.close()
        yield "the message is there after a restart with another container"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check an image; print a line for each thing that was tried, and its size."""
    parser = argparse.ArgumentParser(description="Run the container image and use it.")
    parser.add_argument("image", nargs="?", default="leveret")
    parser.add_argument("--engine", default="podman", help="podman or docker")
    parser.add_argument("options", nargs="*", help="options of `run`, after --")
    options = parser.parse_args(arguments)
    engine = Engine(options.engine, options.image, options.options)
    size = int(engine.call("image", "inspect", "--format", "{{.Size}}", options.image))
    print(f"size: {size / MB:.1f} MB (at most {SIZE_MAX // MB})", flush=True)
    try:
        for line in check(engine):
            print(line, flush=True)
    finally:
        engine.remove()
    return int(size > SIZE_MAX)


if __name__ == "__main__":
    sys.exit(main())
