"""The screen of the live view: facts and a view in, lines of text out. Nothing here knows a terminal.

node and time      what it is, since when it runs, how often it is asked; of a cluster, how much of it is there
messages           depths and rates, and the rate of publishes over the last minutes
clients, memory    with their limits; alarms
queues             a table, sorted by one column
keys
"""

from collections.abc import Sequence
from typing import Any

from leveret.cli.output import CUT, cell, in_bytes, in_short, in_time
from leveret.cli.top.view import COLUMNS, INTERVALS_S, TopColumn, TopFacts, TopView

NAME_CHARS_MIN = 12
COLUMNS_MIN, ROWS_MIN = 40, 12
HEAD_ROWS = 8  # above the queues, with the line of titles
FOOT_ROWS = 1
BAR = 12
GRAPH = "▁▂▃▄▅▆▇█"
KEYS = "q quit  ←→ sort  r reverse  ↑↓ scroll  / filter  space pause  +- speed  h help"
HELP = (
    "q            end",
    "left, right  sort by the column before or after",
    "r            turn the order around",
    "up, down     the queues before and after these; home goes to the first",
    "/            show only queues whose name has what you type; Enter ends it, Escape forgets it",
    "space        stop asking the server, and go on",
    "+, -         ask more, or less often: for slow links",
    "h            this page, and back",
)


def queue_rows(rows: int) -> int:
    """How many queues fit on a screen with so many rows."""
    return max(rows - HEAD_ROWS - FOOT_ROWS, 1)


def screen(
    facts: TopFacts | None, view: TopView, history: Sequence[float], trouble: str, clock: str, columns: int, rows: int
) -> list[str]:
    """The lines of a screen, no more and no longer than there is room for."""
    if columns < COLUMNS_MIN or rows < ROWS_MIN:
        return [cut(f"make the window larger than {COLUMNS_MIN} x {ROWS_MIN}", columns)]
    if view.help:
        lines = ["leveret top", "", *HELP]
    elif facts is None:
        lines = [trouble or "asking the server ..."]
    else:
        lines = [*head(facts, view, history, trouble, clock, columns), *table(facts, view, columns, queue_rows(rows))]
    lines = lines[: rows - FOOT_ROWS]
    lines += [""] * (rows - FOOT_ROWS - len(lines))
    return [cut(line, columns) for line in [*lines, foot(view)]]


def head(facts: TopFacts, view: TopView, history: Sequence[float], trouble: str, clock: str, columns: int) -> list[str]:
    """Everything above the queues."""
    overview = facts.overview
    depth, counts = overview["queue_totals"], overview["object_totals"]
    title = f"leveret {overview['product_version']}  {title_of(facts)}"
    asked = "paused" if view.paused else f"every {INTERVALS_S[view.interval]:g} s"
    rates = "  ".join(
        f"{word} {in_short(rate_of(overview, name))}/s"
        for word, name in (("publish", "publish"), ("deliver", "deliver_get"), ("ack", "ack"))
    )
    return [
        spread(title, f"{clock}  {asked}", columns),
        f"messages  {in_short(depth['messages'])}: ready {in_short(depth['messages_ready'])}, "
        f"unacked {in_short(depth['messages_unacknowledged'])}    {rates}",
        f"publishes {graph(history, columns - 10)}",
        f"clients   {counts['connections']} connections, {counts['channels']} channels, {counts['consumers']} consumers"
        f"    {counts['queues']} queues, {counts['exchanges']} exchanges",
        resources([node for node in facts.nodes if node["running"]]),
        f"alarms    {trouble or '; '.join(map(cell, alarms(facts))) or 'none'}",
        "",
    ]


def title_of(facts: TopFacts) -> str:
    """What is looked at: a server, or a cluster by one of its nodes."""
    running = [node for node in facts.nodes if node["running"]]
    if facts.cluster is None:
        return f"{cell(running[0]['name'])}  up {in_time(running[0]['uptime'] / 1000)}"
    shards = facts.cluster["shards"]
    served = sum(row["state"] == "active" for row in shards)
    name = cell(facts.overview["cluster_name"])
    return f"{name}  {len(running)} of {len(facts.nodes)} nodes, {served} of {len(shards)} shards"


def resources(nodes: Sequence[dict[str, Any]]) -> str:
    """Memory and disk; of several nodes, of those that are nearest to their limits."""
    fullest = max(nodes, key=memory_share)
    tightest = min(nodes, key=lambda node: node["disk_free"] - node["disk_free_limit"])
    used, limit = fullest["mem_used"], fullest["mem_limit"]
    bar = ("#" * round(BAR * memory_share(fullest))).ljust(BAR, ".")
    memory = f"[{bar}] {in_bytes(used)} of {in_bytes(limit)}" if limit else in_bytes(used)
    disk = f"disk {in_bytes(tightest['disk_free'])} free, at least {in_bytes(tightest['disk_free_limit'])}"
    return f"memory    {memory}{at(fullest, nodes)}    {disk}{at(tightest, nodes)}"


def memory_share(node: dict[str, Any]) -> float:
    """How much of the memory that a node may have is in use."""
    return min(node["mem_used"] / node["mem_limit"], 1.0) if node["mem_limit"] else 0.0


def at(node: dict[str, Any], nodes: Sequence[dict[str, Any]]) -> str:
    """Which node something is about, if there are several."""
    return f" at {cell(node['name'])}" if len(nodes) > 1 else ""


def alarms(facts: TopFacts) -> list[str]:
    """Why publishers wait, what of a cluster is not there, and which alerts are firing."""
    found = []
    for node in facts.nodes:
        raised = [word for word, name in (("memory", "mem_alarm"), ("disk", "disk_free_alarm")) if node.get(name)]
        if raised:
            found.append(f"{' and '.join(raised).upper()}{at(node, facts.nodes)}: publishers wait")
        if not node["running"]:
            found.append(f"{node['name']} is DOWN")
    shards = [] if facts.cluster is None else facts.cluster["shards"]
    vacant = sum(row["state"] == "vacant" for row in shards)
    if vacant:
        found.append(f"{vacant} shards WITHOUT AN OWNER")
    queues: dict[str, list[str]] = {}
    for row in facts.firing:
        queues.setdefault(row["rule"], []).append(row["queue"])
    return found + [f"{rule} FIRING: {queues_of(names)}" for rule, names in queues.items()]


def queues_of(names: Sequence[str]) -> str:
    """The queue that an alert is about, or how many."""
    return names[0] if len(names) == 1 else f"{len(names)} queues"


def table(facts: TopFacts, view: TopView, columns: int, rows: int) -> list[str]:
    """The queues; columns that do not fit are left out, from the right."""
    fixed = columns - NAME_CHARS_MIN
    shown: list[TopColumn] = [COLUMNS[0]]
    for column in COLUMNS[1:]:
        fixed -= column.width + 1
        if fixed >= 0:
            shown.append(column)
    name_chars = columns - sum(column.width + 1 for column in shown[1:])
    lines = [row([marked(column, view) for column in shown], shown, name_chars)]
    firing = {(each["vhost"], each["queue"]): each["rule"] for each in facts.firing}
    for queue in facts.queues[:rows]:
        queue = queue | {"state": firing.get((queue["vhost"], queue["name"]), queue["state"])}
        lines.append(row([column.shown(value_of(queue, column.source)) for column in shown], shown, name_chars))
    return lines


def marked(column: TopColumn, view: TopView) -> str:
    """The title of a column, with an arrow if it sorts."""
    arrow = "v" if view.reverse else "^"
    return f"{column.title}{arrow}" if COLUMNS[view.sort] is column else column.title


def row(cells: Sequence[str], columns: Sequence[TopColumn], name_chars: int) -> str:
    """One line of the table: the name on the left, numbers to the right."""
    rest = (cut(text, each.width + 1).rjust(each.width + 1) for text, each in zip(cells[1:], columns[1:], strict=True))
    return cut(cells[0], name_chars).ljust(name_chars) + "".join(rest)


def foot(view: TopView) -> str:
    """The last line."""
    if view.typed is not None:
        return f"filter: {view.typed}_"
    return f"only {cell(view.filter)!r}  {KEYS}" if view.filter else KEYS


def graph(values: Sequence[float], width: int) -> str:
    """The last values as a line of bars, as high as the highest."""
    shown = values[-max(width, 0) :] if width > 0 else []
    top = max(shown, default=0.0)
    return "".join(GRAPH[round((len(GRAPH) - 1) * value / top)] if top else GRAPH[0] for value in shown)


def rate_of(overview: dict[str, Any], name: str) -> float:
    """A rate of the whole server."""
    return float(overview["message_stats"].get(f"{name}_details", {}).get("rate", 0.0))


def value_of(queue: dict[str, Any], source: str) -> Any:
    """A cell by where the server has it; a queue in which nothing happened yet has no rates."""
    found: Any = queue
    for name in source.split("."):
        found = found.get(name, 0) if isinstance(found, dict) else 0
    return found


def spread(left: str, right: str, columns: int) -> str:
    """Two texts at both ends of a line; the right one is left out when there is no room."""
    gap = columns - len(left) - len(right)
    return f"{left}{' ' * gap}{right}" if gap > 1 else left


def cut(text: str, columns: int) -> str:
    """A text in so many columns."""
    return text if len(text) <= columns else text[: columns - 1] + CUT
