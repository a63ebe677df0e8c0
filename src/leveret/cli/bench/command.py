"""`leveret bench`: rates and latencies of a server, from one publisher and one consumer."""

import secrets
import threading
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from leveret.cli.bench import amqp, sqs
from leveret.cli.bench.plan import QUANTILES, STAMP_BYTES, Plan, Race
from leveret.cli.connection import is_here
from leveret.cli.output import ProgressLine, as_json, in_short, print_table
from leveret.cli.parser import JSON, Command, argument, positive, whole
from leveret.core.errors import InvalidArgument, LeveretError, Unreachable

SECONDS_MAX = 600.0
COUNT_MAX = 100_000_000
SIZE_BYTES_MAX = 100_000  # one frame of AMQP, whatever the server negotiates
WINDOW_MAX = 10_000
TURN_S = 0.1
NEAR_SHARE = 0.7  # of its own ceiling, above which the figures are those of this program

LOADS: dict[str, ModuleType] = {"amqp": amqp, "amqps": amqp, "http": sqs, "https": sqs}


def run(given: Namespace) -> int:
    """Measure, and say what can be said of it."""
    load = LOADS.get(urlsplit(given.url).scheme)
    if load is None:
        raise InvalidArgument(f"the URL begins with one of {', '.join(LOADS)}")
    if not given.yes and not is_here(urlsplit(given.url).hostname or ""):
        raise InvalidArgument("this is not your own machine, and a benchmark is a load: say --yes if that is meant")
    plan = Plan(
        url=given.url,
        queue=f"leveret-bench-{secrets.token_hex(6)}",
        size_bytes=given.size,
        seconds=given.seconds,
        count=given.count,
        window=given.window,
        rate=given.rate,
        queue_type=given.queue_type,
        ca_file=given.ca_file,
    )
    result = measured(load, plan)
    if given.json:
        print(as_json(result))
    else:
        show(result)
    return 0


def measured(load: ModuleType, plan: Plan) -> dict[str, Any]:
    """The result of one measurement; its queue is removed in any case."""
    ceiling = load.ceiling(plan)
    try:
        load.prepare(plan)
    except OSError as error:
        problem = f"cannot connect to {endpoint(plan.url)} ({error.strerror or error}): see whether it runs"
        raise Unreachable(problem) from None
    try:
        race = Race(plan)
        threads = [side(race, load.consume), side(race, load.publish, race.published)]
        with ProgressLine("measuring", None, in_short) as progress:
            while any(thread.is_alive() for thread in threads):
                threads[0].join(TURN_S)
                progress.add(race.sent.count - progress.done)
    finally:
        with suppress(LeveretError, OSError):  # what went wrong before is what is told
            load.clean(plan)
    if race.failure is not None:
        raise race.failure
    return {
        "endpoint": endpoint(plan.url),
        "size_bytes": plan.size_bytes,
        "window": plan.window,
        "published": race.sent.result(race.began_s),
        "consumed": race.received.result(race.began_s),
        "lost": race.sent.count - race.received.count,
        "generator_per_second_max": round(ceiling),
    }


def endpoint(url: str) -> str:
    """A URL without who asks."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def side(race: Race, work: Callable[[Race], None], done: threading.Event | None = None) -> threading.Thread:
    """One side of the race in a thread of its own; what ends it early ends the other one too."""

    def run() -> None:
        try:
            work(race)
        except (LeveretError, OSError) as error:
            race.failure = race.failure or error
        finally:
            if done is not None:
                done.set()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def show(result: dict[str, Any]) -> None:
    """Print the result for people."""
    rows = [
        {"": name, "messages": side["messages"], "per second": side["per_second"], **side["latency_ms"]}
        for name, side in (("confirmed", result["published"]), ("end to end", result["consumed"]))
    ]
    print_table(rows, ("", "messages", "per second", *QUANTILES))
    ceiling, best = result["generator_per_second_max"], result["published"]["per_second"]
    print(f"latencies in milliseconds; bodies of {result['size_bytes']} bytes, {result['window']} unconfirmed at most")
    print(f"this program itself could do {ceiling} messages per second", end="")
    near = "; the result is near that: the server may be faster" if best > NEAR_SHARE * ceiling else ""
    print(near)
    if result["lost"]:
        print(f"{result['lost']} messages did not come back in time")


ARGUMENTS = (
    argument("url", metavar="URL", help="amqp(s)://USER:PASSWORD@HOST:PORT/VHOST, or http(s)://HOST:PORT for SQS"),
    argument("--seconds", type=positive(SECONDS_MAX), default=5.0, metavar="S", help="how long; default: 5"),
    argument("--count", type=whole(1, COUNT_MAX), default=COUNT_MAX, metavar="N", help="at most so many messages"),
    argument(
        "--size",
        type=whole(STAMP_BYTES, SIZE_BYTES_MAX),
        default=100,
        metavar="BYTES",
        help="of each body; default: 100",
    ),
    argument(
        "--window",
        type=whole(1, WINDOW_MAX),
        default=500,
        metavar="N",
        help="publishes without a confirm; default: 500",
    ),
    argument("--rate", type=positive(1e6), metavar="N", help="at most so many in a second; default: no limit"),
    argument("--queue-type", choices=("classic", "quorum"), help="what the queue is, with AMQP"),
    argument("--ca-file", metavar="FILE", help="who signed the certificate of the server"),
    argument("--yes", action="store_true", help="also on another machine: its users will notice"),
    JSON,
)
COMMAND = Command(
    ARGUMENTS,
    run,
    (
        "leveret bench amqp://guest:guest@localhost:5672 --seconds 1",
        "leveret bench amqp://localhost:5672 --count 1000 --size 1000 --window 1 --seconds 2 --json",
        "leveret bench http://localhost:9324 --seconds 1 --count 100",
    ),
)
