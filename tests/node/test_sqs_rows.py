"""Every refusal of SQS by a node, word by word as by a single server."""

from tests.node.sqs_world import NodeWorld
from tests.sqs.test_errors import GOLDEN, check, prepare

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
