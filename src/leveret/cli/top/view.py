"""What keys do to the live view, and the facts that it shows."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from leveret.cli.connection import ask, target
from leveret.cli.output import cell, in_short
from leveret.client.broker import RemoteBroker

INTERVALS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
FILTER_CHARS_MAX = 100
TYPED_END = ("\r", "\n")
ERASE = ("\x7f", "\b")
ESCAPE = "\x1b"
PAGES = {"up": -1, "page up": -1, "down": 1, "page down": 1}


class TopColumn(NamedTuple):
    """A column of the table; `source` is where the server has it."""

    title: str
    source: str
    shown: Callable[[Any], str]
    width: int


def rate(title: str, name: str) -> TopColumn:
    """A column of a rate."""
    return TopColumn(title, f"message_stats.{name}_details.rate", in_short, 8)


COLUMNS = (
    TopColumn("QUEUE", "name", cell, 0),
    TopColumn("READY", "messages_ready", in_short, 8),
    TopColumn("UNACKED", "messages_unacknowledged", in_short, 8),
    TopColumn("TOTAL", "messages", in_short, 8),
    rate("IN/S", "publish"),
    rate("OUT/S", "deliver_get"),
    rate("ACK/S", "ack"),
    TopColumn("CONSUMERS", "consumers", in_short, 9),
    TopColumn("STATE", "state", cell, 8),
)


@dataclass(frozen=True, slots=True)
class TopView:
    """What is looked at."""

    sort: int = 1
    reverse: bool = True
    filter: str = ""
    typed: str | None = None
    """A filter that is being typed."""
    first: int = 0
    """How many queues were scrolled over."""
    paused: bool = False
    help: bool = False
    ended: bool = False
    interval: int = 2

    @property
    def question(self) -> tuple[int, bool, str, int]:
        """What of it the server has to know."""
        return self.sort, self.reverse, self.filter, self.first


def pressed(view: TopView, key: str, page: int, count: int) -> TopView:
    """The view after a key; `page` is how many queues fit on the screen, `count` how many there are."""
    if view.typed is not None:
        return typed(view, view.typed, key)
    if key in PAGES:
        last = max(count - 1, 0) // page * page
        return replace(view, first=min(max(view.first + PAGES[key] * page, 0), last))
    act = KEYS.get(key)
    return view if act is None else act(view)


def typed(view: TopView, text: str, key: str) -> TopView:
    """The view after a key in the line of the filter."""
    if key in TYPED_END:
        return replace(view, filter=text, typed=None, first=0)
    if key == ESCAPE:
        return replace(view, typed=None)
    if key in ERASE:
        return replace(view, typed=text[:-1])
    return replace(view, typed=(text + key)[:FILTER_CHARS_MAX]) if len(key) == 1 and key.isprintable() else view


def sorted_by(view: TopView, step: int) -> TopView:
    """The view, sorted by a neighbouring column; names begin with a, numbers with the largest."""
    sort = (view.sort + step) % len(COLUMNS)
    return replace(view, sort=sort, reverse=COLUMNS[sort].shown is in_short, first=0)


def paced(view: TopView, step: int) -> TopView:
    """The view, asked for more or less often."""
    return replace(view, interval=min(max(view.interval + step, 0), len(INTERVALS_S) - 1))


KEYS: dict[str, Callable[[TopView], TopView]] = {
    "q": lambda view: replace(view, ended=True),
    "\x03": lambda view: replace(view, ended=True),
    "right": lambda view: sorted_by(view, 1),
    "left": lambda view: sorted_by(view, -1),
    "r": lambda view: replace(view, reverse=not view.reverse, first=0),
    "/": lambda view: replace(view, typed="", help=False),
    " ": lambda view: replace(view, paused=not view.paused),
    "+": lambda view: paced(view, -1),
    "-": lambda view: paced(view, 1),
    "home": lambda view: replace(view, first=0),
    "h": lambda view: replace(view, help=not view.help),
    "?": lambda view: replace(view, help=not view.help),
}


PAGE_MAX = 500  # rows of one page, as the server has it
ASKED = "name,vhost,state,consumers,messages,messages_ready,messages_unacknowledged,message_stats"


@dataclass(frozen=True, slots=True)
class TopFacts:
    """One look at a server."""

    overview: dict[str, Any]
    nodes: list[dict[str, Any]]
    cluster: dict[str, Any] | None
    """Who has which shard; of several nodes."""
    queues: list[dict[str, Any]]
    queue_count: int
    """Those that the filter lets through, on this page or not."""
    firing: list[dict[str, Any]]
    """Alerts that no silence covers."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def look(broker: RemoteBroker, given: Namespace, view: TopView, rows: int) -> TopFacts:
    """Ask for everything that a screen with so many queues shows."""
    size = min(max(rows, 1), PAGE_MAX)
    query = {
        "page": view.first // size + 1,
        "page_size": size,
        "sort": COLUMNS[view.sort].source,
        "sort_reverse": str(view.reverse).lower(),
        "name": view.filter,
        "columns": ASKED,
    }
    vhost = target(given).vhost
    path = "/queues" if vhost is None else f"/queues/{quote(vhost, safe='')}"
    page = ask(broker, f"{path}?{urlencode(query)}")
    nodes = ask(broker, "/nodes")
    cluster = ask(broker, "/cluster") if len(nodes) > 1 else None
    firing = [row for row in ask(broker, "/alerts") if row["state"] == "firing" and not row["silence"]]
    return TopFacts(ask(broker, "/overview"), nodes, cluster, page["items"], page["filtered_count"], firing)
