"""Everything that has broken brokers, sent to a server process: others are served all the while, and memory stays."""

from leveret.wire import methods as m
from tests.fuzz.corpus import CORPUS
from tests.protocols.amqp.targets import SocketTarget
from tests.server.test_slow_clients import GROWTH_BYTES_MAX, connect, resident_bytes
from tests.server_process import ServerProcess


def test_a_good_client_does_not_notice_the_bad_ones(server: ServerProcess) -> None:
    place = SocketTarget("127.0.0.1", server.port)
    with connect(server) as good:
        good.call(1, m.QueueDeclare("good", durable=True))
        before = resident_bytes(server.pid)
        for number, data in enumerate(CORPUS.values()):
            with place.connect() as stranger, connect(server) as user:
                stranger.raw(data)
                user.raw(data)
                good.publish(1, m.BasicPublish("", "good"), None, str(number).encode())
                assert isinstance(good.call(1, m.BasicGet("good", no_ack=True)), m.BasicGetOk)
                assert good.content(1).body == str(number).encode()
        assert resident_bytes(server.pid) - before < GROWTH_BYTES_MAX
        good.leave()
