"""`leveret cluster`: who is in a cluster and has which shards; let a node go, let shards move."""

import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from leveret.cli import target
from leveret.cli.command import Command, Word, run_word, worded
from leveret.cli.output import as_json, print_table

MEMBERS = (
    "node",
    "linked",
    "answers",
    "draining",
    "shards",
    "definitions",
    "redis",
    "addresses.amqp",
    "addresses.amqps",
    "addresses.link",
)
GROUPS = ("group", "shards", "definitions", "state", "standbys", "trouble", "url")
SHARDS = ("shard", "group", "owner", "epoch", "state", "queues")


def configure(parser: ArgumentParser) -> None:
    """The arguments that all have."""
    target.add_flags(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def configure_drain(parser: ArgumentParser) -> None:
    """The arguments of `drain`."""
    parser.add_argument("--stay", action="store_true", help="do not stop it: it serves clients without shards")
    configure(parser)


def configure_add(parser: ArgumentParser) -> None:
    """The arguments of `add-shard-group`."""
    parser.add_argument("store", metavar="URL", help="of a PostgreSQL database that is empty, without a password")
    parser.add_argument("--shards", type=int, metavar="N", help="how many go there; default: its fair share")
    configure(parser)


def configure_move(parser: ArgumentParser) -> None:
    """The arguments of `move-shard`."""
    parser.add_argument("shard", type=int, metavar="SHARD", help="the number of the shard")
    parser.add_argument("group", type=int, metavar="GROUP", help="the number of its new group")
    configure(parser)


def configure_remove(parser: ArgumentParser) -> None:
    """The arguments of `remove-shard-group`."""
    parser.add_argument("group", type=int, help="the number of a group that has neither shards nor the definitions")
    configure(parser)


def configure_discard(parser: ArgumentParser) -> None:
    """The arguments of `discard`."""
    parser.add_argument("--yes", action="store_true", help="lose the messages: without it, it is said what would go")
    configure(parser)


def configure_catalog(parser: ArgumentParser) -> None:
    """The arguments of `move-catalog`."""
    parser.add_argument("group", type=int, metavar="GROUP", help="the number of the group that gets the definitions")
    configure(parser)


def asked(given: Namespace, verb: str, **arguments: Any) -> Any:
    """What the node says."""
    with target.operator(given) as operator:
        return operator.call(verb, **arguments)


def status(given: Namespace) -> int:
    """Print three tables, and what is wrong."""
    told = asked(given, "cluster.status")
    if given.json:
        print(as_json(told))
        return 0
    print(f"cluster {told['cluster']}, as node {told['node']} sees it\n")
    known = {name for member in told["members"] for name in member["addresses"]}
    members = [{**member, "answers": member["unanswered"] is None} for member in told["members"]]
    print_table(members, [name for name in MEMBERS if "." not in name or name.partition(".")[2] in known])
    print()
    print_table(told["groups"], GROUPS)
    print()
    print_table(told["shards"], SHARDS)
    for sentence in [*map(silence, absent(told)), *troubles(told), *map(conflict, told["doubts"])]:
        print(f"\nwarning: {sentence}")
    return 0


def absent(told: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes that are in etcd, and do not answer."""
    return [member for member in told["members"] if member["unanswered"] is not None]


def silence(member: dict[str, Any]) -> str:
    """That a node does not answer, and why."""
    return f"node {member['node']} ({member['addresses'].get('link', '')}) does not answer: {member['unanswered']}"


def troubles(told: dict[str, Any]) -> list[str]:
    """The nodes whose clients wait, as their definitions may be old."""
    rows = [(member["node"], (member["troubles"] or {}).get("definitions")) for member in told["members"]]
    return [f"node {node} may have old definitions: {trouble}" for node, trouble in rows if trouble]


def conflict(row: dict[str, Any]) -> str:
    """What a shard has and definitions that are older do not know."""
    more = ", ..." if row["queues"] > len(row["names"]) else ""
    return (
        f"the definitions are older than shard {row['shard']}, and do not know {row['queues']} of its queues "
        f"({', '.join(row['names'])}{more}) with {row['messages']} messages, and {row['others']} other things. "
        "Nothing was removed. `leveret cluster adopt` takes it into the definitions, `leveret cluster discard` drops it"
    )


def drain(given: Namespace) -> int:
    """Print who has got the shards."""
    told = asked(given, "cluster.drain", stay=given.stay)
    after = "it serves clients without any" if told["stays"] else "it stops"
    said = f"node {told['node']} has given {told['shards']} shards to {', '.join(told['others'])}; {after}"
    print(as_json(told) if given.json else said)
    return 0


def rebalance(given: Namespace) -> int:
    """Print how much will move."""
    told = asked(given, "cluster.rebalance")
    said = f"{told['shards']} shards move, one by one; asked: {', '.join(told['nodes'])}"
    print(as_json(told) if given.json else said)
    return 0


def add_shard_group(given: Namespace) -> int:
    """Print which shards will move."""
    told = asked(given, "cluster.add-shard-group", url=given.store, shards=given.shards)
    if given.json:
        print(as_json(told))
        return 0
    moving = ", ".join(map(str, told["shards"]))
    print(f"group {told['group']} is {told['url']}")
    print(f"shards {moving} move there, one by one" if moving else "no shards move there")
    for warning in told["warnings"]:
        print(f"warning: {warning}")
    return 0


def move_shard(given: Namespace) -> int:
    """Print where it is."""
    told = asked(given, "cluster.move-shard", shard=given.shard, group=given.group)
    print(as_json(told) if given.json else f"shard {told['shard']} is in group {told['group']}")
    return 0


def move_catalog(given: Namespace) -> int:
    """Print where they are."""
    told = asked(given, "cluster.move-catalog", group=given.group)
    said = f"the definitions are in group {told['group']}; start nodes with --store {told['url']} from now on"
    print(as_json(told) if given.json else said)
    return 0


def remove_shard_group(given: Namespace) -> int:
    """Print what is off the list."""
    told = asked(given, "cluster.remove-shard-group", group=given.group)
    said = f"group {told['group']} is no more; only nodes that are started with it as store need {told['url']}"
    print(as_json(told) if given.json else said)
    return 0


def adopt(given: Namespace) -> int:
    """Print what the definitions know now; 1 when something is left."""
    return settled(given, asked(given, "cluster.adopt"), "was adopted: the definitions know what it has")


def discard(given: Namespace) -> int:
    """Print what shards have lost, or would."""
    if given.yes:
        return settled(given, asked(given, "cluster.discard"), "has discarded what the definitions did not know")
    rows = asked(given, "cluster.status")["doubts"]
    print(as_json(rows) if given.json else "\n".join(map(conflict, rows)) or "there is nothing to discard")
    if rows:
        print("run it again with --yes to lose all of that", file=sys.stderr)
    return 1 if rows else 0


def settled(given: Namespace, told: dict[str, Any], how: str) -> int:
    """Print what became of conflicts."""
    left = [row["left"] for row in told["shards"] if row["left"] is not None]
    lines = [
        f"shard {row['shard']} {how} ({row['queues']} queues, {row['messages']} messages)"
        for row in told["shards"]
        if row["left"] is None
    ]
    said = [*lines, *map(conflict, left)] or ["no shard has anything that the definitions do not know"]
    print(as_json(told) if given.json else "\n".join(said))
    return 1 if left else 0


WORDS = (
    Word("status", "show nodes and shards", configure, status),
    Word("drain", "give the shards of a node to others, then stop it", configure_drain, drain),
    Word("rebalance", "move shards to the nodes that should have them, now", configure, rebalance),
    Word("add-shard-group", "add a database, and move shards there", configure_add, add_shard_group),
    Word("move-shard", "move one shard to another database", configure_move, move_shard),
    Word("move-catalog", "move the definitions to another database", configure_catalog, move_catalog),
    Word("remove-shard-group", "forget a database that has nothing any more", configure_remove, remove_shard_group),
    Word("adopt", "let definitions that are older than shards have what these have", configure, adopt),
    Word("discard", "let shards lose what older definitions do not know", configure_discard, discard),
)
COMMAND = Command("cluster", "look at a cluster, let a node go, move shards", worded(WORDS), run_word)
