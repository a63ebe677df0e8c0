"""Policies and operator policies: which applies, and what it comes to beside arguments."""

from tests.rabbitmq.operations import bind, confirm, exchange, get, peek, publish, queue, reject
from tests.rabbitmq.script import Listen, Script, Step

# fmt: off

def filled(name: str, **arguments: int) -> list[Step]:
    """A queue that got four messages; `max_length=3` is x-max-length: 3."""
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return [queue(name, named), *(publish(name, body) for body in "abcd"), Listen(0.2)]


SCENARIOS: dict[str, Script] = {
    "a length": [*filled("short.q"), peek("short.q"), get("short.q")],
    "a length, and a smaller argument": [*filled("short.q", max_length=1), peek("short.q")],
    "a length, and a larger argument": [*filled("short.q", max_length=3), peek("short.q")],
    "a name that is not meant": [*filled("q.short"), peek("q.short")],
    "a policy is not an argument": [queue("short.q"), queue("short.q"), queue("short.q", {"x-max-length": 2})],
    "overflow": [
        queue("rejecting.q"), confirm(), publish("rejecting.q"), Listen(), publish("rejecting.q"), Listen(),
        peek("rejecting.q"),
    ],
    "overflow, and an argument that says otherwise": [
        queue("rejecting.q", {"x-overflow": "drop-head"}), confirm(), publish("rejecting.q", "a"), Listen(),
        publish("rejecting.q", "b"), Listen(), get("rejecting.q"),
    ],
    "time to live": [queue("brief.q"), publish("brief.q"), Listen(0.5), peek("brief.q")],
    "time to live, and a larger argument": [
        queue("brief.q", {"x-message-ttl": 60_000}), publish("brief.q"), Listen(0.5), peek("brief.q"),
    ],
    "dead letters": [
        queue("dead"), queue("dying.q"), publish("dying.q"), Listen(0.1), get("dying.q", no_ack=False), reject(1),
        Listen(0.2), get("dead"),
    ],
    "dead letters, and an argument that leads elsewhere": [
        queue("dead"), queue("other"), queue("dying.q", {"x-dead-letter-exchange": "amq.direct"}),
        bind("amq.direct", "other", "dead"), publish("dying.q"), Listen(0.1), get("dying.q", no_ack=False), reject(1),
        Listen(0.2), get("dead"), get("other"),
    ],
    "an expiring queue": [queue("leaving.q"), Listen(0.9), peek("leaving.q")],
    "an alternate exchange": [
        queue(), bind("amq.fanout"), exchange("lost.x"), publish("k", source="lost.x"), Listen(0.1), get(),
    ],
    "the highest priority, alone": [*filled("ranked.q"), peek("ranked.q")],
    "for exchanges, not for a queue of that name": [
        queue(), bind("amq.fanout"), queue("lost.q"), exchange("lost.q"), publish("k", source="lost.q"), Listen(0.1),
        get(), peek("lost.q"),
    ],
    "an operator policy over a policy": [*filled("capped.q"), peek("capped.q")],
    "an operator policy over an argument": [*filled("capped.q", max_length=4), peek("capped.q")],
    "an operator policy and a smaller argument": [*filled("capped.q", max_length=1), peek("capped.q")],
    "an operator policy alone": [queue("operated.q"), publish("operated.q"), Listen(0.5), peek("operated.q")],
}
