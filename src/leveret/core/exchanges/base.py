"""What every exchange has: its declaration, its bindings in the order they were made, and the hooks of a type."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from leveret.core.jsonable import canonical, encode

Arguments = Mapping[str, Any]
Identity = tuple[str, str, str, str]
DECLARED = ("name", "type", "durable", "auto_delete", "internal")
"""What a declaration says beside its arguments."""


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A rule that leads from an exchange to a queue or to another exchange."""

    source: str
    destination: Any
    key: str
    arguments: Arguments
    order: int

    @property
    def destination_type(self) -> str:
        """Either "exchange" or "queue"."""
        return destination_type(self.destination)

    def to_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "destination": self.destination.name,
            "destination_type": self.destination_type,
            "routing_key": self.key,
            "arguments": encode(self.arguments),
        }


def destination_type(destination: object) -> str:
    """What a binding leads to; queues are opaque here."""
    return "exchange" if isinstance(destination, Exchange) else "queue"


class Exchange:
    """A named router. Subclasses index bindings so that `matches` need not look at all of them."""

    # May a route through this exchange be remembered by its routing key alone?
    cacheable: bool = True
    # Arguments that a redeclaration must repeat.
    compared: ClassVar[tuple[str, ...]] = ("alternate-exchange", "x-delayed-type", "hash-header", "hash-property")

    def __init__(
        self,
        name: str,
        type: str,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments: Arguments = dict(arguments or {})
        self.delays = False
        self.alternate: str | None = None
        self.bindings: dict[Identity, Binding] = {}
        self._order = 0

    def bind(self, destination: Any, key: str = "", arguments: Arguments | None = None) -> Binding | None:
        """Add a binding; None when the same one is there already."""
        arguments = dict(arguments or {})
        identity = self._identity(destination, key, arguments)
        if identity in self.bindings:
            return None
        self.check_binding(destination, key, arguments)
        self._order += 1
        binding = Binding(self.name, destination, key, arguments, self._order)
        self.bindings[identity] = binding
        self.added(binding)
        return binding

    def unbind(self, destination: Any, key: str = "", arguments: Arguments | None = None) -> Binding | None:
        """Remove a binding; None when there is no such one."""
        binding = self.bindings.pop(self._identity(destination, key, arguments or {}), None)
        if binding is not None:
            self.removed(binding)
        return binding

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        """The destinations of a message in binding order; one may come more than once. This base has none."""
        return ()

    def check_binding(self, destination: Any, key: str, arguments: Arguments) -> None:
        """Refuse a binding that this type cannot read."""

    def added(self, binding: Binding) -> None:
        """Index a new binding."""

    def removed(self, binding: Binding) -> None:
        """Take a binding out of the index."""

    def to_dict(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in DECLARED}, "arguments": encode(self.arguments)}

    @staticmethod
    def _identity(destination: Any, key: str, arguments: Arguments) -> Identity:
        """What makes two bindings of this exchange the same."""
        return destination_type(destination), destination.name, key, canonical(arguments) if arguments else ""
