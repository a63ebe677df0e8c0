"""The names in answers: those that a real RabbitMQ gave are there, but for what is known to be missing."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.protocols.management.record import places
from tests.protocols.management.recorded import RECORDED
from tests.protocols.management.requests import READ, place
from tests.protocols.management.scene import Api, paths, traffic
from tests.server_process import ServerProcess

# What RabbitMQ tells of its own machinery, and what is not counted here: docs/management.md names both.
MACHINERY = re.compile(
    r"garbage_collection|reductions|backing_queue_status|recoverable_slaves|pending_raft_commands|cowboy_opts"
    r"|socket_opts|\.(gc_|io_|mnesia_|msg_store_|queue_index_|context_switches|ra_open_file|metrics_gc_queue)"
    r"|^\.memory\.(?!total|strategy|other_system)|user_who_performed_action|javascript|NODE"
)
UNCOUNTED = re.compile(
    r"(get_empty|get_no_ack|drop_unroutable|return_unroutable|disk_reads|disk_writes|publish_in|publish_out)(_details|$)"
    r"|messages?(_bytes|_ready|_unacknowledged)?_(paged_out|persistent|ram)$|message_bytes_unacknowledged|idle_since"
    r"|\.(mem_used|fd_used|sockets_used|proc_used|disk_free)_details"
)
# Only in some answers.
PARTLY = {
    r"^/vhosts": re.compile(r"(recv|send)_oct"),
    r"^/(overview|vhosts)": re.compile(r"message_stats\.confirm"),
    r"^/(connections/.*)?channels|/channels": re.compile(r"deliver_no_ack"),
    r"^/exchanges": re.compile(r"message_stats"),
    r"^/queues(\?|$|/\{vhost\}$)": re.compile(r"head_message_timestamp"),
    r"^/definitions$": re.compile(r"hashing_algorithm"),
}


@pytest.fixture(scope="module")
def told(server: ServerProcess) -> Iterator[dict[str, set[str]]]:
    api = Api(server.ports["http"])
    with traffic(server.port):
        named = places(api)
        node = json.dumps(api.get("/overview")["node"])[1:-1]
        yield {path: {each.replace(node, "NODE") for each in paths(api.get(place(path, named)))} for path in READ}


def is_known(path: str, name: str) -> bool:
    """Whether a name is one of those that are missing for a reason."""
    partly = (names for where, names in PARTLY.items() if re.search(where, path))
    return any(names.search(name) for names in (MACHINERY, UNCOUNTED, *partly))


@pytest.mark.parametrize("path", READ)
def test_an_answer_has_the_names_of_rabbitmqs(told: dict[str, set[str]], path: str) -> None:
    missing = {name for name in set(RECORDED["shapes"][path]) - told[path] if not is_known(path, name)}
    assert not missing


def test_what_is_said_to_be_missing_is(told: dict[str, set[str]]) -> None:
    for pattern in (UNCOUNTED, *PARTLY.values()):
        assert any(pattern.search(name) for path in READ for name in set(RECORDED["shapes"][path]) - told[path])
