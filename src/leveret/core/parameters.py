"""Global parameters: small values under a name that tools keep in the broker, journaled as definitions."""

import json
from typing import Any

from leveret.core.broker import Broker
from leveret.core.definition_log import Kind
from leveret.core.errors import InvalidArgument, NotFound, TooMany
from leveret.core.names import check_name

PARAMETERS_MAX = 1_000
VALUE_BYTES_MAX = 65_536  # each is in every checkpoint


def all_parameters(core: Broker) -> dict[str, Any]:
    """Every parameter, by name."""
    found = {stored["name"]: stored["value"] for stored in core.catalog.of(Kind.GLOBAL_PARAMETER)}
    return dict(sorted(found.items()))


def put_parameter(core: Broker, name: str, value: Any) -> None:
    """Add or replace a parameter."""
    check_name("parameter", name)
    if len(json.dumps(value)) > VALUE_BYTES_MAX:
        raise InvalidArgument(f"the value of parameter '{name}' is over {VALUE_BYTES_MAX} bytes: shorten it")
    known = all_parameters(core)
    if name not in known and len(known) >= PARAMETERS_MAX:
        raise TooMany(f"there are {PARAMETERS_MAX} global parameters: delete some")
    core.define(Kind.GLOBAL_PARAMETER, {"name": name, "value": value})


def drop_parameter(core: Broker, name: str) -> None:
    """Forget a parameter."""
    if name not in all_parameters(core):
        raise NotFound(f"no global parameter '{name}': list them to see which there are")
    core.undefine(Kind.GLOBAL_PARAMETER, {"name": name})
