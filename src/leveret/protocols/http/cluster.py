"""What an endpoint adds to the scope of its operation on a node of a cluster, and what the node offers for that.

    scope      the endpoint may add
    shard      after: what the catalog changes once the shard is done; finish: completes the answer
    catalog    finish
    shards     scatter: the request to each shard, by default the same one to all that have queues; merge: their answers
    nodes      merge
    node       merge: the answer for a node that does not answer

Where an operation runs is in the registry of operations alone: see cluster/forwarding/dispatcher.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from leveret.core.broker import Broker
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Answer, Answered

T = TypeVar("T")
UNANSWERED = "X-Leveret-Unanswered"
"""The nodes and shards whose part an answer lacks: they did not answer in time."""


class Parts(NamedTuple):
    """The answers of shards or nodes, by name."""

    values: dict[str, Any]
    """The JSON of those that succeeded."""
    missing: Sequence[str]
    """The names of those that did not answer."""
    answers: Mapping[str, Answer]
    """All answers, as they came."""


class InCluster(NamedTuple):
    """What an endpoint adds; each function takes the call of its protocol."""

    merge: Callable[[Any, Parts], Answered] | None = None
    scatter: Callable[[Any], Mapping[str, Request]] | None = None
    after: Callable[[Any], Callable[[Broker], Any]] | None = None
    finish: Callable[[Any, Answer], Awaitable[Answer]] | None = None
    raw: bool = False
    """Whether `merge` reads answers as they came, refusals among them, and names itself what they lack."""


PLAIN = InCluster()


class Cluster(Protocol):
    """The nodes of a cluster, for one of them."""

    @property
    def name(self) -> str: ...  # the name of this node
    @property
    def names(self) -> Sequence[str]: ...  # the names of all nodes that are present
    def shard_ids(self, vhost: str | None = None) -> Sequence[str]:
        """The shards that have queues of a virtual host, or of any."""

    def all_shard_ids(self) -> Sequence[str]: ...  # every shard
    def shard_id_of(self, vhost: str, queue: str) -> str: ...  # the shard of a queue
    def owner_of(self, shard_id: str) -> str | None: ...  # the node that owns a shard; None if no node does now
    def ask(self, shard_id: str, request: Request, resend: bool = False) -> Answered:
        """The answer of a shard; `resend`: the request may be sent twice."""

    async def ask_shards(self, requests: Mapping[str, Request], resend: bool = True) -> Parts:
        """The answers of some shards, as far as they come in time."""

    async def rows(
        self, kind: str, vhost: str, names: Iterable[str], options: Mapping[str, Any] = ...
    ) -> Mapping[str, dict[str, Any] | None]:
        """Queues or streams as their shards describe them for an API; None: auto-deleted a moment ago."""


ALONE = cast("Cluster", None)
"""The cluster of a server that is in none: no function of InCluster is called there."""


async def awaited(result: T | Awaitable[T]) -> T:
    """What comes at once or later, such as an answer."""
    return await result if isinstance(result, Awaitable) else result


def marked(answer: Answer, missing: Iterable[str]) -> Answer:
    """An answer that names the shards and nodes whose part it lacks."""
    names = ", ".join(missing)
    if names:
        answer.headers = (*answer.headers, (UNANSWERED, names))
    return answer
