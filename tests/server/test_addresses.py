import socket

import pytest

from leveret.config import ServerOptions
from leveret.protocols.net.addresses import announced_host, host_and_port, with_port
from leveret.server.addresses import announced, bound_sockets


def test_any_free_port_is_the_same_on_every_address() -> None:
    options = ServerOptions(host="127.0.0.1, 127.0.0.2", amqp_port=0, http_port=0, sqs_port=None)
    with bound_sockets(options) as sockets:
        ports = {name: {bound.getsockname()[1] for bound in found} for name, found in sockets.items()}
        assert [len(found) for found in sockets.values()] == [2, 2]
    assert [len(found) for found in ports.values()] == [1, 1]


def test_others_are_told_one_host_for_every_protocol() -> None:
    options = ServerOptions(host="127.0.0.1,127.0.0.2", amqp_port=0, http_port=0, sqs_port=None)
    with bound_sockets(options) as sockets:
        told = announced(sockets, "broker1.nodes")
        assert told == {name: f"broker1.nodes:{found[0].getsockname()[1]}" for name, found in sockets.items()}


def test_a_node_that_listens_everywhere_is_called_by_the_name_of_its_machine() -> None:
    assert announced_host("10.0.0.1") == "10.0.0.1"
    assert announced_host("0.0.0.0") == announced_host("::") == socket.gethostname()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "broker1.nodes"])
def test_an_address_is_read_as_it_was_written(host: str) -> None:
    assert host_and_port(with_port(host, 25_672)) == (host, 25_672)


@pytest.mark.parametrize("text", ["", "5672", ":5672", "host:", "host:port"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert host_and_port(text) is None
