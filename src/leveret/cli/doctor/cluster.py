"""A cluster, asked of the node that has a data directory: how it is, what it would not survive, what to do about it."""

from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from leveret.cli.cluster import absent, conflict, silence
from leveret.cli.output import as_list, as_table, cell
from leveret.core.errors import NotFound
from leveret.protocols.net.addresses import host_and_port
from leveret.server.control import connect

CLOCK_OFF_MS_MAX = 1_000
LEASE_S_MIN, LEASE_S_MAX = 2, 15
ETCDS_MIN = 3
NODES = ("node", "linked", "draining", "shards", "definitions", "redis", "lease_s", "tls", "clock_off_ms", "link")
GROUPS = ("group", "state", "shards", "version", "standbys", "url")

Told = dict[str, Any]
Question = Callable[[Told], Iterator[str]]


def examine(path: Path, more: Iterable[str] = ()) -> Told:
    """What the node of a directory finds out; with more advice."""
    try:
        with connect(str(path)) as operator:
            told: Told = operator.call("cluster.examine")
    except NotFound:
        raise NotFound(f"{path} is that of a node, which does not run: start it, or ask on another one") from None
    return {**told, "advice": [sentence for question in QUESTIONS for sentence in question(told)] + [*more]}


def is_well(told: Told) -> bool:
    """Whether all of it is at work."""
    return not any(True for question in URGENT for _ in question(told))


def report(told: Told) -> str:
    """The report for people."""
    served = sum(row["state"] == "active" for row in told["shards"])
    about = {
        "cluster": f"{told['cluster']}, as node {told['node']} sees it",
        "nodes": len(told["members"]),
        "shards": f"{served} of {len(told['shards'])} are served",
        "etcds": "unknown" if told["etcd_members"] is None else told["etcd_members"],
    }
    rows = [
        {**dict.fromkeys(NODES), **member, **told["nodes"].get(member["node"], {}), "link": link_of(member)}
        for member in told["members"]
    ]
    advice = "\n".join(f"- {cell(sentence)}" for sentence in told["advice"] or ["nothing needs to be done"])
    tables = as_table(rows, NODES), as_table(told["groups"], GROUPS)
    return "\n\n".join([as_list(about), *tables, f"What to do:\n{advice}"])


def link_of(member: Told) -> str:
    """Where other nodes reach one."""
    return str(member["addresses"].get("link", ""))


# What does not work now


def missing(told: Told) -> Iterator[str]:
    """Nodes and shards that are not there."""
    for member in absent(told):
        yield f"{silence(member)}; look at its log and at the network"
    vacant = [str(row["shard"]) for row in told["shards"] if row["state"] == "vacant"]
    if vacant:
        yield f"no node has shards {', '.join(vacant)}: their queues wait; the logs of all nodes say why"


def troubled(told: Told) -> Iterator[str]:
    """What nodes do not reach."""
    for member in told["members"]:
        troubles = member["troubles"] or {}
        for what in ("etcd", "postgresql", "definitions"):
            if troubles.get(what):
                yield f"node {member['node']} has trouble with {what}: {troubles[what]}"
    for row in told["groups"]:
        if row["state"] == "unreachable":
            yield f"group {row['group']} cannot be reached from node {told['node']}: {row['trouble']}"


def behind(told: Told) -> Iterator[str]:
    """Nodes that do not know the newest definitions."""
    for member in told["members"]:
        known = member["definitions"]
        if known is not None and known < told["definitions"]:
            yield f"node {member['node']} is at version {known} of the definitions, node {told['node']} is further"


def doubtful(told: Told) -> Iterator[str]:
    """Shards that know more than the definitions."""
    yield from map(conflict, told["doubts"])


# What the next failure would show


def one_disk(told: Told) -> Iterator[str]:
    """Databases without a standby that confirms."""
    for row in told["groups"]:
        if row["standbys"] == "":
            yield (
                f"group {row['group']} has its commits on one disk: set synchronous_standby_names, and let Patroni or "
                "an operator promote a standby that is named there"
            )
    if len({row["version"] for row in told["groups"] if row["version"] is not None}) > 1:
        yield "the groups are of different versions of PostgreSQL: upgrade the older ones"


def few_etcds(told: Told) -> Iterator[str]:
    """An etcd that the loss of one ends."""
    count = told["etcd_members"]
    if count is not None and count < ETCDS_MIN:
        yield f"etcd has {count} of {ETCDS_MIN} members that it should have: when one is lost, no shard is taken over"
    elif count is not None and count % 2 == 0:
        yield f"etcd has {count} members, which survive no more losses than {count - 1} would: remove one, or add one"
    for name, facts in told["nodes"].items():
        if count is not None and facts["etcd"] == 1 < count:
            yield f"node {name} knows one address of etcd, and is lost with it: name all of them in its option etcd"


def few_nodes(told: Told) -> Iterator[str]:
    """A cluster that is none."""
    if len(told["members"]) == 1:
        yield "there is one node: no other takes over when it goes; start others"


def leases(told: Told) -> Iterator[str]:
    """How long a dead node is waited for."""
    spans = {facts["lease_s"] for facts in told["nodes"].values()}
    if len(spans) > 1:
        yield f"cluster_lease_s differs between nodes ({', '.join(map(str, sorted(spans)))} s): set one on all"
    if max(spans) > LEASE_S_MAX:
        yield f"a dead node is missed after cluster_lease_s, which is {max(spans)} s: queues stand still as long"
    if min(spans) < LEASE_S_MIN:
        yield f"cluster_lease_s is {min(spans)} s: a node that pauses for a second loses its shards; 4 is usual"


def in_clear(told: Told) -> Iterator[str]:
    """Links that others can listen to."""
    for member in told["members"]:
        facts = told["nodes"].get(member["node"])
        if facts is not None and not facts["tls"] and not is_loopback(link_of(member)):
            yield (
                f"links to node {member['node']} ({link_of(member)}) are not encrypted: give all nodes "
                "cluster_tls_cert, cluster_tls_key and cluster_tls_ca"
            )


def is_loopback(address: str) -> bool:
    """Whether an address is of this machine only."""
    found = host_and_port(address)
    host = "" if found is None else found[0]
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def clocks(told: Told) -> Iterator[str]:
    """Clocks that do not agree."""
    for name, facts in told["nodes"].items():
        off_ms = facts["clock_off_ms"]
        if abs(off_ms) > CLOCK_OFF_MS_MAX:
            side = "ahead of" if off_ms > 0 else "behind"
            yield (
                f"the clock of node {name} is {abs(off_ms) / 1000:.1f} s {side} that of node {told['node']}: "
                "delays and times to live change when a shard moves; let NTP set both"
            )


def limits(told: Told) -> Iterator[str]:
    """Limits that a client has once at each node."""
    for member in told["members"]:
        if member["redis"] == "local":
            reason = member["troubles"]["redis"]
            yield f"Redis does not answer node {member['node']}, which keeps limits alone meanwhile: {reason}"
    apart = [member["node"] for member in told["members"] if member["redis"] == "none"]
    if apart and len(told["members"]) > 1:
        yield f"nodes {', '.join(apart)} have no Redis: a client has its rate limit once at each node (option redis)"


URGENT: tuple[Question, ...] = (missing, troubled, behind, doubtful)
QUESTIONS: tuple[Question, ...] = (*URGENT, one_disk, few_etcds, few_nodes, leases, in_clear, clocks, limits)
