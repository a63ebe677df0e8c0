"""Health checks: 200 when all is well, 503 with the reason otherwise."""

from __future__ import annotations

from collections.abc import Awaitable

from leveret.core.broker import Broker
from leveret.core.properties import Properties
from leveret.core.queue import Queue
from leveret.http.management.call import Call
from leveret.http.management.overview import protocol_of
from leveret.http.management.refusals import BadRequest, Missing, answer
from leveret.http.management.site import Row
from leveret.http.router import Answer

UNITS_MS = {"days": 86_400_000, "weeks": 604_800_000, "months": 2_592_000_000, "years": 31_536_000_000}
TEST_QUEUE = "aliveness-test"
SINGLE = "single node cluster"


def ok(**facts: object) -> Answer:
    """All is well."""
    return answer({"status": "ok", **facts})


def failed(reason: str, **facts: object) -> Answer:
    """Something is not."""
    return answer({"status": "failed", "reason": reason, **facts}, 503)


def alarms(call: Call) -> Answer:
    """Whether there is enough memory and disk."""
    alarm, node = call.site.process.alarm(), call.site.process.node
    if alarm is None:
        return ok()
    short = [what for what in ("memory", "disk") if what in alarm]
    return failed("There are alarms in effect", alarms=[{"node": node, "resource": what} for what in short])


def node_alarms(call: Call) -> Answer:
    """The same for the node that the path names."""
    if call.named("node") != call.site.process.node:
        raise Missing()
    return alarms(call)


def port_listener(call: Call) -> Answer:
    """Whether somebody listens on a port."""
    text = call.named("port")
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise BadRequest("Invalid port: it is a number")
    ports = sorted({each.port for each in call.site.process.listening()})
    if int(text) in ports:
        return ok(port=int(text))
    return failed("No active listener", missing=int(text), ports=ports)


def protocol_listener(call: Call) -> Answer:
    """Whether somebody listens for a protocol."""
    wanted = call.named("protocol")
    known = sorted({protocol_of(each) for each in call.site.process.listening()})
    spellings = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqps": "amqp/ssl"}
    if spellings.get(wanted, wanted) in known:
        return ok(protocol=wanted)
    return failed("No active listener", missing=wanted, protocols=known)


def virtual_hosts(call: Call) -> Answer:
    """Whether all virtual hosts run: they do as long as the broker does."""
    with call.site.desk.guard:
        return ok()


def single_node(call: Call) -> Answer:
    """Whether others depend on this node: there are none."""
    return ok(reason=SINGLE)


def certificate_expiration(call: Call) -> Answer:
    """Whether the certificate is valid for some time more."""
    within, unit = call.named("within"), call.named("unit")
    if unit not in UNITS_MS or not (within.isascii() and within.isdigit() and len(within) <= 4):
        raise BadRequest(f"Invalid expiration: a number and one of {', '.join(UNITS_MS)}")
    process = call.site.process
    with call.site.desk.guard as core:
        last_ms = core.now_ms + int(within) * UNITS_MS[unit]
    ends_ms = process.certificate_ends_ms()
    expired: list[Row] = [] if ends_ms is None or ends_ms > last_ms else [{"expires_on": ends_ms}]
    lists = {name: at_ms for name, at_ms in process.lists_end_ms().items() if at_ms <= last_ms}
    expired += [{"revocation_list": name, "expires_on": at_ms} for name, at_ms in lists.items()]
    if not expired:
        return ok()
    return failed("Certificates expiring", expired=[{"node": process.node, **row} for row in expired])


def test_queue(call: Call, core: Broker) -> Queue:
    """The queue for the test of a virtual host, made if need be; under the lock."""
    home = call.home(core)
    for verb in ("queue.declare", "basic.get"):
        call.authorize(verb, {"queue": TEST_QUEUE})
    call.authorize("basic.publish", {"exchange": ""})
    queue: Queue = home.queues.get(TEST_QUEUE) or core.declare_queue(home.name, TEST_QUEUE, durable=False)
    core.check_owner(queue, None)
    return queue


def aliveness(call: Call) -> Answer | Awaitable[Answer]:
    """Send a message to a queue of its own and take it again."""

    def test(core: Broker) -> Answer:
        queue = test_queue(call, core)
        core.publish_through(queue.vhost, "", TEST_QUEUE, Properties(), b"test_message", persistent=False)
        for held in queue.take(1):
            queue.ack(held, held.lease)
            return ok()
        return failed("the message did not arrive")

    return call.change(test)
