"""Nodes with one deliberate mistake each: a run that lets one of them pass proves nothing.

    python -m tests.jepsen.mistakes early-confirm serve ...     is `leveret serve ...` with that mistake

early-confirm       clients are answered before the commit
confirm-cancelled   a commit whose wait for the standby was cancelled is taken for a good one
believe-refusal     an append that the epoch refuses is taken for one that was done before
no-proof            an owner goes on telling clients things when its lease has ended
no-look             nor does it look now and then whether there is a newer epoch
no-fence            the last three together
forget-settled      what clients acknowledged is not told to the next owner of a shard
forget-claims       what clients hold is not told to it
forget-offsets      a consumer of a stream begins anew there
trust-the-post      a letter leaves the outbox when it is sent, not when it has come
no-dedup            an outbox message that is sent again is taken again, and answers are not waited for
no-producers        a record that its producer sends again is taken again
stale-catalog       a node reads the definitions of the others when it starts, and never again
answer-early        a change of definitions is answered when it is in the log, whoever knows of it
old-copy            a node that stood still answers by the definitions that it had
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from secrets import token_hex
from typing import NamedTuple

from leveret.cli.main import main
from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.catalog.propagation import Propagation
from leveret.cluster.catalog.read_lease import ReadLease
from leveret.cluster.coordination.ownership import Ownership
from leveret.cluster.node import Node
from leveret.cluster.proxy.shard_channel import ProxyConsumer, ShardChannel
from leveret.cluster.proxy.shard_connection import ShardConnection
from leveret.cluster.shards.shard import Shard
from leveret.cluster.transfer import destination_sender
from leveret.cluster.transfer.message import OutboxBatch
from leveret.runtime.runtime import Runtime
from leveret.storage.journal.postgres.session import PostgresSession
from leveret.storage.journal.postgres.statements import PostgresTable
from leveret.storage.journal.postgres.store import TableStore
from leveret.storage.journal.postgres.table import SegmentRow
from leveret.storage.stream.index import Producers


def early_confirm() -> None:
    """See above."""

    commit = Runtime.commit

    def hasty(runtime: Runtime) -> int:
        frame = commit(runtime)
        if runtime._hears_durable is not None:
            runtime._hears_durable(frame)
        return frame

    _put(Runtime, "commit", hasty)


def confirm_cancelled() -> None:
    """See above."""
    _put(PostgresSession, "_notice", lambda session, notice: None)


def believe_refusal() -> None:
    """See above."""
    append = PostgresTable.append

    def believed(table: PostgresTable, row: SegmentRow) -> bool:
        append(table, row)
        return True

    _put(PostgresTable, "append", believed)


def no_proof() -> None:
    """See above."""
    _put(Ownership, "proven", lambda ownership, shard, now_ms: True)


def no_look() -> None:
    """See above."""
    _put(TableStore, "_check_owner", lambda store: None)


def no_fence() -> None:
    """See above."""
    believe_refusal()
    no_proof()
    no_look()


def forget_settled() -> None:
    """See above."""
    _put(ShardConnection, "_settle_again", lambda backend: None)


def forget_claims() -> None:
    """See above."""
    reopen = ShardChannel.reopen
    _put(ShardChannel, "reopen", lambda branch, held: reopen(branch, ()))


def forget_offsets() -> None:
    """See above."""
    _put(ProxyConsumer, "resumed", lambda consumer: consumer)


def trust_the_post() -> None:
    """See above."""
    post = Node.post

    def trusted(node: Node, home: str, batch: OutboxBatch, done: Callable[[int], None]) -> None:
        post(node, home, batch, lambda taken: None)
        node.wake(lambda: done(len(batch.messages)))

    _put(Node, "post", trusted)


def no_dedup() -> None:
    """See above."""
    bring = Shard.bring

    def anew(shard: Shard, batch: OutboxBatch, done: Callable[[int], None]) -> None:
        unheard = [
            each._replace(name=token_hex(16), metadata=replace(each.metadata, key="")) for each in batch.messages
        ]
        bring(shard, batch._replace(messages=unheard), done)

    _put(Shard, "bring", anew)
    _put(
        destination_sender, "ANSWER_MS", 0
    )  # kills alone let few letters come again: a bundle is under way for some milliseconds


def no_producers() -> None:
    """See above."""
    _put(Producers, "admits", lambda producers, name, sequence, now_ms: True)


def stale_catalog() -> None:
    """See above."""
    catch_up = ClusterCatalog.catch_up

    async def once(catalog: ClusterCatalog, then: Callable[[], None] = lambda: None) -> None:
        if catalog.version:
            then()
        else:
            await catch_up(catalog, then)

    _put(ClusterCatalog, "catch_up", once)


def answer_early() -> None:
    """See above."""
    spread = Propagation.wait_until_applied
    spreading: set[asyncio.Task[None]] = set()

    async def begun(knowledge: Propagation, version: int, announce: Callable[[int], None]) -> None:
        task = asyncio.create_task(spread(knowledge, version, announce))
        spreading.add(task)
        task.add_done_callback(spreading.discard)

    _put(Propagation, "wait_until_applied", begun)


def old_copy() -> None:
    """See above."""
    _put(ReadLease, "is_valid", True)


def _put(owner: object, name: str, value: object) -> None:
    """Replace what is there."""
    assert hasattr(owner, name), f"{owner} has no {name} any more: the mistake has to be made elsewhere"
    setattr(owner, name, value)


class Mistake(NamedTuple):
    """How it is made, and the faults that show it."""

    make: Callable[[], None]
    kinds: tuple[str, ...]
    faults: int = 3


MISTAKES = {
    "early-confirm": Mistake(early_confirm, ("kill a node that waits",), 1),
    "confirm-cancelled": Mistake(confirm_cancelled, ("cancel waits, fail PostgreSQL over",), 1),
    "believe-refusal": Mistake(believe_refusal, ("pause a node",), 4),
    "no-proof": Mistake(no_proof, ("pause a node",), 4),
    "no-look": Mistake(no_look, ("pause a node",), 4),
    "no-fence": Mistake(no_fence, ("pause a node",), 4),
    "forget-settled": Mistake(forget_settled, ("kill a node",), 6),
    "forget-claims": Mistake(forget_claims, ("kill a node",)),
    "forget-offsets": Mistake(forget_offsets, ("rolling restart",), 1),
    "trust-the-post": Mistake(trust_the_post, ("kill a node",)),
    "no-dedup": Mistake(no_dedup, ("kill a node",), 1),
    "no-producers": Mistake(no_producers, ("kill a node that waits",)),
    "stale-catalog": Mistake(stale_catalog, ("kill a node",), 1),
    "answer-early": Mistake(answer_early, ("kill a node",), 1),
    "old-copy": Mistake(old_copy, ("pause a node",), 4),
}

if __name__ == "__main__":
    MISTAKES[sys.argv.pop(1)].make()
    sys.exit(main())
