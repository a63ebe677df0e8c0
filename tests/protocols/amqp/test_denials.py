"""Who may do what, on the wire: each verb with every permission but one is refused, and with all of them is not."""

from collections.abc import Iterator

import pytest

from leveret.operations.registry import OPERATIONS
from leveret.protocols.amqp.channel import HANDLERS
from leveret.security.authorisation import Right
from leveret.security.passwords import hash_password
from leveret.wire import methods as m
from leveret.wire.codec import LAYOUT_OF
from leveret.wire.methods import Method
from tests.cluster.proxy_world import FrontWorld
from tests.protocols.amqp.client import CHEAP, Client, World

NAMES = {
    "queue": "q",
    "exchange": "x",
    "source": "from",
    "destination": "to",
    "dead_letter_exchange": "dlx",
    "alternate_exchange": "alt",
}
ACCESSES = ("configure", "write", "read")
VERBS: dict[str, Method] = {
    "exchange.declare": m.ExchangeDeclare("x", "topic", arguments={"alternate-exchange": "alt"}),
    "exchange.delete": m.ExchangeDelete("x"),
    "exchange.bind": m.ExchangeBind("to", "from", "k"),
    "exchange.unbind": m.ExchangeUnbind("to", "from", "k"),
    "queue.declare": m.QueueDeclare("q", arguments={"x-dead-letter-exchange": "dlx"}),
    "queue.delete": m.QueueDelete("q"),
    "queue.bind": m.QueueBind("q", "x", "k"),
    "queue.unbind": m.QueueUnbind("q", "x", "k"),
    "queue.purge": m.QueuePurge("q"),
    "basic.publish": m.BasicPublish("x", "k"),
    "basic.get": m.BasicGet("q"),
    "basic.consume": m.BasicConsume("q", "c"),
}


def rights(verb: str) -> list[Right]:
    """What a verb needs of the names of this test."""
    return [right for right in OPERATIONS[verb].rule.rights if right.role in NAMES]


def all_but(name: str) -> str:
    """A pattern for every name of this test but one."""
    return "^(" + "|".join(other for other in NAMES.values() if other != name) + ")$"


CASES = [(verb, right) for verb in VERBS for right in rights(verb)]


@pytest.fixture(params=[World, FrontWorld], ids=["single server", "cluster"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A single server, and a node of a cluster."""
    made: World = request.param()
    yield made
    made.close()


@pytest.fixture
def ann(world: World) -> Client:
    """A user who may do everything, so far, in a world with all that the verbs name."""
    with world.broker.runtime:
        world.access.add_user("ann", hash_password("secret", CHEAP))
        world.access.set_permission("ann", "/", ".*", ".*", ".*")
    owner = world.client()
    for name in ("x", "from", "to"):
        table = {"alternate-exchange": "alt"} if name == "x" else {}
        owner.send(m.ExchangeDeclare(name, "topic", arguments=table))
    owner.queue("q", arguments={"x-dead-letter-exchange": "dlx"})
    return world.client(user="ann", password="secret")


def attempt(client: Client, method: Method) -> list[Method]:
    """Call a verb; give all answers."""
    client.received()
    if isinstance(method, m.BasicPublish):
        client.send_content(method, None, b"body")
    else:
        client.send(method)
    return [each.method for each in client.received()]


def make_room(world: World, verb: str) -> None:
    """What is declared must not be there: of what is, only configure is asked."""
    if verb.endswith("declare"):
        owner = world.client()
        owner.send(m.QueueDelete("q"))
        owner.send(m.ExchangeDelete("x"))


def limit(world: World, **patterns: str) -> None:
    """Leave ann these permissions, and all others."""
    with world.broker.runtime:
        world.access.set_permission("ann", "/", *(patterns.get(access, ".*") for access in ACCESSES))


def test_every_verb_with_needs_is_tried() -> None:
    known = {"basic.publish", *(LAYOUT_OF[method].spec.name for method in HANDLERS)}
    assert set(VERBS) == {name for name in known & OPERATIONS.keys() if OPERATIONS[name].rule.rights}


@pytest.mark.parametrize(("verb", "need"), CASES, ids=[f"{verb}, {need.access} {need.role}" for verb, need in CASES])
def test_a_verb_without_one_of_its_permissions(world: World, ann: Client, verb: str, need: Right) -> None:
    name = NAMES[need.role]
    make_room(world, verb)
    limit(world, **{need.access: all_but(name)})
    kind = "queue" if need.role == "queue" else "exchange"
    spec = VERBS[verb].spec
    text = f"ACCESS_REFUSED - {need.access} access to {kind} '{name}' in vhost '/' refused for user 'ann'"
    assert attempt(ann, VERBS[verb]) == [m.ChannelClose(403, text, spec.class_id, spec.method_id)]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_with_no_more_than_its_permissions(world: World, ann: Client, verb: str) -> None:
    needed = {
        access: "^(" + "|".join(NAMES[need.role] for need in rights(verb) if need.access == access) + ")$"
        for access in ACCESSES
    }
    make_room(world, verb)
    limit(world, **needed)
    assert not any(isinstance(answer, m.ChannelClose) for answer in attempt(ann, VERBS[verb]))


def test_a_permission_that_is_taken_away_is_gone_for_the_next_publish(world: World, ann: Client) -> None:
    assert attempt(ann, VERBS["basic.publish"]) == []
    assert attempt(ann, VERBS["basic.publish"]) == []
    limit(world, write="^$")
    (close,) = attempt(ann, VERBS["basic.publish"])
    assert isinstance(close, m.ChannelClose)
    assert close.reply_code == 403


def test_a_key_that_is_denied_is_denied_however_it_is_named(world: World, ann: Client) -> None:
    with world.broker.runtime:
        world.access.set_topic_permission("ann", "/", "x", "^{username}\\.", "^{username}\\.")
    assert attempt(ann, m.BasicPublish("x", "ann.news")) == []
    assert attempt(ann, m.QueueBind("q", "x", "ann.#")) == [m.QueueBindOk()]
    for method in (m.QueueBind("q", "x", "bob.#"), m.BasicPublish("x", "bob.news"), m.BasicPublish("x", "annXnews")):
        client = world.client(user="ann", password="secret")
        (close,) = attempt(client, method)
        assert isinstance(close, m.ChannelClose)
        assert close.reply_code == 403


BINDINGS: dict[str, tuple[Method, str]] = {
    "queue.bind, both empty": (m.QueueBind("", "x", ""), "q"),
    "queue.bind, empty queue": (m.QueueBind("", "x", "k"), "k"),
    "queue.bind, empty key": (m.QueueBind("q", "x", ""), ""),
    "queue.unbind, both empty": (m.QueueUnbind("", "x", ""), "q"),
    "queue.unbind, empty queue": (m.QueueUnbind("", "x", "k"), "k"),
    "queue.unbind, empty key": (m.QueueUnbind("q", "x", ""), ""),
    "exchange.bind": (m.ExchangeBind("to", "x", "k"), "k"),
    "exchange.bind, empty key": (m.ExchangeBind("to", "x", ""), ""),
    "exchange.unbind": (m.ExchangeUnbind("to", "x", "k"), "k"),
    "exchange.unbind, empty key": (m.ExchangeUnbind("to", "x", ""), ""),
}


@pytest.mark.parametrize("allowed", ["q", "k", ""], ids=["allows q", "allows k", "allows nothing but the empty key"])
@pytest.mark.parametrize(("method", "key"), BINDINGS.values(), ids=list(BINDINGS))
def test_the_topic_permission_is_asked_for_the_key_of_the_binding(
    world: World, ann: Client, method: Method, key: str, allowed: str
) -> None:
    with world.broker.runtime:
        world.access.set_topic_permission("ann", "/", "x", "", f"^({allowed})$")
    ann.queue("q", passive=True)
    (answer,) = attempt(ann, method)
    assert isinstance(answer, m.ChannelClose) == (key != allowed)
    if isinstance(answer, m.ChannelClose):
        assert answer.reply_code == 403
        assert f"topic '{key}' in exchange 'x'" in answer.reply_text


def test_unbinding_without_queue_and_key_undoes_binding_without_them(world: World, ann: Client) -> None:
    ann.queue("q", passive=True)
    assert attempt(ann, m.QueueBind("", "x", "")) == [m.QueueBindOk()]
    assert [each.key for each in world.core.topology.vhost("/").exchange("x").bindings.values()] == ["q"]
    assert attempt(ann, m.QueueUnbind("", "x", "")) == [m.QueueUnbindOk()]
    assert not world.core.topology.vhost("/").exchange("x").bindings
