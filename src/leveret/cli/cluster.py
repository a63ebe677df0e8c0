"""`leveret cluster`: who is in a cluster and has which shards; let a node go, let shards move."""

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from leveret.cli import objects
from leveret.cli.output import as_json, print_table
from leveret.cli.parser import Command, Word, argument, run_word, worded
from leveret.operations.registry import OPERATIONS

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


def status(given: Namespace, told: Any) -> int:
    """Print three tables, and what is wrong."""
    if given.json:
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


def drained(told: dict[str, Any]) -> str:
    """Who has got the shards."""
    after = "it serves clients without any" if told["stays"] else "it stops"
    return f"node {told['node']} has given {told['shards']} shards to {', '.join(told['others'])}; {after}"


def rebalanced(told: dict[str, Any]) -> str:
    """How much will move."""
    return f"{told['shards']} shards move, one by one; asked: {', '.join(told['nodes'])}"


def added_shard_group(told: dict[str, Any]) -> str:
    """Which shards will move."""
    moving = ", ".join(map(str, told["shards"]))
    lines = [f"group {told['group']} is {told['url']}"]
    lines += [f"shards {moving} move there, one by one" if moving else "no shards move there"]
    return "\n".join((*lines, *(f"warning: {warning}" for warning in told["warnings"])))


def discard(given: Namespace) -> int:
    """Print what shards have lost, or would."""
    if given.yes:
        return objects.run("cluster.discard", settled("has discarded what the definitions did not know"), given)
    rows = objects.asked(given, "cluster.status")["doubts"]
    print(as_json(rows) if given.json else "\n".join(map(conflict, rows)) or "there is nothing to discard")
    if rows:
        print("run it again with --yes to lose all of that", file=sys.stderr)
    return 1 if rows else 0


def settled(how: str) -> objects.Show:
    """Prints what became of conflicts; 1 when something is left."""

    def show(given: Namespace, told: Any) -> int:
        left = [row["left"] for row in told["shards"] if row["left"] is not None]
        lines = [
            f"shard {row['shard']} {how} ({row['queues']} queues, {row['messages']} messages)"
            for row in told["shards"]
            if row["left"] is None
        ]
        if not given.json:
            print(
                "\n".join([*lines, *map(conflict, left)] or ["no shard has anything that the definitions do not know"])
            )
        return 1 if left else 0

    return show


def saying(verb: str, said: Callable[[dict[str, Any]], str] | str) -> Word:
    """An operation that is done when a sentence is printed."""
    as_text = said.format_map if isinstance(said, str) else said

    def show(given: Namespace, told: Any) -> int:
        if not given.json:
            print(as_text(told))
        return 0

    return objects.word(verb, show)


YES = argument("--yes", action="store_true", help="lose the messages: without it, it is said what would go")
MOVED_CATALOG = "the definitions are in group {group}; start nodes with --store {url} from now on"
REMOVED = "group {group} is no more; only nodes that are started with it as store need {url}"
WORDS = (
    objects.word("cluster.status", status),
    saying("cluster.drain", drained),
    saying("cluster.rebalance", rebalanced),
    saying("cluster.add-shard-group", added_shard_group),
    saying("cluster.move-shard", "shard {shard} is in group {group}"),
    saying("cluster.move-catalog", MOVED_CATALOG),
    saying("cluster.remove-shard-group", REMOVED),
    objects.word("cluster.adopt", settled("was adopted: the definitions know what it has")),
    Word("discard", OPERATIONS["cluster.discard"].help, (YES, objects.add_result_flags), discard),
)
COMMAND = Command(worded(WORDS), run_word)
