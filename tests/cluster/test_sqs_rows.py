"""Every refusal of SQS by a node, word by word as by a single server."""

from tests.cluster.cluster import name_in
from tests.cluster.sqs_world import NodeWorld
from tests.protocols.sqs.golden import GOLDEN, check, prepare
from tests.protocols.sqs.world import refused

LIMITED = "crowded"  # this queue is full for a setting that only tests have


def test_nodes_refuse_in_the_words_of_a_single_server() -> None:
    world = NodeWorld()
    prepare(world)
    cases = [case for case in GOLDEN if case.parameters.get("QueueUrl") != LIMITED]
    assert len(cases) > len(GOLDEN) / 2
    for case in cases:
        check(world, case)
    world.account.alarm = "memory"
    assert world.json("SendMessage", QueueUrl="orders", MessageBody="x").status == 503
    world.end()


def test_a_queue_that_one_node_has_deleted_cannot_be_made_again_at_another() -> None:
    world = NodeWorld()
    names = [name_in(shard, "orders") for shard in (0, 1)]
    for name in names:
        world.do("DeleteQueue", QueueUrl=world.create(name))
    world.ask("b")
    for name in names:
        with refused("QueueDeletedRecently"):
            world.create(name)
    world.later(60)
    for name in names:
        assert world.bodies(world.create(name)) == []
    world.end()
