"""What the verbs of an operator work on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leveret.core.broker import Broker
from leveret.security.access import Access

Verb = Callable[..., Any]
"""Takes a Site and arguments by name; gives what is fit for JSON."""


@dataclass(frozen=True, slots=True)
class Site:
    """A core and who may use it; verbs run under the lock of the core. `facts` are what else `status` tells."""

    core: Broker
    access: Access
    facts: Callable[[], dict[str, Any]] = dict
