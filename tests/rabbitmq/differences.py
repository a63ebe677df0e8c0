"""Where Leveret answers otherwise than the RabbitMQ that was asked (3.10), and why.

`EVERYWHERE` are small things that are put aside before transcripts are compared. `SCENARIOS` are answers that differ
as a whole; what Leveret says instead is in intended.txt.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.rabbitmq.transcripts import Address, Transcripts, parsed, played, recorded

PATIENCE = (1.0, 1.0, 4.0, 16.0)  # of each attempt, the later ones alone: a busy machine says much too late
SAID = recorded()
INTENDED = dict(parsed((Path(__file__).parent / "intended.txt").read_text().splitlines()))


class Detail(NamedTuple):
    """What is left out of a line, and why."""

    pattern: re.Pattern[str]
    reason: str


OURS = (
    Detail(
        re.compile(r", 'x-last-death-(exchange|queue|reason)': '[^']*'"),
        "RabbitMQ 4 tells of the latest death, too; 3.10 did not",
    ),
    Detail(
        re.compile(r", 'x-origin-id': '[^']*'"),
        "a dead letter names the message that it was, so that a redrive finds it",
    ),
    Detail(
        re.compile(r"'x-acquired-count': \d+, "),
        "RabbitMQ 4.3 counts all deliveries there; 3.10 did not",
    ),
    Detail(
        re.compile(r"(?<=prefetch count is not set for )stream "),
        "RabbitMQ 4 puts it in these words",
    ),
    Detail(
        re.compile(r", 'x-received': \d+"),
        "a dead letter says how often it was delivered before it died: receivers by SQS go on counting",
    ),
)
THEIRS = (
    Detail(
        re.compile(r"headers=\{'x-delivery-count': 0\}|, 'x-delivery-count': 0"),
        "basic.get from a quorum queue counts from the second delivery on, as basic.deliver does",
    ),
    Detail(
        re.compile(r"(?<=prefetch count is not set for )'|(?<=vhost '/')'(?=\", class_id=60)"),
        "RabbitMQ 4 names a stream without quotes",
    ),
    Detail(
        re.compile(r"(?<=acknowledgement not supported by stream )queues "),
        "RabbitMQ 4 puts it in these words",
    ),
)

SCENARIOS: dict[str, str] = {
    "arguments: declare x-delivery-limit=5": "classic queues have delivery limits here",
    "arguments: declare x-queue-mode='odd'": "x-queue-mode has no effect, whatever it says",
    "arguments: declare x-queue-type='quorum', x-queue-mode='lazy'": "x-queue-mode has no effect on any queue",
    "arguments: declare nothing, then x-queue-mode='lazy'": "x-queue-mode has no effect, so it need not be repeated",
    "arguments: declare x-queue-leader-locator='client-local'": "RabbitMQ 4 takes it for classic queues, too",
    "arguments: declare x-queue-type='quorum', x-delivery-limit='5'": "a limit that is no number is refused",
    "channels: shared prefetch: what is got does not count": (
        "what was got before the prefetch was set does not count; in RabbitMQ it does, even after it is settled"
    ),
    "channels: single active: cancelled while it holds something": (
        "the next active consumer is given what waits at once, not with the next message"
    ),
    "endings: length: what is held does not count": "what comes back is never dropped for the length of a queue",
    "endings: length: priorities": "a full queue drops the lowest priority, not the highest",
    "endings: dead: CC is a key, too": "BCC is forgotten when a message is published",
    "endings: dead: a history of the client's own": "only the broker counts deaths, as in RabbitMQ 4",
    "endings: dead: a history that is none": "only the broker writes of deaths, as in RabbitMQ 4",
    "endings: dead: republished by a client": "only the broker counts deaths, as in RabbitMQ 4",
    "exchanges: unknown type": "since 3.13 an unknown type closes the channel only",
    "publishing: x-death from a client": "only the broker writes of deaths",
    "quorum: prefetch of a whole channel": "a prefetch of a whole channel works with every queue",
    "quorum: what comes back tells how often": "what comes back goes to its old place, in quorum queues, too",
    "quorum: returned messages come first, in the order of their return": "what comes back goes to its old place",
    "quorum: exclusive consumer": "exclusive consumers are alone on quorum queues, too",
    "quorum: exclusive consumer beside another": "exclusive consumers are alone on quorum queues, too",
    "streams: declare x-max-age='odd'": "a bad value is refused; in RabbitMQ it is an error of the server",
    "streams: declare x-single-active-consumer=True": "a stream may have a single active consumer",
    "streams: consume from 'odd'": "a bad place is refused; in RabbitMQ it is an error of the server",
    "streams: consume from b'odd'": "a bad place is refused; in RabbitMQ it is an error of the server",
    "streams: consume from True": "a bad place is refused; in RabbitMQ it is an error of the server",
    "streams: consume, exclusive": "exclusive consumers are alone on streams, too",
    "streams: consume, exclusive, beside another": "exclusive consumers are alone on streams, too",
    "streams: nack": "it is credit, as in RabbitMQ 4",
    "streams: reject": "it is credit, as in RabbitMQ 4",
    "streams: CC and BCC": "records keep all of their headers",
    "streams: a dead letter": "streams take dead letters; in RabbitMQ this one is lost",
    "streams: delete if empty": "a stream with records is not deleted under that condition",
    "streams: delete if unused, while it is used": "a stream with consumers is not deleted under that condition",
    "streams: declare passively": "the count is that of now; RabbitMQ looks at it every few seconds",
}


def expected(name: str) -> list[str]:
    """What Leveret should answer, without what is put aside."""
    return INTENDED.get(name) or without(THEIRS, SAID[name])


def without(details: tuple[Detail, ...], lines: list[str]) -> list[str]:
    """Lines without what is put aside."""
    for detail in details:
        lines = [detail.pattern.sub("", line) for line in lines]
    return lines


def answered(addresses: Sequence[Address], names: Collection[str]) -> Transcripts:
    """What Leveret says to scenarios, without its details; those not answered as expected are played again."""
    said: Transcripts = {}
    left = set(names)
    for attempt, patience in enumerate(PATIENCE):
        again = played(addresses[:1] if attempt else addresses, left, patience)
        said |= {name: without(OURS, lines) for name, lines in again.items()}
        left = {name for name in again if said[name] != expected(name)}
    return said
