"""Policies: settings that apply to queues and exchanges by a pattern of their names, and what they amount to.

queue arguments  >  policy  >  defaults       but the minimum of both for expires, message-ttl, max-length(-bytes)
operator policy: caps whatever came out
"""

from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field, fields
from typing import Any
from weakref import WeakValueDictionary

from leveret.core.arguments import ARGUMENTS, Backoff, QueueArgument, parse, text, usable
from leveret.core.errors import InvalidArgument
from leveret.core.jsonable import canonical, encode, restored
from leveret.core.names import check_name
from leveret.core.patterns import checked, pattern, problem_of

PATTERN_CHARS_MAX = 1_000  # it is searched in the name of every queue
PRIORITY_MAX = 2**31 - 1
QUORUM_DELIVERY_LIMIT = 20
QUORUM_PRIORITY_MAX = 31  # as in RabbitMQ 4.3: quorum queues have priorities without an argument
ALTERNATE_EXCHANGE = "alternate-exchange"

_QUEUES = frozenset(("classic", "quorum", "stream"))
APPLY_TO: dict[str, frozenset[str]] = {
    "all": _QUEUES | {"exchange"},
    "queues": _QUEUES,
    "classic_queues": frozenset(("classic",)),
    "quorum_queues": frozenset(("quorum",)),
    "streams": frozenset(("stream",)),
    "exchanges": frozenset(("exchange",)),
}
# Settings of RabbitMQ that files of definitions are full of, and that have no meaning here.
WITHOUT_EFFECT = frozenset(
    [
        "federation-upstream",
        "federation-upstream-set",
        "federation-upstream-pattern",
        "ha-mode",
        "ha-params",
        "ha-sync-mode",
        "ha-sync-batch-size",
        "ha-promote-on-shutdown",
        "ha-promote-on-failure",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "queue-master-locator",
        "target-group-size",
    ]
)
_BY_KEY: dict[str, QueueArgument] = {row.policy_key: row for row in ARGUMENTS.values() if row.by_policy}
_NO_BACKOFF = Backoff()
_MINIMUM = tuple(str(row.field) for row in ARGUMENTS.values() if row.minimum)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class QueuePolicy:
    """Every setting of a queue, read once; None is "no such limit"."""

    queue_type: str = "classic"
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = "drop-head"
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    dead_letter_strategy: str = "at-most-once"
    delivery_limit: int | None = None
    max_receives: int | None = None
    max_priority: int = 0
    priority_mode: str = "strict"
    priority_ageing_ms: int = 10_000
    single_active_consumer: bool = False
    lease_ms: int | None = None
    delay_ms: int = 0
    retention_ms: int | None = None
    backoff: Backoff = _NO_BACKOFF
    dedup_window_ms: int = 300_000
    dedup_scope: str = "queue"
    content_dedup: bool = False
    max_message_bytes: int | None = None
    groups: str = "off"
    consumer_timeout_ms: int | None = None
    max_age_ms: int | None = None
    segment_bytes: int | None = None
    partitions: int = 1

    @property
    def holds_dead_letters(self) -> bool:
        """Whether a dead letter stays in its queue until all of its targets have it: not where others are dropped."""
        return self.dead_letter_strategy == "at-least-once" and self.overflow == "reject-publish"

    @property
    def max_deliveries(self) -> int | None:
        """How often a message may be handed out: RabbitMQ's limit counts what comes back, SQS's what goes out."""
        return _smaller(None if self.delivery_limit is None else self.delivery_limit + 1, self.max_receives)


_FIELDS = tuple(each.name for each in fields(QueuePolicy))
# Weak, so that settings which no queue has any more are forgotten.
_interned: WeakValueDictionary[tuple[Any, ...], QueuePolicy] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Policy:
    """A named set of settings for whatever its pattern is found in."""

    name: str
    pattern: str
    priority: int = 0
    apply_to: str = "all"
    definition: Mapping[str, Any] = field(default_factory=dict)
    operator: bool = False
    stored: InitVar[bool] = False
    problem: str | None = field(default=None, init=False, repr=False, compare=False)
    """Why a stored pattern cannot be used: such a policy applies to nothing."""
    _values: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self, stored: bool) -> None:
        check_name("policy", self.name)
        if not isinstance(self.apply_to, str) or self.apply_to not in APPLY_TO:
            raise InvalidArgument(f"apply-to is one of {', '.join(APPLY_TO)}, not '{self.apply_to}'")
        if type(self.priority) is not int or abs(self.priority) > PRIORITY_MAX:
            raise InvalidArgument(f"the priority of policy '{self.name}' is an integer of at most {PRIORITY_MAX}")
        if not isinstance(self.definition, Mapping):
            raise InvalidArgument(f"the definition of policy '{self.name}' is an object of settings")
        canonical(self.definition)
        values = {key: self._read(key, value) for key, value in self.definition.items()}
        if stored:
            object.__setattr__(self, "problem", problem_of(self.pattern))
        else:
            checked("the pattern of a policy", self.pattern, PATTERN_CHARS_MAX)
        object.__setattr__(self, "_values", values)

    def matches(self, kind: str, name: str) -> bool:
        """Whether it applies to a "classic", "quorum" or "stream" queue, or to an "exchange", of that name."""
        return kind in APPLY_TO[self.apply_to] and self.problem is None and pattern(self.pattern).matches(name)

    def settings(self, queue_type: str) -> dict[str, Any]:
        """The QueuePolicy fields that it sets on a queue of that type."""
        rows = ((_BY_KEY[key], value) for key, value in self._values.items() if key in _BY_KEY)
        return {row.field: value for row, value in rows if row.field is not None and queue_type in row.queue_types}

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pattern": self.pattern,
            "priority": self.priority,
            "apply-to": self.apply_to,
            "definition": encode(self.definition),
            "operator": self.operator,
        }

    def shown(self) -> dict[str, Any]:
        """The definition for operators, with its problem if it has one."""
        return self.to_dict() | ({} if self.problem is None else {"problem": self.problem})

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Policy":
        """The reverse of to_dict; a pattern that cannot be used any more is kept, and applies to nothing."""
        return cls(
            stored["name"],
            stored["pattern"],
            stored.get("priority", 0),
            stored.get("apply-to", "all"),
            usable(restored(stored.get("definition", {}))),
            stored.get("operator", False),
            stored=True,
        )

    def _read(self, key: str, value: object) -> Any:
        row = _BY_KEY.get(key)
        if key in WITHOUT_EFFECT:
            return None
        if not recognised(key):
            raise InvalidArgument(f"'{key}' is not a recognised policy setting: remove it from policy '{self.name}'")
        if not recognised(key, self.operator):
            raise InvalidArgument(f"'{key}' cannot be set by an operator policy: set it by a policy")
        try:
            return text(value) if row is None else row.parse(value)
        except ValueError as error:
            raise InvalidArgument(f"invalid value of '{key}' in policy '{self.name}': {error}") from None


def recognised(key: str, operator: bool = False) -> bool:
    """Whether a policy, or an operator policy, may have a setting of that name."""
    row = _BY_KEY.get(key)
    if key in WITHOUT_EFFECT:
        return True
    return (
        row.by_operator
        if operator and row is not None
        else not operator and (row is not None or key == ALTERNATE_EXCHANGE)
    )


def best(policies: Iterable[Policy], kind: str, name: str) -> Policy | None:
    """The one policy that applies: the highest priority; among equals the first by name."""
    matching = (policy for policy in policies if policy.matches(kind, name))
    return min(matching, key=lambda policy: (-policy.priority, policy.name), default=None)


def alternate_exchange(arguments: Mapping[str, Any], exchange: str, policies: Iterable[Policy]) -> str | None:
    """Where an exchange sends what it cannot route."""
    if ALTERNATE_EXCHANGE in arguments:
        return str(arguments[ALTERNATE_EXCHANGE])
    policy = best(policies, "exchange", exchange)
    return None if policy is None else policy.definition.get(ALTERNATE_EXCHANGE)


def effective(
    arguments: Mapping[str, Any],
    queue_name: str,
    queue_type: str = "classic",
    policies: Iterable[Policy] = (),
    operator_policies: Iterable[Policy] = (),
    *,
    vhost: str = "/",
) -> QueuePolicy:
    """The settings of a queue after all that speaks about it."""
    own = parse(arguments, queue_name, queue_type, vhost)
    policy = best(policies, queue_type, queue_name)
    given = policy.settings(queue_type) if policy is not None else {}
    merged: dict[str, Any] = {"queue_type": queue_type, **_defaults(queue_type), **given, **own}
    for shared in (each for each in _MINIMUM if each in own and each in given):
        merged[shared] = min(own[shared], given[shared])
    operator = best(operator_policies, queue_type, queue_name)
    for capped, most in (operator.settings(queue_type) if operator is not None else {}).items():
        merged[capped] = _smaller(merged.get(capped), most)
    return _intern(QueuePolicy(**_with_backoff(merged)))


def _defaults(queue_type: str) -> dict[str, Any]:
    """Where a type's defaults differ from the dataclass."""
    quorum = {"delivery_limit": QUORUM_DELIVERY_LIMIT, "max_priority": QUORUM_PRIORITY_MAX}
    return quorum if queue_type == "quorum" else {}


def _smaller(one: int | None, other: int | None) -> int | None:
    """The more conservative of two limits; None is no limit."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _with_backoff(merged: dict[str, Any]) -> dict[str, Any]:
    """The backoff fields gathered into one object."""
    parts = {key.removeprefix("backoff_"): merged.pop(key) for key in tuple(merged) if key.startswith("backoff_")}
    if isinstance(parts.get("kind"), tuple):
        parts |= {"kind": "list", "list_ms": parts["kind"]}
    return {**merged, "backoff": Backoff(**parts)} if parts else merged


def _intern(policy: QueuePolicy) -> QueuePolicy:
    """One object for equal settings: 100,000 idle queues share it."""
    return _interned.setdefault(tuple(getattr(policy, each) for each in _FIELDS), policy)
