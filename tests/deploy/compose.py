"""The compose file: what it names is there, images are pinned, secrets are outside, and brokers take their options."""

import re
from collections.abc import Iterator
from typing import Any

from leveret.config import ServerOptions
from tests.deploy.checks import DEPLOY, EXAMPLE, default_ports, documents, refused, unpinned, unprotected

FOLDER = DEPLOY / "compose"
KEYS = {
    "build", "command", "depends_on", "entrypoint", "environment", "healthcheck", "image", "ports", "restart",
    "stop_grace_period", "user", "volumes",
}  # fmt: skip
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
VARIABLE = re.compile(r"\$\{(\w+)[^}]*\}")
SECRET_NAME = re.compile(r"PASSWORD|SECRET")
ENGINES = {"broker": 3, "postgres": 3, "etcd": 3, "redis": 1, "objects": 1}
PATRONI = {
    "synchronous_mode": "quorum",
    "synchronous_mode_strict": True,
    "failsafe_mode": True,
    "ttl": 20,
    "loop_wait": 2,
    "retry_timeout": 4,
    "primary_start_timeout": 0,
}
"""Without each of these a failover may lose what was confirmed, or take longer than it has to."""
CONNECTIONS_MAX = {"shard": 5, "node": 5, "people": 10}
"""Of a shard: for its log, questions, upkeep, streams and large bodies. Of a node: two for definitions, one for groups,
and two while it moves a shard."""
POSTGRESQL = {
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "fsync": "on",
    "statement_timeout": 0,
    "ssl": "on",
    "ssl_cert_file": "/certificates/postgres/tls.crt",
    "ssl_key_file": "/certificates/postgres/tls.key",
}


def whole() -> dict[str, Any]:
    """The file."""
    (found,) = documents(FOLDER / "compose.yaml")
    assert isinstance(found, dict)
    return found


def check() -> Iterator[str]:
    """The compose file, its variables, and Patroni's own file."""
    yield from problems(whole())
    yield from _variables((FOLDER / "compose.yaml").read_text(), (FOLDER / ".env.example").read_text())
    (settings,) = documents(FOLDER / "patroni" / "patroni.yml")
    yield from patroni_problems(settings)


def problems(file: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the services."""
    services = file["services"]
    for name, service in services.items():
        for problem in _service(service, services, file["volumes"]):
            yield f"compose.yaml, {name}: {problem}"
    yield from _engines(services)
    yield from _certified(services)
    for name in services:
        if name.startswith("broker"):
            yield from _broker(name, services[name])


def _service(service: dict[str, Any], services: dict[str, Any], volumes: dict[str, Any]) -> Iterator[str]:
    yield from (f"{key} is no key that is used here" for key in service.keys() - KEYS)
    yield from unpinned(service.get("image", ""))
    build = service.get("build", {})
    context = FOLDER / (build if isinstance(build, str) else build.get("context", "."))
    dockerfile = "Dockerfile" if isinstance(build, str) else build.get("dockerfile")
    if dockerfile and not (context / dockerfile).is_file():
        yield f"it is built by {dockerfile}, which is not there"
    for name, how in service.get("depends_on", {}).items():
        if name not in services:
            yield f"it depends on {name}, which is not there"
        elif how["condition"] not in CONDITIONS:
            yield f"{how['condition']} is no condition"
        elif how["condition"] == "service_healthy" and "healthcheck" not in services[name]:
            yield f"it waits for the health of {name}, which has no check"
    for mount in service.get("volumes", ()):
        source = mount.split(":")[0]
        if source.startswith("."):
            if not (FOLDER / source).exists():
                yield f"it mounts {source}, which is not there"
        elif source not in volumes:
            yield f"the volume {mount} is not declared"
    for name, value in service.get("environment", {}).items():
        if SECRET_NAME.search(name) and not VARIABLE.search(str(value)):
            yield f"{name} is written down: take it from .env"


def _engines(services: dict[str, Any]) -> Iterator[str]:
    for name, count in ENGINES.items():
        found = [each for each in services if re.fullmatch(rf"{name}\d?", each)]
        if len(found) != count:
            yield f"compose.yaml has {len(found)} of {name}, not {count}"


def _variables(text: str, example: str) -> Iterator[str]:
    named, given = set(VARIABLE.findall(text)), set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    yield from (f".env.example and compose.yaml do not agree on {name}" for name in sorted(named ^ given))


def _broker(name: str, service: dict[str, Any]) -> Iterator[str]:
    environ = {key: VARIABLE.sub(EXAMPLE, value) for key, value in service["environment"].items()}
    yield from refused(environ, f"compose.yaml, {name}")
    yield from unprotected(environ, f"compose.yaml, {name}")
    if environ["LEVERET_NODE"] != name or environ["LEVERET_ANNOUNCE"] != name:
        yield f"compose.yaml, {name}: other nodes are told another name"
    inner = {int(port.rsplit(":", 1)[1]) for port in service["ports"]}
    if inner - set(default_ports().values()):
        yield f"compose.yaml, {name}: no server listens on {inner}"
    if not all(port.startswith("127.0.0.1:") for port in service["ports"]):
        yield f"compose.yaml, {name}: passwords without TLS are offered to other machines"


def wanted_certificates(services: dict[str, Any]) -> dict[str, list[str]]:
    """The hosts of each certificate that the first service makes, as its script is told."""
    words = [word.partition("@")[0] for word in services["certificates"]["entrypoint"][4:]]
    return {name: hosts.split(",") for name, _, hosts in (word.partition(":") for word in words)}


def _certified(services: dict[str, Any]) -> Iterator[str]:
    """Each service has a certificate for its own name, and names no file that is not made."""
    made = wanted_certificates(services)
    for name, service in services.items():
        text = " ".join(map(str, [*service.get("environment", {}).values(), *service.get("command", ())]))
        used = set(re.findall(r"/certificates/(\w+)/(?:tls\.crt|tls\.key|ca\.crt)", text))
        if text.count("/certificates/") != len(re.findall(r"/certificates/\w+/(?:tls\.crt|tls\.key|ca\.crt)", text)):
            yield f"compose.yaml, {name}: it names a file that certificates.sh does not make"
        if not used <= made.keys():
            yield f"compose.yaml, {name}: nothing makes the certificates {sorted(used - made.keys())}"
        elif used and name not in {host for kind in used for host in made[kind]}:
            yield f"compose.yaml, {name}: no certificate has its name"


def patroni_problems(file: dict[str, Any]) -> Iterator[str]:
    """What is wrong with Patroni's settings."""
    for line in file["postgresql"]["pg_hba"]:
        if not line.startswith(("local ", "hostssl ")):
            yield f"patroni.yml: {line} lets clients in without TLS"
    dcs = file["bootstrap"]["dcs"]
    for wanted, found in ((PATRONI, dcs), (POSTGRESQL, dcs["postgresql"]["parameters"])):
        for name, value in wanted.items():
            if found.get(name) != value:
                yield f"patroni.yml: {name} is {found.get(name)!r}, and has to be {value!r}"
    if dcs["postgresql"]["parameters"]["max_connections"] < _connections():
        yield f"patroni.yml: {_connections()} connections may be needed at the same time"
    if "data-checksums" not in file["bootstrap"]["initdb"]:
        yield "patroni.yml: pages have no checksums"


def _connections() -> int:
    """How many a database may see, with as many nodes as the autoscaler of Kubernetes makes."""
    (scaler,) = documents(DEPLOY / "kubernetes" / "horizontalpodautoscaler.yaml")
    counts = {"shard": ServerOptions().cluster_shards, "node": int(scaler["spec"]["maxReplicas"]), "people": 1}
    return sum(CONNECTIONS_MAX[name] * count for name, count in counts.items())
