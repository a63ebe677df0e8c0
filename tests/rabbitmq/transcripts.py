"""Transcripts of all scenarios: made by several players at once, kept as text, compared line by line.

    == name of the scenario
    what the server said, line by line

Those in the folder `recorded` are RabbitMQ's. `python -m tests.rabbitmq.record` makes them anew.
"""

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.rabbitmq.scenarios import (
    arguments,
    channels,
    consuming,
    endings,
    exchanges,
    policies,
    publishing,
    queues,
    quorum,
    streams,
)
from tests.rabbitmq.script import Run, Script

RECORDED = Path(__file__).parent / "recorded"
TOPICS = (arguments, channels, consuming, endings, exchanges, policies, publishing, queues, quorum, streams)
TITLE = "== "

Address = tuple[str, int, str]
Transcripts = dict[str, list[str]]


def scripts() -> dict[str, Script]:
    """All scenarios, by topic and name."""
    return {
        f"{topic.__name__.rpartition('.')[2]}: {name}": script
        for topic in TOPICS
        for name, script in topic.SCENARIOS.items()
    }


def played(addresses: Sequence[Address], names: Collection[str] | None = None, patience: float = 1.0) -> Transcripts:
    """The transcripts of scenarios, or of all; each address (host, port and virtual host) plays one at a time."""
    free: SimpleQueue[Address] = SimpleQueue()
    for address in addresses:
        free.put(address)

    def play(script: Script) -> list[str]:
        address = free.get()
        run = Run(*address, patience)
        try:
            return run.play(script)
        except (AssertionError, OSError) as error:  # of one scenario: the others go on, and it may be played again
            run.clean(script)
            return [f"not played to its end: {error!r}"]
        finally:
            free.put(address)

    named = {name: script for name, script in scripts().items() if names is None or name in names}
    with ThreadPoolExecutor(len(addresses)) as players:
        return dict(zip(named, players.map(play, named.values()), strict=True))


def written(transcripts: Transcripts, topic: str) -> str:
    """The transcripts of a topic as text."""
    chosen = {name: lines for name, lines in transcripts.items() if name.startswith(f"{topic}: ")}
    return "\n".join("\n".join([TITLE + name, *lines, ""]) for name, lines in chosen.items())


def recorded() -> Transcripts:
    """What RabbitMQ said."""
    return {
        name: lines for path in sorted(RECORDED.glob("*.txt")) for name, lines in parsed(path.read_text().splitlines())
    }


def parsed(lines: Iterable[str]) -> list[tuple[str, list[str]]]:
    """The reverse of written."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith(TITLE):
            found.append((line.removeprefix(TITLE), []))
        elif line:
            found[-1][1].append(line)
    return found
