"""Limits of a virtual host: how many connections and queues it may have. None is no limit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.names import check_name
from leveret.security.users import UNLIMITED, check_limit

_FIELDS = {"max-connections": "connections_max", "max-queues": "queues_max"}


@dataclass(frozen=True, slots=True)
class VhostLimits:
    """The limits of one virtual host."""

    vhost: str
    connections_max: int | None = None
    queues_max: int | None = None

    def __post_init__(self) -> None:
        check_name("vhost", self.vhost)
        for key, attribute in _FIELDS.items():
            check_limit(key, getattr(self, attribute))

    def values(self) -> dict[str, int]:
        """The limits that there are, by RabbitMQ's names."""
        limits = {key: getattr(self, attribute) for key, attribute in _FIELDS.items()}
        return {key: limit for key, limit in limits.items() if limit is not None}

    def to_dict(self) -> dict[str, Any]:
        """The definition, fit for JSON."""
        return {"vhost": self.vhost, "limits": self.values()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "VhostLimits":
        """The reverse of to_dict."""
        limits = stored["limits"]
        if not isinstance(limits, Mapping) or set(limits) - set(_FIELDS):
            raise InvalidArgument(f"the limits of a vhost are {', '.join(_FIELDS)}: remove the others")
        known = {_FIELDS[key]: None if limit == UNLIMITED else limit for key, limit in limits.items()}
        return cls(stored["vhost"], **known)
