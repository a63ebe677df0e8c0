"""What the verbs of an operator work on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leveret.alerting.service import Alerting
from leveret.core.broker import Broker
from leveret.security.access import Access

OPERATOR = "(operator)"
"""Who does things by verbs, to those who read of it: whoever runs the server."""

Verb = Callable[..., Any]
"""Takes a Site and arguments by name; gives what is fit for JSON."""


@dataclass(frozen=True, slots=True)
class Site:
    """A core and who may use it; verbs run under the lock of the core.

    `facts` are what else `status` tells; `alerts` looks at queues where a server runs.
    """

    core: Broker
    access: Access
    facts: Callable[[], dict[str, Any]] = dict
    alerts: Alerting | None = None
