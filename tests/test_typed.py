"""The keywords of the public API, for type checkers: right calls pass mypy --strict and pyright, misspelt ones do not.

`python -m tests.test_typed` prints what both say about each wrong call.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import get_type_hints

import pytest

import leveret
from leveret.config import Options
from leveret.core.filters import Filter
from leveret.runtime.declare import OPTIONS
from leveret.runtime.keywords import Conditions, OpenOptions, QueueOptions, SendOptions
from leveret.runtime.outgoing import Outgoing
from tests.conftest import need
from tests.sources import ROOT

RIGHT = """
broker: leveret.Broker = leveret.open("data", sync="interval", interval_ms=50, clock=leveret.ManualClock())
orders: leveret.Queue = broker.queue("orders", max_priority=10, dead_letter="dead", backoff=[1, 5.5], create=True)
sent: str = orders.send({"n": 1}, priority=3, delay=1.5, headers={"tenant": "a"})
many: list[str | None] = orders.send_many([1, leveret.Outgoing(2, priority=1)], group="g")
taken: list[leveret.Message] = orders.receive(10, wait=20, visibility_timeout=60)
clicks: leveret.Stream = broker.stream("clicks", partitions=3, max_age="7D")
at: leveret.Appended = clicks.send(b"x", key="k", producer="p", sequence=1)
routed: str | None = broker.exchange("events", "topic").publish("a.b", b"x", ttl=60)
moved: leveret.RedriveResult = orders.redrive(limit=5, contains="x")


@orders.worker(concurrency=4, idempotent=True)
def work(message: leveret.Message) -> None: ...


remote: leveret.RemoteBroker = leveret.connect("http://127.0.0.1", token="t", timeout=3)
far: leveret.RemoteQueue = remote.queue("orders", ttl=5, create=False)
seen: list[leveret.RemoteMessage] = far.receive(10, wait=20)
away: str = far.send(1, dedup_id="k")
log: leveret.RemoteStream = remote.stream("clicks", max_bytes=5)


async def main() -> None:
    async with leveret.aopen("data", sync="never") as here:
        near: leveret.AsyncQueue = await here.queue("orders", ttl=5)
        kept: str = await near.send(1, priority=3)
        held: list[leveret.AsyncMessage] = await near.receive(wait=20)
    async with leveret.aconnect("http://127.0.0.1", retries=3) as client:
        queue: leveret.AsyncRemoteQueue = await client.queue("orders", max_length=5)
        sent: str = await queue.send(1, priority=3)
        taken: list[leveret.AsyncRemoteMessage] = await queue.receive()
"""
WRONG = """
leveret.open("data", synk="always")
leveret.open("data", sync="sometimes")
leveret.open("data", segment_byte=1)
leveret.connect("http://127.0.0.1", tokn="t")
leveret.connect("http://127.0.0.1", timeout="3")
leveret.aconnect("http://127.0.0.1", retry=3)
leveret.aopen("data", synk="always")
leveret.AsyncQueue(orders).send(1, prioritty=3)
leveret.AsyncQueue(orders).browse(containz="x")
leveret.AsyncStream(clicks).send(1, kee="k")
broker.queue("orders", visibility_timout=5)
broker.queue("orders", max_retry=5)
broker.queue("orders", dead_leter="dead")
broker.queue("orders", overflow="reject")
broker.queue("orders", creat=False)
broker.declare_queues(["a"], maxpriority=3)
broker.stream("clicks", partition=3)
broker.exchange("events", "topic", durabel=True)
broker.exchange("events").publish("a.b", b"x", prority=1)
orders.send(1, prioritty=3)
orders.send(1, delay="5")
orders.send(1, delay_seconds=5)
orders.send_many([1], dedupid="k")
orders.receive(10, wiat=20)
orders.consume(print, prefetsch=5)
orders.worker(concurency=4)
orders.run(print, idempotnt=True)
orders.browse(containz="x")
orders.redrive(limt=5)
orders.discard(contain="x")
orders.sned(1)
clicks.send(1, kee="k")
clicks.send_many([1], sequense=1)
clicks.reader(filter=["a"])
clicks.iterate(match_unfilterd=True)
remote.queue("orders", visibility_timout=5)
remote.stream("clicks", max_agee="7D")
far.send(1, prioritty=3)
far.send_many([1], headrs={})
far.worker(concurency=4)
far.redrive(containz="x")
log.send(1, kee="k")
log.reader(filter=["a"])
"""


def program(folder: Path, calls: str = "") -> Path:
    """The right calls, and then others."""
    path = folder / "calls.py"
    path.write_text(f"import leveret\n{RIGHT}\n{calls}")
    return path


def mypy(path: Path) -> dict[int, str]:
    """What mypy says about each line; its cache is that of `make check`."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {int(line): said for line, said in re.findall(r"calls\.py:(\d+): error: (.*)", done.stdout)}


def pyright(path: Path) -> dict[int, str]:
    """What pyright says about each line."""
    need(find_spec("pyright") is not None, "pyright")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(path)]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
    rows = json.loads(done.stdout)["generalDiagnostics"]
    return {row["range"]["start"]["line"] + 1: row["message"] for row in rows if row["severity"] == "error"}


def test_the_tables_of_keywords_are_those_of_the_code() -> None:
    assert get_type_hints(OpenOptions) == get_type_hints(Options)
    assert QueueOptions.__annotations__.keys() == OPTIONS.keys()
    assert SendOptions.__annotations__.keys() == set(Outgoing._fields) - {"body"}
    assert Conditions.__annotations__.keys() == {
        {"since_ms": "since", "until_ms": "until"}.get(each.name, each.name) for each in fields(Filter) if each.init
    }


def test_what_the_verbs_give_can_be_imported() -> None:
    kinds = [kind for name in leveret.__all__ if isinstance(kind := getattr(leveret, name), type)]
    verbs = [(name, verb) for kind in kinds for base in kind.__mro__ for name, verb in vars(base).items()]
    public = [getattr(verb, "fget", verb) for name, verb in verbs if not name.startswith("_")]
    told = " ".join(str(getattr(verb, "__annotations__", {}).get("return")) for verb in public if callable(verb))
    named = {name for name in re.findall(r"\b[A-Z]\w+", told) if name.endswith(("Stats", "Result", "Report", "ment"))}
    assert "Assignment" in named
    assert named <= {*leveret.__all__}


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_right_calls_pass_and_every_misspelt_one_is_refused(
    checker: Callable[[Path], dict[int, str]], tmp_path: Path
) -> None:
    path = program(tmp_path, WRONG)
    lines = path.read_text().splitlines()
    refused = {lines[number - 1] for number in checker(path)}
    assert refused == set(WRONG.split("\n")[1:-1])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        written = program(Path(folder), WRONG)
        by_mypy, by_pyright = mypy(written), pyright(written)
        for number, line in enumerate(written.read_text().splitlines(), 1):
            if number in by_mypy:
                print(f"{line}\n    mypy     {by_mypy[number]}\n    pyright  {by_pyright[number].splitlines()[0]}")
