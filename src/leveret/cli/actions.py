"""Every action on users, virtual hosts, permissions, policies, streams, groups, the journal and alerts, as a table.

An argument is sent to the server under its name; one that is called `limits.max-queues` is max-queues of the limits.
"""

import json
import sys
from argparse import ArgumentTypeError
from typing import Any, NamedTuple

SOURCE_CHARS_MAX = 1 << 20


class CommandArgument(NamedTuple):
    """A word or flag: what argparse is told about it."""

    names: tuple[str, ...]
    options: dict[str, Any]


class Action(NamedTuple):
    """A verb of the server as a command; `columns` are of the table that it prints, `done` is its last word."""

    verb: str
    help: str
    arguments: tuple[CommandArgument, ...] = ()
    columns: tuple[str, ...] = ()
    done: str = ""
    followed_by: str = ""
    """What to ask until work that was begun has ended."""
    asks_password: bool = False


def argument(*names: str, **options: Any) -> CommandArgument:
    """A row of the arguments of an action."""
    return CommandArgument(names, options)


def names(text: str) -> list[str]:
    """Several names in one word."""
    return [each.strip() for each in text.split(",") if each.strip()]


def json_object(text: str) -> dict[str, Any]:
    """A JSON object in one word."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ArgumentTypeError("it is a JSON object, for example '{\"max-length\": 1000}'")
    return value


def json_source(text: str) -> dict[str, Any]:
    """The same, or what comes by the standard input: every process can read command lines."""
    return json_object(sys.stdin.read(SOURCE_CHARS_MAX) if text == "-" else text)


def number(text: str) -> int | float:
    """A number, whole if it is written so."""
    return int(text) if text.isdigit() else float(text)


def limit(name: str, what: str) -> CommandArgument:
    """The flag of one limit."""
    return argument(f"--{name}", dest=f"limits.{name}", type=int, metavar="N", help=f"how many {what}; -1 is no limit")


NAME = argument("name", metavar="NAME", help="its name")
USER = argument("user", metavar="USER", help="the user")
VHOST = argument("--vhost", default="/", help="the virtual host; default: /")
ONLY_USER = argument("--user", help="only of this user")
ONLY_VHOST = argument("--vhost", help="only in this virtual host")
FORCE = argument("--force", action="store_true", default=None, help="do it all the same")
TOKEN = argument("id", metavar="ID", help="its id, from the list")
WRITE = argument("write", metavar="WRITE", help="pattern of what may be published to")
READ = argument("read", metavar="READ", help="pattern of what may be consumed and bound")
STREAM = argument("stream", metavar="STREAM", help="the stream that it reads")
PATTERN = "; * is any text"
OPERATOR = argument("--operator", action="store_true", default=None, help="a policy that only caps settings")


def permission_actions(
    noun: str, helps: tuple[str, str, str], subject: CommandArgument, *only: CommandArgument, said: str = ""
) -> tuple[Action, ...]:
    """List, set and clear permissions of one kind, which have a subject beside both patterns."""
    to_list, to_set, to_clear = helps
    kind, where = noun.replace("-", " "), "in vhost {vhost!r}"
    return (
        Action(f"{noun}.list", to_list, (ONLY_USER, ONLY_VHOST), ("user", "vhost", *subject.names, "write", "read")),
        Action(
            f"{noun}.set", to_set, (USER, subject, WRITE, READ, VHOST), done=f"{kind} of {{user!r}}{said} {where} set"
        ),
        Action(f"{noun}.clear", to_clear, (USER, *only, VHOST), done=f"{kind} of {{user!r}} {where} cleared"),
    )


ACTIONS: tuple[Action, ...] = (
    Action(
        "users.list",
        "list users",
        columns=("name", "tags", "password", "limits.max-connections", "limits.max-channels"),
    ),
    Action(
        "users.add",
        "add a user, who may do nothing before permissions are set",
        (
            NAME,
            argument(
                "--tags", type=names, help="administrator, monitoring, management, policymaker, impersonator; by commas"
            ),
        ),
        done="user {name!r} added",
        asks_password=True,
    ),
    Action("users.delete", "delete a user, with all permissions", (NAME, FORCE), done="user {name!r} deleted"),
    Action("users.password", "change a password", (NAME,), done="password of {name!r} changed", asks_password=True),
    Action(
        "users.tags",
        "give a user other tags, or none",
        (NAME, argument("tags", nargs="*", metavar="TAG", help="a tag"), FORCE),
        done="tags of user {name!r} changed",
    ),
    Action(
        "users.limits",
        "change the limits of a user",
        (
            NAME,
            limit("max-connections", "connections at the same time"),
            limit("max-channels", "channels at the same time"),
        ),
        done="limits of user {name!r} changed",
    ),
    Action("keys.list", "list access keys", (ONLY_USER,), ("id", "user")),
    Action(
        "keys.add",
        "add an access key, with which a user signs requests to the port for SQS",
        (
            USER,
            argument("--id", help="its id; default: a new one"),
            argument("--secret", help="its secret; default: a random one"),
        ),
        done="access key {id} of user {user!r} added; its secret is not shown again: {secret}",
    ),
    Action(
        "keys.rotate",
        "put another access key in the place of one, which is of no use any more",
        (argument("id", metavar="ID", help="its id"),),
        done="access key {id} of user {user!r} added; its secret is not shown again: {secret}",
    ),
    Action(
        "keys.delete",
        "delete an access key",
        (argument("id", metavar="ID", help="its id"),),
        done="access key {id!r} deleted",
    ),
    Action(
        "tokens.list",
        "list tokens of the REST API",
        (ONLY_USER,),
        ("id", "user", "label", "scopes", "created_ms", "expires_ms"),
    ),
    Action(
        "tokens.add",
        "add a token, with which a program uses the REST API as a user",
        (
            USER,
            argument("scopes", nargs="+", metavar="SCOPE", help="what it allows: write:orders*, read:*, *:*, manage"),
            argument("--label", metavar="TEXT", help="what it is for"),
            argument("--days", type=int, metavar="N", help="after which it ends; default: never"),
        ),
        done="token {id} of user {user!r} added; it is not shown again: {token}",
    ),
    Action("tokens.revoke", "make a token useless at once", (TOKEN,), done="token {id!r} revoked"),
    Action(
        "tokens.rotate",
        "replace a token",
        (
            TOKEN,
            argument("--overlap-s", type=int, metavar="N", help="seconds that the old one is still good; default: 0"),
        ),
        done="token {id} replaced; the new one is not shown again: {token}",
    ),
    Action(
        "vhosts.list",
        "list virtual hosts",
        columns=(
            "name",
            "queues",
            "messages",
            "default_queue_type",
            "limits.max-connections",
            "limits.max-queues",
            "tags",
            "description",
        ),
    ),
    Action(
        "vhosts.add",
        "add a virtual host, or say something else about one",
        (
            NAME,
            argument("--description", metavar="TEXT", help="what it is for"),
            argument("--tags", type=names, help="words about it; by commas"),
            argument("--default-queue-type", metavar="TYPE", help="of queues that are declared without one: quorum"),
        ),
        done="vhost {name!r} is there",
    ),
    Action("vhosts.delete", "delete a virtual host and all in it", (NAME, FORCE), done="vhost {name!r} deleted"),
    Action(
        "vhosts.limits",
        "change the limits of a virtual host",
        (NAME, limit("max-connections", "connections it may have"), limit("max-queues", "queues it may have")),
        done="limits of vhost {name!r} changed",
    ),
    Action(
        "vhosts.trace",
        "turn the firehose of a virtual host on or off: copies of all messages to amq.rabbitmq.trace",
        (NAME, argument("state", choices=("on", "off"), help="on or off")),
        done="firehose of vhost {name!r} is {state}",
    ),
    *permission_actions(
        "permissions",
        (
            "list permissions",
            "let a user into a virtual host, and say what is allowed there",
            "keep a user out of a virtual host",
        ),
        argument("configure", metavar="CONFIGURE", help="pattern of what may be declared"),
    ),
    *permission_actions(
        "topic-permissions",
        (
            "list permissions on routing keys",
            "say which routing keys of a topic exchange a user may use",
            "let a user use every routing key again",
        ),
        argument("exchange", metavar="EXCHANGE", help="the topic exchange"),
        argument("--exchange", help="only of this exchange"),
        said=" on {exchange!r}",
    ),
    Action(
        "policies.list",
        "list policies",
        (ONLY_VHOST,),
        ("vhost", "name", "pattern", "apply-to", "priority", "definition", "operator"),
    ),
    Action(
        "policies.set",
        "give settings to all queues and exchanges whose name a pattern matches",
        (
            NAME,
            argument("pattern", metavar="PATTERN", help="regular expression that is searched in names"),
            argument("definition", metavar="JSON", type=json_object, help="the settings, as a JSON object"),
            argument("--priority", type=int, help="of several policies the highest one counts; default: 0"),
            argument("--apply-to", metavar="WHAT", help="all, queues, classic_queues, quorum_queues or exchanges"),
            OPERATOR,
            VHOST,
        ),
        done="policy {name!r} in vhost {vhost!r} set",
    ),
    Action(
        "policies.clear", "delete a policy", (NAME, OPERATOR, VHOST), done="policy {name!r} in vhost {vhost!r} deleted"
    ),
    Action(
        "streams.list",
        "list streams",
        (ONLY_VHOST,),
        ("vhost", "name", "partitions", "records", "size_bytes", "max_age_ms", "max_bytes"),
    ),
    Action(
        "streams.show",
        "show the partitions of a stream",
        (NAME, VHOST),
        ("partition", "first_offset", "next_offset", "records", "size_bytes", "segments"),
    ),
    Action(
        "streams.create",
        "make a stream",
        (
            NAME,
            argument("--partitions", type=int, metavar="N", help="how many; default: 1"),
            argument("--max-age", metavar="AGE", help="how long records are kept, such as 7D; default: for ever"),
            argument("--max-bytes", type=int, metavar="N", help="what each partition may take; default: no limit"),
            argument("--segment-bytes", type=int, metavar="N", help="size of a file; whole files are removed"),
            VHOST,
        ),
        done="stream {name!r} in vhost {vhost!r} is there",
    ),
    Action(
        "streams.delete",
        "delete a stream with its records and groups",
        (NAME, VHOST),
        done="stream {name!r} in vhost {vhost!r} deleted, with {records} records",
    ),
    Action(
        "groups.list",
        "list consumer groups",
        (argument("--stream", help="only of this stream"), ONLY_VHOST),
        ("vhost", "stream", "name", "generation", "members", "lag"),
    ),
    Action("groups.show", "show the members of a group", (STREAM, NAME, VHOST), ("member", "partitions")),
    Action(
        "groups.lag",
        "show how far a group is in each partition",
        (STREAM, NAME, VHOST),
        ("partition", "offset", "next_offset", "lag", "member"),
    ),
    Action("groups.create", "make a group", (STREAM, NAME, VHOST), done="group {name!r} of stream {stream!r} is there"),
    Action(
        "groups.reset",
        "let a group read on from elsewhere; its members join again",
        (
            STREAM,
            NAME,
            argument("to", metavar="TO", help="earliest, latest or a time such as 2026-01-31T12:00:00Z"),
            VHOST,
        ),
        done="group {name!r} of stream {stream!r} reset; it is {lag} records behind",
    ),
    Action(
        "groups.delete",
        "delete a group without members",
        (STREAM, NAME, VHOST),
        done="group {name!r} of stream {stream!r} deleted",
    ),
    Action(
        "alerts.firing",
        "show what is wrong now",
        columns=("severity", "state", "rule", "vhost", "queue", "value", "limit", "unit", "since", "silence"),
    ),
    Action(
        "alerts.history",
        "show what happened to alerts, the newest first",
        (argument("--limit", type=int, metavar="N", help="how many events; default: 100"),),
        ("at", "event", "rule", "vhost", "queue", "value", "receiver", "by", "reason"),
    ),
    Action(
        "alerts.list",
        "list rules",
        columns=("name", "figure", "limit", "for_s", "severity", "vhost", "queue", "enabled"),
    ),
    Action(
        "alerts.set",
        "make a rule, or change one in what is told",
        (
            NAME,
            argument("--figure", help="what is looked at, such as waiting_max; docs/alerts.md has all"),
            argument("--limit", type=number, metavar="N", help="more than this is too much"),
            argument("--clear", type=number, metavar="N", help="down to this, it is over; default: 9/10 of the limit"),
            argument("--for-s", type=int, metavar="N", help="seconds that it has to last; default: 0"),
            argument("--severity", help="info, warning or critical"),
            argument("--vhost", help=f"of which virtual hosts{PATTERN}"),
            argument("--queue", help=f"which queues{PATTERN}"),
            argument("--says", metavar="TEXT", help="what receivers read"),
            argument("--on", dest="enabled", action="store_true", default=None, help="it is in force"),
            argument("--off", dest="enabled", action="store_false", default=None, help="it is not in force"),
        ),
        done="rule {name!r} set",
    ),
    Action("alerts.clear", "delete a rule, or have one as it always is", (NAME,), done="rule {name!r} is {left}"),
    Action(
        "alerts.silences",
        "list silences",
        columns=("name", "rule", "vhost", "queue", "minutes_left", "by", "why"),
    ),
    Action(
        "alerts.silence",
        "send no notifications about some alerts for a while",
        (
            argument("--name", help="to end it by; default: a new one"),
            argument("--rule", help=f"which rules{PATTERN}"),
            argument("--vhost", help=f"of which virtual hosts{PATTERN}"),
            argument("--queue", help=f"which queues{PATTERN}"),
            argument("--minutes", type=int, metavar="N", help="for how long; default: 60"),
            argument("--why", required=True, metavar="TEXT", help="for those who wonder"),
            argument("--by", help="who wants it; default: (operator)"),
        ),
        done="silence {name!r} has begun",
    ),
    Action("alerts.unsilence", "end a silence", (NAME,), done="silence {name!r} has ended"),
    Action(
        "alerts.receivers",
        "list who is told, without their secrets",
        columns=("name", "kind", "place", "rules", "severity_min", "waiting", "problem"),
    ),
    Action(
        "alerts.receiver",
        "make a receiver, or replace one; secrets that are left out stay",
        (
            NAME,
            argument("definition", metavar="JSON", type=json_source, help="as docs/alerts.md has it; - is the input"),
        ),
        done="receiver {name!r} set",
    ),
    Action("alerts.forget", "delete a receiver", (NAME,), done="receiver {name!r} deleted"),
    Action("alerts.test", "send a test to a receiver", (NAME,), done="receiver {name!r} took the test"),
    Action(
        "journal.seal",
        "close the segment of the journal that is being written, so that it can be archived",
        done="sealed: {sealed}",
    ),
    Action(
        "journal.rotate-key",
        "encrypt everything by the first key of the key file, and say when the others may be removed",
        done="{summary}",
        followed_by="journal.rotation-status",
    ),
    Action("journal.rotation-status", "show how far the rotation of the key is", done="{summary}"),
)

EXAMPLES = {
    "users": ("leveret users add ada --no-password --tags monitoring", "leveret users list --json"),
    "keys": ("leveret keys add ada", "leveret keys list --user ada"),
    "tokens": ("leveret tokens add ada 'write:orders*' 'read:orders*' --days 90", "leveret tokens list --user ada"),
    "vhosts": ("leveret vhosts add shop --description 'orders and invoices'", "leveret vhosts list"),
    "permissions": ("leveret permissions set ada '^ada-' '.*' '.*' --vhost shop", "leveret permissions list"),
    "topic-permissions": ("leveret topic-permissions set ada amq.topic '^{username}\\.' '.*'",),
    "policies": ("""leveret policies set short '^log' '{"max-length": 1000}' --apply-to queues""",),
    "streams": ("leveret streams create events --partitions 4 --max-age 7D", "leveret streams list"),
    "groups": ("leveret groups create events readers", "leveret groups lag events readers"),
    "alerts": (
        "leveret alerts firing",
        "leveret alerts set queue_depth --limit 50000 --for-s 300",
        "leveret alerts silence --queue 'orders*' --minutes 30 --why 'moving to the new shop'",
    ),
    "journal": ("leveret journal seal", "leveret journal rotation-status"),
}
NOUNS = {
    "users": "manage users",
    "keys": "manage access keys of users",
    "tokens": "manage tokens of the REST API",
    "vhosts": "manage virtual hosts",
    "permissions": "manage what users may do in virtual hosts",
    "topic-permissions": "manage which routing keys users may use",
    "policies": "manage settings of queues and exchanges by name",
    "streams": "manage streams",
    "groups": "manage consumer groups of streams",
    "alerts": "show and silence alerts, manage rules and who is told",
    "journal": "manage the journal",
}
