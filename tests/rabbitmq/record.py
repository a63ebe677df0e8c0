"""Ask a RabbitMQ of our own, and keep its answers: python -m tests.rabbitmq.record."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.rabbitmq import rabbit
from tests.rabbitmq.transcripts import RECORDED, TOPICS, played, written


def main() -> None:
    """Write the transcripts of every topic."""
    with TemporaryDirectory() as directory, rabbit.playing(Path(directory)) as addresses:
        transcripts = played(addresses)
    RECORDED.mkdir(exist_ok=True)
    for topic in TOPICS:
        name = topic.__name__.rpartition(".")[2]
        (RECORDED / f"{name}.txt").write_text(written(transcripts, name))


if __name__ == "__main__":
    main()
