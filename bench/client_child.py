"""One client at work, in a process of its own: python -m bench.client_child CASE COUNT URL."""

import asyncio
import importlib
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any
from urllib.parse import urlsplit

import leveret
from bench.measure import Span, timed

BODY = b"x" * 1_024
IN_FLIGHT = 5_000
THREADS = 32
QUEUE = "bench"
REGION = "us-east-1"

Measured = Iterator[None]
Run = Callable[[str, int], Span]


def blocks(count: int) -> Iterator[int]:
    """So many in blocks of those that are in flight at once."""
    for left in range(count, 0, -IN_FLIGHT):
        yield min(left, IN_FLIGHT)


# Leveret's clients: the same program over AMQP and over HTTP


def leveret_send(url: str, count: int) -> Span:
    with leveret.connect(url) as client:
        queue = client.queue(QUEUE)
        with timed() as span:
            for _ in range(count):
                queue.send(BODY)
    return span


def leveret_threads(url: str, count: int) -> Span:
    with leveret.connect(url) as client, ThreadPoolExecutor(THREADS) as pool:
        queue = client.queue(QUEUE)
        with timed() as span:
            for _ in pool.map(queue.send, repeat(BODY, count)):
                pass
    return span


def leveret_batches(url: str, count: int) -> Span:
    with leveret.connect(url) as client:
        queue = client.queue(QUEUE)
        with timed() as span:
            queue.send_many(repeat(BODY, count))
    return span


def leveret_receive(url: str, count: int) -> Span:
    with leveret.connect(url) as client:
        queue = client.queue(QUEUE)
        if url.startswith("amqp"):
            with timed() as span:
                for done, message in enumerate(queue, 1):
                    message.ack()
                    if done == count:
                        break
                client.flush()
            return span
        with timed() as span:
            for block in blocks(count):
                for message in queue.receive(block):
                    message.ack()
    return span


def leveret_gather(url: str, count: int) -> Span:
    async def main() -> Span:
        async with leveret.aconnect(url) as client:
            queue = await client.queue(QUEUE)
            with timed() as span:
                for block in blocks(count):
                    await asyncio.gather(*[queue.send(BODY) for _ in range(block)])
        return span

    return run(main())


def leveret_asend(url: str, count: int) -> Span:
    async def main() -> Span:
        async with leveret.aconnect(url) as client:
            queue = await client.queue(QUEUE)
            with timed() as span:
                for _ in range(count):
                    await queue.send(BODY)
        return span

    return run(main())


def leveret_areceive(url: str, count: int) -> Span:
    async def main() -> Span:
        async with leveret.aconnect(url) as client:
            queue = await client.queue(QUEUE)
            done = 0
            with timed() as span:
                async for message in queue:
                    await message.ack()
                    done += 1
                    if done == count:
                        break
                await client.flush()
        return span

    return run(main())


def run(main: Any) -> Span:
    """A loop of uvloop, for all clients of asyncio alike."""
    import uvloop

    span: Span = uvloop.run(main)
    return span


# Others


def pika_send(url: str, count: int) -> Span:
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(QUEUE, passive=True)
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    with timed() as span:
        for _ in range(count):
            channel.basic_publish("", QUEUE, BODY, persistent, mandatory=True)
    connection.close()
    return span


def pika_receive(url: str, count: int) -> Span:
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=250)
    with timed() as span:
        for done, (method, _, _) in enumerate(channel.consume(QUEUE), 1):
            channel.basic_ack(method.delivery_tag)
            if done == count:
                break
        connection.process_data_events()
    connection.close()
    return span


async def aio_pika_channel(url: str) -> tuple[Any, Any]:
    import aio_pika

    connection = await aio_pika.connect(url)
    return connection, await connection.channel(publisher_confirms=True)


def aio_pika_publish(url: str, count: int, block_max: int) -> Span:
    import aio_pika

    async def main() -> Span:
        connection, channel = await aio_pika_channel(url)

        def publish() -> Awaitable[object]:
            message = aio_pika.Message(BODY, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            return channel.default_exchange.publish(message, QUEUE)  # type: ignore[no-any-return]

        with timed() as span:
            for left in range(count, 0, -block_max):
                await asyncio.gather(*[publish() for _ in range(min(left, block_max))])
        await connection.close()
        return span

    return run(main())


def aio_pika_send(url: str, count: int) -> Span:
    return aio_pika_publish(url, count, 1)


def aio_pika_gather(url: str, count: int) -> Span:
    return aio_pika_publish(url, count, IN_FLIGHT)


def aio_pika_receive(url: str, count: int) -> Span:
    async def main() -> Span:
        connection, channel = await aio_pika_channel(url)
        await channel.set_qos(prefetch_count=250)
        queue = await channel.get_queue(QUEUE)
        done = 0
        with timed() as span:
            async with queue.iterator() as messages:
                async for message in messages:
                    await message.ack()
                    done += 1
                    if done == count:
                        break
        await connection.close()
        return span

    return run(main())


def kombu_send(url: str, count: int) -> Span:
    kombu: Any = importlib.import_module("kombu")
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        producer = connection.Producer()
        with timed() as span:
            for _ in range(count):
                producer.publish(BODY, routing_key=QUEUE, content_type="application/data", content_encoding="binary")
    return span


def kombu_receive(url: str, count: int) -> Span:
    kombu: Any = importlib.import_module("kombu")
    with kombu.Connection(url) as connection:
        left = [count]

        def work(_: object, message: Any) -> None:
            message.ack()
            left[0] -= 1

        queue = kombu.Queue(QUEUE, no_declare=True)
        with connection.Consumer(queue, callbacks=[work], prefetch_count=250, accept=None), timed() as span:
            while left[0]:
                connection.drain_events()
    return span


def sqs(url: str) -> tuple[Any, str]:
    """A client of SQS and the URL of the queue; the URL that is given has the key and its secret."""
    import boto3

    parts = urlsplit(url)
    where = f"http://{parts.hostname}:{parts.port}"
    client = boto3.client(
        "sqs",
        endpoint_url=where,
        region_name=REGION,
        aws_access_key_id=parts.username,
        aws_secret_access_key=parts.password,
    )
    return client, client.get_queue_url(QueueName=QUEUE)["QueueUrl"]


def boto3_send(url: str, count: int) -> Span:
    client, queue = sqs(url)
    with timed() as span:
        for _ in range(count):
            client.send_message(QueueUrl=queue, MessageBody=BODY.decode())
    return span


def boto3_batches(url: str, count: int) -> Span:
    client, queue = sqs(url)
    entries = [{"Id": str(number), "MessageBody": BODY.decode()} for number in range(10)]
    with timed() as span:
        for _ in range(count // 10):
            client.send_message_batch(QueueUrl=queue, Entries=entries)
    return span


def boto3_receive(url: str, count: int) -> Span:
    client, queue = sqs(url)
    with timed() as span:
        for _ in range(count // 10):
            for each in client.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]:
                client.delete_message(QueueUrl=queue, ReceiptHandle=each["ReceiptHandle"])
    return span


def main() -> None:
    case, count, url = sys.argv[1:]
    work: Run = globals()[case]
    span = work(url, int(count))
    print(json.dumps({"seconds": span.seconds, "cpu_seconds": span.cpu_seconds}))


if __name__ == "__main__":
    main()
