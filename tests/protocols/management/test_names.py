"""Queues of several virtual hosts in one order, page by page."""

import leveret
from leveret.protocols.management.queues import ByName


def test_slices_go_across_virtual_hosts() -> None:
    with leveret.open() as broker:
        with broker.guard as core:
            homes = [core.topology.vhost("/"), *(core.declare_vhost(name) for name in ("empty", "other"))]
            for home, names in ((homes[0], "bca"), (homes[2], "ed")):
                for name in names:
                    core.declare_queue(home.name, name, {})
        queues = ByName(broker.guard, homes)
        wanted = list("abcde")
        assert len(queues) == len(wanted)
        assert [queue.name for queue in queues] == wanted
        for start in range(7):
            for stop in range(7):
                assert [queue.name for queue in queues[start:stop]] == wanted[start:stop]
        assert queues[3].name == "d"
