"""What queues are declared with: equal arguments are kept once, however many queues have them, and read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leveret.core.arguments import queue_type_of
from leveret.core.jsonable import canonical, encode
from leveret.core.policy import Policy, QueuePolicy, effective
from leveret.core.topology import Vhost

KNOWN_MAX = 10_000  # kinds of queues; when there are more they are not shared


@dataclass(frozen=True, slots=True)
class Declared:
    """Arguments that were checked, and what they amount to without any policy."""

    arguments: Mapping[str, Any] | None
    stored: Any
    queue_type: str
    policy: QueuePolicy

    def policy_in(self, virtual_host: Vhost, name: str) -> QueuePolicy:
        """The settings of a queue of this kind in a virtual host."""
        policies: list[Policy] = [*virtual_host.policies.values()]
        caps: list[Policy] = [*virtual_host.operator_policies.values()]
        if not policies and not caps:
            return self.policy
        return effective(self.arguments or {}, name, self.queue_type, policies, caps, vhost=virtual_host.name)


class Kinds:
    """The kinds of queues that exist."""

    def __init__(self) -> None:
        self._known: dict[str, Declared] = {}
        # Arguments that are kept here are the same object for ever, so that it can stand for them.
        self._kept: dict[int, Declared] = {}

    def of(self, arguments: Mapping[str, Any] | None, name: str, vhost: str) -> Declared:
        """The kind that these arguments make; `name` and `vhost` are for the refusal of bad ones."""
        found = self._kept.get(id(arguments))
        if found is not None:
            return found
        key = canonical(arguments) if arguments else ""
        found = self._known.get(key)
        if found is None:
            given = dict(arguments or {})
            kind = queue_type_of(given, name, vhost)
            found = Declared(given or None, encode(given), kind, effective(given, name, kind, vhost=vhost))
            if len(self._known) < KNOWN_MAX:
                self._known[key] = self._kept[id(found.arguments)] = found
        return found
