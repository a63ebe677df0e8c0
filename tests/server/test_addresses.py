from leveret.config import ServerOptions
from leveret.server.addresses import bound_sockets


def test_any_free_port_is_the_same_on_every_address() -> None:
    options = ServerOptions(host="127.0.0.1, 127.0.0.2", amqp_port=0, http_port=0, sqs_port=None)
    with bound_sockets(options) as sockets:
        ports = {name: {bound.getsockname()[1] for bound in found} for name, found in sockets.items()}
        assert [len(found) for found in sockets.values()] == [2, 2]
    assert [len(found) for found in ports.values()] == [1, 1]
