"""What the live view asks a server for, in a few requests that are small however many queues there are."""

from argparse import Namespace
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, urlencode

from leveret.cli.connection import ask, target
from leveret.cli.top.view import COLUMNS, TopView
from leveret.client.broker import RemoteBroker

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

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
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
    return TopFacts(ask(broker, "/overview"), nodes, cluster, page["items"], page["filtered_count"])
