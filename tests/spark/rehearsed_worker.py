"""A consumer in a process of its own: it takes orders until it is told to end, and rejects every so many of them."""

import os
import signal
import sys

import pika

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    every = int(sys.argv[1])
    with pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])) as connection:
        channel = connection.channel()
        for method, _, body in channel.consume("orders"):
            print(body.decode(), method.routing_key, flush=True)
            if int(body) % every == 0:
                channel.basic_reject(method.delivery_tag, requeue=False)
            else:
                channel.basic_ack(method.delivery_tag)
