"""Where the options of a server come from: flags win over the environment, that over the file, that over defaults.

Values are as people write them: `64MiB`, `10s`, `off`, `yes`.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

from leveret.cluster.coordination.etcd import EtcdEndpoint
from leveret.cluster.rpc.wire import MESSAGE_BYTES_MAX, check_name
from leveret.config import ServerOptions, StoreOptions
from leveret.core.errors import InvalidArgument
from leveret.protocols.net.addresses import can_be_called, host_names
from leveret.runtime.shared.keys import check_redis_url
from leveret.security.access import GUEST
from leveret.security.cluster_secret import check_secrets
from leveret.security.peers import is_loopback
from leveret.server.addresses import proxies_of
from leveret.server.authentication import backend_names
from leveret.storage.options import is_url, options_of, unknown_name

PREFIX = "LEVERET_"
CONFIG = PREFIX + "CONFIG"
NOT_OPTIONS = {CONFIG, *(PREFIX + name for name in ("SANITIZE", "URL", "TOKEN", "PROFILE"))}
"""Variables with our prefix that mean something else: the file, how extensions are built, whom commands ask."""
FILE_BYTES_MAX = 1 << 20
NODE_MESSAGE_BYTES_MAX = MESSAGE_BYTES_MAX // 2  # in a request of REST it is larger by a third, and has headers

OPTIONS: dict[str, "Field[Any]"] = {each.name: each for each in fields(ServerOptions)}
RENAMED = {"jwt_issuer": "oauth_issuer", "jwt_audience": "oauth_resource_server_id", "jwt_keys": "oauth_keys"}
"""Old names of options, which go on working."""
VALUE_CHARACTERS_MAX = 4_096  # a path or a URL fits

BYTES = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9}
MILLISECONDS = {"MS": 1, "S": 1_000, "M": 60_000, "H": 3_600_000}
SWITCHES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
OFF = ("off", "none", "")

AMOUNT = re.compile(r"(\d+(?:\.\d+)?) *([A-Za-z%]*)")


def variable(name: str) -> str:
    """The environment variable of an option."""
    return PREFIX + name.upper()


def flag(name: str) -> str:
    """The flag of an option."""
    return "--" + name.replace("_", "-")


def server_options(flags: Mapping[str, Any], environ: Mapping[str, str], config: str | None = None) -> ServerOptions:
    """The options of a server; what is unknown, malformed or contradictory is refused."""
    path = config or environ.get(CONFIG)
    given = {**(from_file(path) if path else {}), **from_environment(environ), **flags}
    options = ServerOptions(**{name: parse(OPTIONS[name], value) for name, value in given.items()})
    _check(options)
    return options


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the environment says."""
    names = {variable(name): RENAMED.get(name, name) for name in (*OPTIONS, *RENAMED)}
    found = {}
    for key, value in environ.items():
        if key.startswith(PREFIX) and key not in NOT_OPTIONS:
            if key not in names:
                raise unknown_name("environment variable", key, list(names))
            if names[key] in found:
                raise InvalidArgument(f"{names[key]} is in the environment twice, by an old name too: keep one")
            found[names[key]] = value
    return found


def from_file(path: str) -> dict[str, Any]:
    """What a configuration file says; a section is the first word of the names in it."""
    found: dict[str, Any] = {}
    for given, value in _flattened(_table(path)):
        name = RENAMED.get(given, given)
        if name not in OPTIONS:
            raise unknown_name(f"option in {Path(path).name}", name, list(OPTIONS))
        if name in found:
            raise InvalidArgument(
                f"{name} is in {path} twice, with its section and without, or by an old name: keep one"
            )
        found[name] = value
    return found


def _table(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgument(f"cannot read the configuration file {path}: {error.strerror}") from None
    if len(text) > FILE_BYTES_MAX:
        raise InvalidArgument(f"the configuration file {path} is over {FILE_BYTES_MAX} bytes: shorten it")
    try:
        return tomllib.loads(text.decode())
    except ValueError as error:
        raise InvalidArgument(f"the configuration file {path} is not TOML: {error}") from None


def _flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{key}_")
        else:
            yield prefix + key, value


def broker_options(options: ServerOptions) -> dict[str, Any]:
    """The part of the options that leveret.open takes."""
    return {each.name: getattr(options, each.name) for each in fields(StoreOptions)}


def _check(options: ServerOptions) -> None:
    """Refuse what is possible each for itself, but not together."""
    for name in ("tls_key", "tls_client_ca"):
        if getattr(options, name) and not options.tls_cert:
            raise InvalidArgument(f"{name} is given without tls_cert: give both")
    if options.tls_verify_client and not options.tls_client_ca:
        raise InvalidArgument("tls_verify_client needs tls_client_ca, which says whom to trust")
    if options.http_cert_login and not options.tls_client_ca:
        raise InvalidArgument("http_cert_login needs tls_client_ca, which verifies the certificates")
    if options.tls_crl and not options.tls_client_ca:
        raise InvalidArgument("tls_crl needs tls_client_ca, whose certificates it revokes")
    if options.amqp_port is None and (options.amqps_port is None or not options.tls_cert):
        raise InvalidArgument("there is no port to listen on: give amqp_port, or tls_cert with amqps_port")
    backend_names(options)
    host_names(options.http_hosts)
    if options.store is not None and not is_url(options.store):
        raise InvalidArgument("store is a URL such as postgresql://user@host/database: correct it")
    if options.cluster is not None:
        _check_node(options)
    if options.redis is not None:
        check_redis_url(options.redis)
    proxies_of(options)
    if options.default_password == GUEST[1] and options.default_user not in (None, GUEST[0]):
        # The well-known password is harmless only with the name that is let in from this machine alone.
        raise InvalidArgument("default_password is a well-known one: choose another, or leave it out for a random one")
    options_of(broker_options(options))


def _check_node(options: ServerOptions) -> None:
    """Refuse what cannot be a node."""
    missing = [variable(name) for name in ("store", "etcd", "cluster_secret") if not getattr(options, name)]
    if missing:
        raise InvalidArgument(
            f"cluster needs store, etcd and cluster_secret, the same on every node: give {', '.join(missing)}"
        )
    check_secrets(options)
    for name in ("cluster", "node"):
        if getattr(options, name) is not None:
            check_name(name, getattr(options, name))
    assert options.etcd is not None, "it is not missing"
    for endpoint in options.etcd.split(","):
        EtcdEndpoint.parse(endpoint.strip())
    if bool(options.etcd_tls_cert) != bool(options.etcd_tls_key):
        raise InvalidArgument("etcd_tls_cert and etcd_tls_key belong together: give both, or none")
    if options.announce is not None and not can_be_called(options.announce):
        raise InvalidArgument(f"announce is a host that others can call, without a port, not {options.announce!r}")
    if options.message_bytes_max > NODE_MESSAGE_BYTES_MAX:
        raise InvalidArgument(
            f"message_bytes_max of a node is at most {NODE_MESSAGE_BYTES_MAX}: one could not bring larger messages to "
            "another; send references to them"
        )
    files = (options.cluster_tls_cert, options.cluster_tls_key, options.cluster_tls_ca)
    if any(files) and not all(files):
        raise InvalidArgument("cluster_tls_cert, cluster_tls_key and cluster_tls_ca belong together: give all, or none")
    if options.cluster_tls_crl and not all(files):
        raise InvalidArgument("cluster_tls_crl needs cluster_tls_ca, whose certificates it revokes")
    host = options.host.split(",")[0].strip()
    if not (all(files) or options.cluster_plain or is_loopback(host)):
        raise InvalidArgument(
            f"what nodes tell each other at {host} would not be encrypted: give cluster_tls_cert, cluster_tls_key and "
            "cluster_tls_ca, or cluster_plain where no other party is on that network"
        )


def amount(text: str, units: dict[str, int], example: str) -> float:
    """A number with a unit, in the smallest unit."""
    match = AMOUNT.fullmatch(text.strip())
    factor = units.get(match[2].upper()) if match else None
    if match is None or factor is None:
        raise InvalidArgument(f"it is written like {example}")
    return float(match[1]) * factor


def whole(text: str) -> int:
    """A number; people may group its digits."""
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument("it is a whole number") from None


def switch(text: str) -> bool:
    """Yes or no."""
    if text.lower() not in SWITCHES:
        raise InvalidArgument("it is true or false")
    return SWITCHES[text.lower()]


AMOUNTS: dict[str, tuple[dict[str, int], str, Callable[[float], float]]] = {
    "_bytes": (BYTES, "64MiB or 65536", int),
    "_bytes_max": (BYTES, "64MiB or 65536", int),
    "_ms": ({"": 1} | MILLISECONDS, "200ms, 2s or 200", int),
    "_s": ({"": 1_000} | MILLISECONDS, "10s, 500ms or 10", lambda ms: ms / 1_000 if ms % 1_000 else int(ms) // 1_000),
    "_limit": (BYTES, "0.6 or 4GiB", float),
    "_ratio": ({"": 1}, "0.01", float),
}
"""What the end of a name says about a value, the first one that fits: units, an example, and the number that it is."""
COUNTS = ("_max", "_port")


def choices(option: "Field[Any]") -> tuple[str, ...]:
    """The words that an option may be; none when it may be any."""
    return get_args(option.type) if get_origin(option.type) is Literal else ()


def is_switch(option: "Field[Any]") -> bool:
    """Whether the option is yes or no."""
    return option.type is bool


def shown(option: "Field[Any]", value: Any = ...) -> str:
    """A value of an option as people write it, or its default."""
    value = cast("Any", option.default) if value is ... else value
    if value is None or value is False:
        return "off"
    if value is True:
        return "on"
    sized = [unit for unit in ("GiB", "MiB", "KiB") if "_bytes" in option.name and value % BYTES[unit.upper()] == 0]
    return f"{value // BYTES[sized[0].upper()]}{sized[0]}" if sized else str(value)


def parse(option: "Field[Any]", given: object) -> Any:
    """The value of an option, from text or from a configuration file; the error names the option."""
    text = str(given).strip()
    try:
        value = _value(option, text)
        _check_range(option, value)
    except InvalidArgument as error:
        shown = "..." if option.metadata["secret"] else repr(text[:80])
        raise InvalidArgument(f"{option.name} cannot be {shown}: {error}") from None
    return value


def _value(option: "Field[Any]", text: str) -> Any:
    """The value, its range not looked at."""
    words = choices(option)
    if len(text) > VALUE_CHARACTERS_MAX:
        raise InvalidArgument(f"it has at most {VALUE_CHARACTERS_MAX} characters")
    if words and text not in words:
        raise InvalidArgument(f"it is one of {', '.join(words)}")
    if is_switch(option):
        return switch(text)
    if text.lower() in OFF and type(None) in get_args(option.type):
        return None
    for ending, (units, example, number) in AMOUNTS.items():
        if option.name.endswith(ending):
            return number(amount(text, units, example))
    return whole(text) if option.name.endswith(COUNTS) or option.type is int else text


def _check_range(option: "Field[Any]", value: object) -> None:
    """Refuse a number that is too small or too large."""
    at_least, at_most = option.metadata["at_least"], option.metadata["at_most"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if value < at_least or (at_most is not None and value > at_most):
        raise InvalidArgument(f"it is at least {at_least}" + (f" and at most {at_most}" if at_most is not None else ""))
