"""Queues as SQS sees them: those of one virtual host, with what is known about each beside its arguments.

RedrivePolicy       {"deadLetterTargetArn": "arn:aws:sqs:...", "maxReceiveCount": 5}
RedriveAllowPolicy  {"redrivePermission": "allowAll" | "denyAll" | "byQueue", "sourceQueueArns": [...]}
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from leveret.core.definition_log import Kind
from leveret.core.queue import Queue as CoreQueue
from leveret.protocols.sqs.attributes import FIXED, core_arguments, core_attributes, defaults, is_kept, parsed
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.settings import Settings
from leveret.runtime.queue import RuntimeQueue
from leveret.runtime.runtime import Runtime

RECEIVES_MAX = 1_000
RECEIVES_DEFAULT = 10
SOURCES_MAX = 10
PERMISSIONS = ("allowAll", "denyAll", "byQueue")
FIFO_SUFFIX = ".fifo"
FORGOTTEN_MIN = 100  # queues that are gone, before they are looked for
ORDERED = frozenset(("fifo", "fifo-batch"))


class RedrivePolicy(NamedTuple):
    """The queue for dead letters, and how often a message is received before it goes there."""

    target: str
    receives_max: int

    def arguments(self) -> dict[str, Any]:
        """The same for the core."""
        return {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self.target,
            "x-max-receive-count": self.receives_max,
        }


NAMES = tuple(RedrivePolicy("", 1).arguments())


def read_redrive_policy(value: str, settings: Settings) -> RedrivePolicy | None:
    """The policy in an attribute; None when that is empty."""
    if not value:
        return None
    policy = parsed(value)

    def refused(reason: str) -> SqsError:
        return invalid(f"Value {value} for parameter RedrivePolicy is invalid. Reason: {reason}")

    if not isinstance(policy, dict):
        raise refused("Redrive policy is not a valid JSON map.")
    arn, count = policy.get("deadLetterTargetArn"), policy.get("maxReceiveCount", RECEIVES_DEFAULT)
    if not isinstance(arn, str):
        raise refused("Redrive policy does not contain mandatory attribute: deadLetterTargetArn.")
    if isinstance(count, str) and count.isdecimal() and len(count) < 9:
        count = int(count)
    if type(count) is not int or not 1 <= count <= RECEIVES_MAX:
        raise refused(
            f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to {RECEIVES_MAX} both inclusive."
        )
    target = settings.queue_of(arn)
    if target is None:
        raise refused("Dead letter target does not exist.")
    return RedrivePolicy(target, count)


def check_allow_policy(value: str) -> None:
    """Refuse an allow policy that makes no sense."""
    policy = parsed(value) if value else {}
    permission, sources = policy.get("redrivePermission", "allowAll"), policy.get("sourceQueueArns")
    by_queue = permission == "byQueue"
    if permission not in PERMISSIONS or (sources is not None) != by_queue or (by_queue and not _are_sources(sources)):
        raise SqsError("InvalidAttributeValue", name="RedriveAllowPolicy")


def _are_sources(value: Any) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= SOURCES_MAX and all(isinstance(each, str) for each in value)


def allows_source(value: str | None, source_arn: str) -> bool:
    """Whether a queue takes the dead letters of another."""
    policy = parsed(value) if value else {}
    permission = policy.get("redrivePermission", "allowAll")
    return permission == "allowAll" or (permission == "byQueue" and source_arn in policy["sourceQueueArns"])


class SqsQueue:
    """One queue. `details` are kept in the catalog of the core; `handle` has the verbs on it."""

    __slots__ = ("arn", "core", "details", "fifo", "handle", "name", "purged_ms")

    def __init__(self, core: CoreQueue, handle: RuntimeQueue, arn: str, details: dict[str, Any]) -> None:
        self.core = core
        self.handle = handle
        self.name = core.name
        self.arn = arn
        self.fifo = core.name.endswith(FIFO_SUFFIX) and core.policy.groups in ORDERED
        self.details = details
        self.purged_ms = -(1 << 62)

    @property
    def kept(self) -> dict[str, str]:
        kept: dict[str, str] = self.details["attributes"]
        return kept

    @property
    def tags(self) -> dict[str, str]:
        tags: dict[str, str] = self.details["tags"]
        return tags

    @property
    def attributes(self) -> dict[str, str]:
        policy = self.core.policy
        found = {**defaults(self.fifo), **core_attributes(policy, self.fifo), **self.kept}
        if self.fifo:
            found["FifoQueue"] = "true"
        if "RedrivePolicy" not in found and policy.dead_letter_exchange == "" and policy.dead_letter_routing_key:
            limit = policy.max_deliveries
            if limit is not None:
                target = self.arn.removesuffix(self.name) + policy.dead_letter_routing_key
                found["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": limit})
        return {name: value for name, value in found.items() if value != ""}

    @property
    def wait_s(self) -> int:
        return int(self.kept.get("ReceiveMessageWaitTimeSeconds", "0"))


def name_of(url: str) -> str:
    """What a URL calls a queue."""
    start, _, name = url.rpartition("/")
    return unquote(name, errors="surrogateescape") if start and "%" in name else name


class Queues:
    """All of them, found by name; what was found is kept."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        self.runtime = runtime
        self._core = runtime.core
        self._settings = settings
        self._known: dict[int, SqsQueue] = {}
        self._sources: dict[str, set[str]] = {}
        """Names of queues that have, or once had, a redrive policy, by the queue that their dead letters go to."""
        self._version = -1
        """Of the details in the catalog, which others change when they take in definitions."""
        self._reread()

    def _reread(self) -> None:
        """Learn anew what is said about queues."""
        for row in self._core.catalog.of(Kind.QUEUE_DETAILS):
            if row["vhost"] == self._settings.vhost:
                self._note_target(row["name"], row["attributes"])
        for queue in self._known.values():
            queue.details = self._details(queue.core)
        self._version = self._core.catalog.versions[Kind.QUEUE_DETAILS]

    def heard(self, row: dict[str, Any]) -> None:
        """Something else is said about one queue, by another node."""
        if row["vhost"] == self._settings.vhost:
            self._note_target(row["name"], row.get("attributes", {}))
            virtual_host = self._core.topology.vhosts.get(self._settings.vhost)
            core = None if virtual_host is None else virtual_host.queues.get(row["name"])
            known = None if core is None else self._known.get(core.id)
            if known is not None:
                known.details = self._details(known.core)
        self._version = self._core.catalog.versions[Kind.QUEUE_DETAILS]

    def find(self, name: str) -> SqsQueue | None:
        """The queue of that name, unless it belongs to a connection."""
        if self._core.catalog.versions[Kind.QUEUE_DETAILS] != self._version:
            self._reread()
        virtual_host = self._core.topology.vhosts.get(self._settings.vhost)
        core: CoreQueue | None = None if virtual_host is None else virtual_host.queues.get(name)
        if core is None or core.owner is not None:
            return None
        return self._known.get(core.id) or self._learn(core)

    def get(self, name: str) -> SqsQueue:
        found = self.find(name)
        if found is None:
            raise SqsError("QueueDoesNotExist")
        return found

    def of_url(self, url: str) -> SqsQueue:
        """The queue that a URL names; its name alone will do."""
        return self.get(name_of(url))

    def __iter__(self) -> Iterator[SqsQueue]:
        return self.after("")

    def after(self, name: str, prefix: str = "") -> Iterator[SqsQueue]:
        """Those behind a name, of those that begin so. Under the lock."""
        virtual_host = self._core.topology.vhosts.get(self._settings.vhost)
        for each in virtual_host.queue_names.after(name, prefix) if virtual_host is not None else ():
            found = self.find(each)
            if found is not None:
                yield found

    def _learn(self, core: CoreQueue) -> SqsQueue:
        found = SqsQueue(core, RuntimeQueue(self.runtime, core), self._settings.arn(core.name), self._details(core))
        self._known[core.id] = found
        if len(self._known) > 2 * len(self._core.queues) + FORGOTTEN_MIN:
            self._known = {number: each for number, each in self._known.items() if not each.core.deleted}
        return found

    def _details(self, core: CoreQueue) -> dict[str, Any]:
        stored = self._core.catalog.get(Kind.QUEUE_DETAILS, vhost=core.vhost, name=core.name) or {}
        since_s = (core.created_ms or self._core.now_ms) // 1000
        return {"created_s": since_s, "modified_s": since_s, "attributes": {}, "tags": {}, "purges": 0, **stored}

    # Changes, under the lock

    def create(self, name: str, attributes: dict[str, str], tags: dict[str, str]) -> SqsQueue:
        groups = "fifo-batch" if name.endswith(FIFO_SUFFIX) else "fair"
        arguments = {"x-message-groups": groups, **core_arguments(attributes)}
        self._core.declare_queue(self._settings.vhost, name, arguments)
        queue = self.get(name)
        queue.details |= {"created_s": self._core.now_ms // 1000, "tags": tags}
        self.change(queue, attributes)
        self.reconnect(name)
        return queue

    def change(self, queue: SqsQueue, attributes: dict[str, str]) -> None:
        """Set attributes; an empty one is taken away. What is fixed at the creation is told, and has no effect."""
        now = core_attributes(queue.core.policy, queue.fifo)
        kept = {**queue.kept, **{name: value for name, value in attributes.items() if is_kept(name)}}
        kept = {name: value for name, value in kept.items() if now.get(name) != value}
        queue.details |= {"attributes": kept, "modified_s": self._core.now_ms // 1000}
        self.keep(queue)
        changes = {name: value for name, value in attributes.items() if name not in FIXED}
        arguments = {**(queue.core.arguments or {}), **core_arguments(changes)}
        if "RedrivePolicy" in attributes:
            self._note_target(queue.name, attributes)
            arguments = self._redriven(queue, arguments)
        self._apply(queue, arguments)

    def keep(self, queue: SqsQueue) -> None:
        names = {"vhost": queue.core.vhost, "name": queue.name}
        self._core.define(Kind.QUEUE_DETAILS, {**names, **queue.details})
        self._version += 1

    def delete(self, queue: SqsQueue) -> None:
        self._core.delete_queue(queue.core)
        self._known.pop(queue.core.id, None)
        self.reconnect(queue.name)

    def _apply(self, queue: SqsQueue, arguments: dict[str, Any]) -> None:
        if arguments != (queue.core.arguments or {}):
            self._core.change_queue(queue.core, arguments)

    # Dead letters

    def redrive_policy(self, queue: SqsQueue) -> RedrivePolicy | None:
        return self._read(queue.attributes)

    def _read(self, attributes: dict[str, str]) -> RedrivePolicy | None:
        """The redrive policy in attributes; one that names another account or region (they were changed) is none."""
        try:
            return read_redrive_policy(attributes.get("RedrivePolicy", ""), self._settings)
        except SqsError:
            return None

    def _note_target(self, source: str, attributes: dict[str, str]) -> None:
        policy = self._read(attributes)
        if policy is not None:
            self._sources.setdefault(policy.target, set()).add(source)

    def sources(self, name: str) -> list[SqsQueue]:
        """The queues whose dead letters go to a queue. Under the lock."""
        policies = ((each, self.redrive_policy(each)) for each in self)
        return [each for each, policy in policies if policy is not None and policy.target == name]

    def reconnect(self, name: str) -> None:
        """A queue came or went: messages that would die for it wait in their own queue as long as it is not there."""
        for source in map(self.find, sorted(self._sources.get(name, ()))):
            policy = None if source is None else self._read(source.kept)
            if source is not None and policy is not None and policy.target == name:
                self._apply(source, self._redriven(source, dict(source.core.arguments or {})))

    def _redriven(self, queue: SqsQueue, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments with the dead letters where the redrive policy wants them, if there is such a queue."""
        others = {name: value for name, value in arguments.items() if name not in NAMES}
        policy = self._read(queue.kept)
        if policy is None or self.find(policy.target) is None:
            return others
        return {**others, **policy.arguments()}
