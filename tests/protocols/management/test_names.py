"""Queues of several virtual hosts in one order, page by page."""

import leveret
from leveret.protocols.management.queues import ByName


def test_slices_go_across_virtual_hosts() -> None:
    with leveret.open() as broker:
        with broker.runtime as core:
            virtual_hosts = [core.topology.vhost("/"), *(core.declare_vhost(name) for name in ("empty", "other"))]
            for virtual_host, names in ((virtual_hosts[0], "bca"), (virtual_hosts[2], "ed")):
                for name in names:
                    core.declare_queue(virtual_host.name, name, {})
        queues = ByName(broker.runtime, virtual_hosts)
        wanted = list("abcde")
        assert len(queues) == len(wanted)
        assert [queue.name for queue in queues] == wanted
        for start in range(7):
            for stop in range(7):
                assert [queue.name for queue in queues[start:stop]] == wanted[start:stop]
        assert queues[3].name == "d"
