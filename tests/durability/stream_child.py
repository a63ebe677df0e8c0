"""A process to be killed while threads append to streams: says what it found, then what was confirmed.

has PARTITION OFFSET BODY       one record that was there at the start
go                              that was all
sent PARTITION OFFSET BODY      confirmed
both BODY                       confirmed, through an exchange to a stream and to a queue
"""

import itertools
import sys
import threading

import leveret
from tests.durability.children import say

BATCH = 20


def report(stream: leveret.Stream) -> None:
    """Say what is there."""
    for partition in range(stream.partitions):
        with stream.reader(partition, "first") as reader:
            while records := reader.read(10_000):
                for record in records:
                    say("has", partition, record.offset, record.body)
    say("go")


def send(stream: leveret.Stream, name: str) -> None:
    """Records of one producer, one by one and in batches, each with its number."""
    for number in itertools.count(step=BATCH):
        bodies = [f"{name}-{number + each}" for each in range(BATCH)]
        sent = [stream.send(bodies[0], key=name, producer=name, sequence=number)]
        sent += stream.send_many(bodies[1:], key=name, producer=name, sequence=number + 1)
        for place, body in zip(sent, bodies, strict=True):
            say("sent", place.partition, place.offset, body)


def publish(exchange: leveret.Exchange, name: str) -> None:
    """Messages for a stream and a queue alike."""
    for number in itertools.count():
        exchange.publish(name, f"{name}-{number}")
        say("both", f"{name}-{number}")


def main() -> None:
    path, life = sys.argv[1:]
    broker = leveret.open(path, segment_bytes=1 << 16)
    stream = broker.stream("clicks", partitions=3, segment_bytes=1 << 14)
    exchange = broker.exchange("all", "fanout")
    exchange.bind(broker.queue("copies"))
    exchange.bind("clicks")
    report(stream)
    threads = [threading.Thread(target=send, args=(stream, f"{life}{name}"), daemon=True) for name in "abc"]
    threads.append(threading.Thread(target=publish, args=(exchange, f"{life}x"), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
