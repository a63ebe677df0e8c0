"""Rehearsal: messages of a past period are published to a virtual host of their own, at the pace of that time, where
other consumers take them; then what became of each is compared with what became of it at first.

    x-rehearsal-id    a header that says which message of the period a published one is
    slice             messages of one second at the chosen speed: a batch of the sink, published when it is due
    rehearsal.QUEUE   a fanout exchange for each queue into which messages came by another than the default exchange:
                      they reach this queue alone, with the routing keys that consumers and dead letters go by
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.client.broker import RemoteBroker, connect
from leveret.client.calls import ClientCall, nothing, path_of
from leveret.clock import SystemClock, closed_gate
from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.core.outcomes import ACKED, DEATHS
from leveret.spark.directories import pattern_of
from leveret.spark.edits import PUBLISHED, REHEARSAL_ID, cleaned
from leveret.spark.lifecycle import OPEN, ms_between
from leveret.spark.publishing import BATCH_ROWS, SinkBroker
from leveret.spark.report.service import percentile_names, percentiles, united
from leveret.spark.writing import write_parquet

SLICE_MS = 1_000
SLICES_MAX = 100_000
"""Each is a job of Spark: a longer period is rehearsed more quickly, or in parts."""
SPEED_MAX = 1_000_000
POLL_MS = 200
END_S = 10
"""How long a consumer that is told to end may take."""
COUNTS = ("messages", "delivered", "redelivered", "acked", "dead", "discarded", "open")
TIMES = (*percentile_names("waiting_ms"), *percentile_names("processing_ms"))
MISSING = "missing"


def originals(messages: DataFrame, vhost: str, chosen: Collection[str], speed: float) -> DataFrame:
    """The messages of a period as they are published again, with the slice in which they are.

    Dead letters of chosen queues are left out: the rehearsal makes its own. All queues are chosen if none is named.
    """
    origin = F.element_at("x_death", -1)["queue"]
    own = F.lit(False) if not chosen else ~origin.isin(*chosen)
    found = messages.where((F.col("vhost") == vhost) & F.col("value").isNotNull() & (origin.isNull() | own))
    direct = (F.col("exchange") == "") & (F.col("routing_key") == F.col("queue"))
    delay_ms = ms_between(F.col("enqueued_at"), F.col("due_at"))
    header = F.create_map(F.lit(REHEARSAL_ID), F.col("id"))
    kept = F.coalesce("headers", F.create_map().cast("map<string,string>"))
    rows = cleaned(found).withColumns(
        {
            "id": F.concat_ws("-", "queue_id", "offset"),
            "exchange": F.when(direct, "").otherwise(F.concat(F.lit("rehearsal."), "queue")),
            "delay_ms": F.when(delay_ms > 0, (delay_ms / speed).cast("bigint"))
            if speed
            else F.lit(None).cast("bigint"),
        }
    )
    ordered = rows.withColumn("headers", F.map_concat(kept, header)).orderBy("enqueued_at", "offset").coalesce(1)
    since_start = ms_between(F.lit(_first(messages)), F.col("enqueued_at"))
    number = since_start / (SLICE_MS * speed) if speed else F.monotonically_increasing_id() / BATCH_ROWS
    return ordered.select("id", "queue", "enqueued_at", "offset", F.floor(number).alias("slice"), *PUBLISHED)


def _first(messages: DataFrame) -> Any:
    (row,) = messages.agg(F.min("enqueued_at")).collect()
    return row[0]


def checked_speed(speed: float) -> float:
    """A speed; refuses one that is none."""
    if not 0 <= speed <= SPEED_MAX:
        raise InvalidArgument(f"speed={speed!r}: give 1 for the original pace, 10 for ten times it, 0 for no pace")
    return speed


@dataclass(frozen=True)
class Slices:
    """Messages that are put aside, by the second in which they are published."""

    folder: str
    rows: DataFrame
    numbers: tuple[int, ...]
    queues: tuple[str, ...]
    exchanges: tuple[tuple[str, str], ...]
    """Exchanges to make, with their queues."""
    messages: int


def put_aside(rows: DataFrame, folder: str) -> Slices:
    """Write messages, a folder for each slice."""
    files = write_parquet(rows, folder, order=("slice", "enqueued_at", "offset"), folders=("slice",), mode="overwrite")
    numbers = {int(path.parent.name.partition("=")[2]) for path in files if path.parent.name.startswith("slice=")}
    if not numbers:
        raise PreconditionFailed("there is no message to rehearse: name another time, queue or --vhost")
    last = max(numbers)
    if last >= SLICES_MAX:
        raise InvalidArgument(f"the period takes {last:,} s at this speed, over {SLICES_MAX:,}: give a greater --speed")
    written = rows.sparkSession.read.schema(rows.schema).parquet(pattern_of(folder))
    ways = [tuple(way) for way in written.select("queue", "exchange").distinct().collect()]
    exchanges = sorted((exchange, queue) for queue, exchange in ways if exchange)
    queues = tuple(sorted({queue for queue, _ in ways}))
    return Slices(folder, written, tuple(sorted(numbers)), queues, tuple(exchanges), written.count())


def publish(slices: Slices, broker: SinkBroker, sink: str, *, paced: bool, told: Callable[[int, int], None]) -> int:
    """Publish each slice when it is due; how many milliseconds the one that was latest was late."""
    clock, late_ms = SystemClock(), 0
    begin_ms = clock.now_ms()
    schema = slices.rows.drop("slice").schema
    for done, number in enumerate(slices.numbers):
        due_ms = begin_ms + number * SLICE_MS if paced else 0
        if due_ms > clock.now_ms():
            clock.wait(closed_gate(), due_ms)
        elif paced:
            late_ms = max(late_ms, clock.now_ms() - due_ms)
        place = pattern_of(os.path.join(slices.folder, f"slice={number}"))
        rows = slices.rows.sparkSession.read.schema(schema).parquet(place).coalesce(1)
        broker.publish(rows.sort("enqueued_at", "offset").select(*PUBLISHED), sink, number)
        told(done + 1, len(slices.numbers))
    return late_ms


class RehearsalVhost:
    """A virtual host that is made for a rehearsal, with the queues, exchanges, bindings and policies of another one."""

    def __init__(self, url: str, token: str | None, name: str) -> None:
        self.name = name
        self._url, self._token = url, token
        self._server = connect(url, token=token)
        self._inside = connect(url, token=token, vhost=name)

    def close(self) -> None:
        self._inside.close()
        self._server.close()

    def create(self, original: str) -> None:
        """Make it, for this user, out of what another virtual host has now."""
        if self.name in {row["name"] for row in self._ask("GET", "/vhosts")}:
            raise PreconditionFailed(f"vhost '{self.name}' exists already: give --into another name")
        definitions = self._ask("GET", path_of("definitions", original))
        everything = dict.fromkeys(("configure", "write", "read"), ".*")
        self._ask("PUT", path_of("vhosts", self.name), {"description": f"rehearsal of {original}"})
        self._ask("PUT", path_of("permissions", self.name, self._ask("GET", "/whoami")["name"]), everything)
        self._ask("POST", path_of("definitions", self.name), definitions)

    def delete(self) -> None:
        """Remove it with everything in it."""
        self._ask("DELETE", path_of("vhosts", self.name))

    def prepare(self, slices: Slices) -> None:
        """Refuse queues that are not defined; make what brings messages into single queues."""
        known = {queue.name for queue in self._inside.queues()}
        if missing := [queue for queue in slices.queues if queue not in known]:
            raise PreconditionFailed(
                f"queue '{missing[0]}' is not defined on the server any more ({len(missing)} such): declare it first, "
                "or leave it out by --queue"
            )
        for exchange, queue in slices.exchanges:
            self._inside.exchange(exchange, "fanout").bind(queue)

    def seal(self) -> None:
        """Have everything that happened so far written."""
        _call(self._server, "POST", "/operator/journal.seal", {})

    def environment(self, amqp_url: str | None) -> dict[str, str]:
        """What tells a consumer where to connect to."""
        found = {"LEVERET_URL": self._url, "LEVERET_VHOST": self.name}
        if self._token is not None:
            found["LEVERET_TOKEN"] = self._token
        if url := amqp_url or self._amqp_url():
            parts = urlsplit(url)
            found["AMQP_URL"] = urlunsplit((parts.scheme, parts.netloc, f"/{quote(self.name, safe='')}", "", ""))
        return found

    def _amqp_url(self) -> str | None:
        """Where the server listens, at the host and for the user that are known of it."""
        parts = urlsplit(self._url.split(",")[0])
        user = parts.netloc.rpartition("@")[0]
        if self._token is not None:
            user = f"{quote(self._ask('GET', '/whoami')['name'], safe='')}:{quote(self._token, safe='')}"
        listeners = {row["protocol"]: row["port"] for row in self._ask("GET", "/overview")["listeners"]}
        for scheme, protocol in (("amqp", "amqp"), ("amqps", "amqp/ssl"), ("amqps", "amqps")):
            if protocol in listeners:
                host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
                return f"{scheme}://{f'{user}@' if user else ''}{host}:{listeners[protocol]}"
        return None

    def drained(self, queues: Collection[str], patience_s: float, consumer: subprocess.Popen[bytes] | None) -> bool:
        """Wait until every queue is empty; False when nothing changed for so long, or the consumer has ended.

        Without a consumer of ours the time begins with the first delivery: one may take any time to start.
        """
        clock, before = SystemClock(), None
        since_ms = clock.now_ms()
        while True:
            ended = consumer is not None and consumer.poll() is not None
            stats = [self._inside.queue(name, create=False).stats() for name in queues]
            if not any(each.ready + each.leased + each.scheduled + each.backing_off for each in stats):
                return True
            now = [(each.ready, each.leased, each.delivered, each.acked, each.nacked) for each in stats]
            idle = consumer is None and not any(each.delivered for each in stats)
            if now != before or idle:
                before, since_ms = now, clock.now_ms()
            if ended or clock.now_ms() - since_ms > patience_s * 1000:
                return False
            clock.wait(closed_gate(), clock.now_ms() + POLL_MS)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return _call(self._server, method, f"/api{path}", body)


def _call(broker: RemoteBroker, method: str, path: str, body: Any) -> Any:
    read = (lambda answer: answer.json()) if method == "GET" else nothing
    return broker.run(ClientCall(method, path, read, body))


def command(text: str) -> list[str]:
    """The words of a command line."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(f"--consumer {text!r}: {error}") from None
    if not words:
        raise InvalidArgument("--consumer is empty: give a command, such as 'python worker.py'")
    return words


@contextmanager
def consuming(words: list[str] | None, told: Mapping[str, str], log: str) -> Iterator[subprocess.Popen[bytes] | None]:
    """Run a consumer, if a command is given; it ends with the block."""
    if words is None:
        yield None
        return
    try:
        with open(log, "wb") as output:
            process = subprocess.Popen(
                words, env={**os.environ, **told}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise InvalidArgument(f"--consumer {words[0]!r} cannot be run: {error.strerror}") from None
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def figures(lives: DataFrame, suffix: str = "") -> DataFrame:
    """What became of the messages of each queue, and how long they took."""
    is_dead = F.col("outcome").isin(*DEATHS)
    counts: dict[str, Column] = {
        "messages": F.count("*"),
        "delivered": F.sum("deliveries"),
        "redelivered": F.count_if(F.col("deliveries") > 1),
        "acked": F.count_if(F.col("outcome").isin(*ACKED)),
        "dead": F.count_if(is_dead & F.col("dead_lettered")),
        "discarded": F.count_if(is_dead & ~F.col("dead_lettered")),
        "open": F.count_if(F.col("outcome") == OPEN),
    }
    told = lives.groupBy("queue").agg(
        *(count.alias(name) for name, count in counts.items()),
        *percentiles("waiting_ms"),
        *percentiles("processing_ms"),
    )
    return told.select("queue", *(F.col(name).alias(name + suffix) for name in (*COUNTS, *TIMES)))


def compared(before: DataFrame, now: DataFrame) -> DataFrame:
    """Each queue: every figure as it is (`NAME`) and as it was (`NAME_before`)."""
    return united([figures(now), figures(before, "_before")], ("queue",)).fillna(
        0, [name + suffix for name in COUNTS for suffix in ("", "_before")]
    )


def fates(published: DataFrame, before: DataFrame, now: DataFrame, again: DataFrame) -> DataFrame:
    """Each message that was published again: how it ended then and now; `again` are the messages of the rehearsal."""
    facts = ("outcome", "deliveries", "waiting_ms", "processing_ms")
    came = again.where("x_death is null").select(
        F.col("headers")[REHEARSAL_ID].alias("id"), "queue", "queue_id", "offset"
    )
    # What consumers publish may have the header, too: the first is ours.
    first = came.where("id is not null").groupBy("id", "queue", "queue_id").agg(F.min("offset").alias("seq"))
    ended = first.join(now.drop("queue"), ["queue_id", "seq"]).select("id", "queue", *facts)
    was = before.select(
        F.concat_ws("-", "queue_id", "seq").alias("id"), *(F.col(name).alias(f"{name}_before") for name in facts)
    )
    rows = published.select("id", "queue", "message_id", "correlation_id", "enqueued_at")
    found = rows.join(was, "id", "left").join(ended, ["id", "queue"], "left")
    whole = found.withColumn("outcome", F.coalesce("outcome", F.lit(MISSING)))
    return whole.withColumn("differs", ~_kind("outcome").eqNullSafe(_kind("outcome_before")))


def _kind(name: str) -> Column:
    """An outcome, where every acknowledgement is one."""
    return F.when(F.col(name).isin(*ACKED), ACKED[0]).otherwise(F.col(name))
